"""Compute cross-entropies of hidden states and a vocabulary's weight, without ever storing the logits.

loss[t] = log(sum over v of exp(hidden[t] @ weight[v])) - hidden[t] @ weight[target[t]]
"""

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, block_size


def arrangement(hidden, weight, target, loss, M=block_size(), V=block_size(), D=block_size()):
    hidden = hidden.tile(M, D, loop=1).squeeze(1)  # (tokens / M), (depth / D), (M, D)
    weight = weight.permute(1, 0).tile(D, V, loop=(0, 1)).squeeze(1)
    weight = weight.expand(hidden.shape)  # the same for all programs: (depth / D, vocabulary / V), (D, V)
    return hidden, weight, target.tile(M), loss.tile(M)


def application(hidden, weight, target, loss):
    peak = ntl.full(loss.shape, float("-inf"), dtype=ntl.float32)
    total = ntl.zeros(loss.shape, dtype=ntl.float32)
    chosen = ntl.zeros(loss.shape, dtype=ntl.float32)

    for v in range(weight.shape[1]):
        # Not from zeros, which would count past the end of the vocabulary: the first product knows where it ends.
        logits = ntl.dot(hidden[0], weight[0, v])
        for d in range(1, hidden.shape[0]):
            logits += ntl.dot(hidden[d], weight[d, v])

        highest = ntl.maximum(peak, ntl.max(logits, axis=1))
        total = total * ntl.exp(peak - highest) + ntl.sum(ntl.exp(logits - highest[:, None]), axis=1)
        is_target = weight[0, v].offsets(0)[None, :] == target[:, None]
        chosen += ntl.sum(ntl.where(is_target, logits, 0.0), axis=1)
        peak = highest

    loss = peak + ntl.log(total) - chosen


kernel = ninetoothed.make(
    arrangement, application, (Tensor(2), Tensor(2), Tensor(1), Tensor(1)), kernel_name="linear_cross_entropy"
)
