"""A step of beam search: the best continuations of all beams of a sequence.

best[i] = the i-th greatest of scores[b] + log_p[b, v] over all beams b and tokens v; beams[i] and tokens[i] say which

The best so far are merged with those of one block after another, so that no row is sorted whole. Source: Graves,
"Sequence transduction with recurrent neural networks", 2012.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange

BLOCK = 1024


def arrangement(scores, log_p, best, beams, tokens):
    log_p = log_p.flatten(1).tile(None, BLOCK, loop=1).squeeze(1)  # (batch,), (blocks,), (BLOCK,)
    scores, *found = arrange.rows(scores, best, beams, tokens)
    return scores, log_p, *found


def application(scores, log_p, best, beams, tokens):
    count, vocabulary = best.shape[0], log_p.source.shape[2]
    found = ntl.full((count,), float("-inf"), dtype=ntl.float32)
    places = ntl.zeros((count,), dtype=ntl.int32)

    for i in range(log_p.shape[0]):
        here = i * BLOCK + ntl.arange(0, BLOCK)
        sums = log_p[i] + ntl.gather(scores, here // vocabulary, 0)
        values, own = ntl.topk(sums, count, return_indices=True)
        found, which = ntl.topk(ntl.ravel(ntl.join(found, values)), count, return_indices=True)
        places = ntl.gather(ntl.ravel(ntl.join(places, i * BLOCK + own)), which, 0)

    best, beams, tokens = found, places // vocabulary, places % vocabulary


width = (None, {"constexpr": True})
tensors = Tensor(2), Tensor(3), *(Tensor(2, shape_options=width) for _ in "abc")
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="beam_step")


def reference(scores, log_p):
    best, places = (scores[:, :, None] + log_p).flatten(1).topk(scores.shape[1])
    return best, places // log_p.shape[2], places % log_p.shape[2]


def beam_step(scores, log_p):
    best = torch.empty_like(scores)
    beams, tokens = (torch.empty_like(scores, dtype=torch.int64) for _ in range(2))
    kernel(scores, log_p, best, beams, tokens)
    return best, beams, tokens


def check(device):
    for batch, width, vocabulary in ((1, 3, 30), (3, 4, 700), (1, 1, 3), (2, 4, 500)):
        scores = torch.randn(batch, width, device=device)
        log_p = torch.randn(batch, width, vocabulary, device=device).log_softmax(2)
        yield from zip(beam_step(scores, log_p), reference(scores.double(), log_p.double()))


def timed(device):
    log_p = torch.randn(64, 4, 32000, device=device).log_softmax(2)
    return (torch.randn(64, 4, device=device), log_p), beam_step, reference
