"""Run by `test_interpreter` under TRITON_INTERPRET=1: the kernels, interpreted, against the CPU backend and PyTorch."""

import math
import warnings

import torch
import torch.nn.functional as F

from ninetoothed_ops.kernels import rope
from tests.ninetoothed.backends.interpreted import interpret
from tests.ninetoothed_ops import samples
from tests.ninetoothed_ops.kernels import calls


def turned(query, sin, cos):
    return samples.rope(query.flatten(2, 3), sin[:, :, 0], cos[:, :, 0], False).view(query.shape)


def heads_turned(projected, sin, cos):
    """Rotate heads of 16 columns, but the last two, which are values."""
    heads = projected.unflatten(1, (1, -1, 16))
    rotated = samples.rope(heads[:, :, :-2], sin[:, None], cos[:, None], False)
    return torch.cat((rotated, heads[:, :, -2:]), 2).flatten(1)


def capped_attention(query, key, value, mask, scale, masking, is_causal, softcap):
    scores = softcap * torch.tanh(query @ key.mT * scale / softcap)
    return scores.masked_fill(torch.ones_like(scores).triu(1) > 0, -math.inf).softmax(-1) @ value


REFERENCES = {
    "add": lambda x, y, alpha: x + alpha * y,
    "addmm": lambda input, x, y, beta, alpha: beta * input + alpha * (x @ y),
    "activation": F.gelu,
    "bmm": torch.matmul,
    "cross_entropy": lambda x, target, weight, _, keep, *__: keep * weight[target.long()] + 0.1,
    "gated": lambda gate, up: F.gelu(gate) * up,
    "conv2d_backward_input": F.conv_transpose2d,
    "conv2d_backward_weight": lambda grad, image: torch.nn.grad.conv2d_weight(image, (7, 5, 3, 3), grad),
    "sum_of_parts": lambda parts: parts.sum(0),
    "repack": lambda input: input,
    "conv2d": lambda input, weight, bias, _: F.conv2d(input, weight, bias),
    "layer_norm": lambda x, w, b, eps, *_: layer_norm(w, b, eps)(x),
    "linear_rope_into_cache": lambda x, w, sin, cos, *_: heads_turned(x @ w, sin, cos),
    "linear_swiglu": lambda x, weights: F.silu(x @ weights[0].mT) * (x @ weights[1].mT),
    "mm": torch.matmul,
    "rms_norm": lambda x, weight, eps, _: F.rms_norm(x, weight.shape, weight, eps),
    "rope": lambda x, sin, cos: samples.rope(x, sin[:, :, 0], cos[:, :, 0]),
    "rope_into_cache": lambda q, k, v, sin, cos, *_: turned(q, sin, cos),
    "rope_pair": lambda _, x, sin, cos, __: samples.rope(x, sin[:, :, 0], cos[:, :, 0], False),
    "rope_partial": lambda x, sin, cos, *_: samples.rope(x, sin[:, :, 0], cos[:, :, 0], False, None, True),
    "sdpa": lambda q, k, v, mask, scale, *_: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale),
    "sdpa_capped": capped_attention,
    "silu": F.silu,
    "softmax": lambda x: x.softmax(-1),
    "add_rms_norm": lambda x, y, _, weight, eps, __: F.rms_norm(x + y, weight.shape, weight, eps),
    "swiglu": lambda gate, up: F.silu(gate) * up,
}
REFERENCES |= {
    "activation_backward": torch.ops.aten.gelu_backward,
    "cross_entropy_backward": lambda grad, x, target, weight, _, keep, spread, __, z_loss, lse, mass, *___: (
        grad[:, None] * ((mass + 2 * z_loss * lse) * (x.T - lse).exp()).T.sub(shares(target, weight, keep, spread))
    ),
    "linear_cross_entropy": lambda _, *arguments: loss_of(*arguments),
    "gated_backward": lambda grad, gate, *_: grad * F.gelu(gate),
    "column_sums": lambda x: x.sum(0, keepdim=True),
    "layer_norm_backward": lambda grad, x, w, eps, _: pulled_back(layer_norm(w, None, eps), x, grad),
    "layer_norm_weight_backward": lambda grad, *_: torch.stack([rows.sum(0) for rows in grad.split(4)]),
    "rms_norm_backward": lambda grad, x, w, eps, addend, *_: addend + pulled_back(rms_norm(w, eps), x, grad),
    "rms_norm_weight_backward": lambda grad, x, w, eps, *_: torch.stack(
        [rows.sum(0) for rows in (grad * rms_norm(None, eps)(x)).split(4)]
    ),
    "rope_backward": lambda grad, sin, cos: pulled_back(
        lambda x: samples.rope(x, sin[:, :, 0], cos[:, :, 0]), torch.empty_like(grad), grad
    ),
    "sdpa_backward_delta": lambda grad, output: (grad * output).sum(-1, keepdim=True),
    "sdpa_backward_key_value": lambda *arguments: weights(*arguments).mT @ arguments[8],
    "sdpa_backward_query": lambda *arguments: slopes(*arguments) @ arguments[1] * arguments[6],
    "silu_backward": torch.ops.aten.silu_backward,
    "softmax_backward": lambda grad, output: torch.ops.aten._softmax_backward_data(grad, output, 1, torch.float64),
    "swiglu_backward": lambda grad, gate, up, _: grad * F.silu(gate),
}

# Of training: those of channels have images (n, g, k, p), and vectors without the p.
REFERENCES |= {
    "channel_moments": lambda image, _: in_parts(lambda part: (part - part.mean(3, keepdim=True)) ** 2, image),
    "moments_of_parts": lambda means, squares, _, pixels, size: joined(means, squares, pixels, size),
    "channel_norm": lambda x, mean, variance, weight, bias, eps, *_: normalised(x, mean, variance, weight, bias, eps),
    "channel_sums": lambda grad, x, mean, _: in_parts(lambda part: part, grad * (x - mean[..., None])),
    "channel_totals": lambda _, products, weight, *__: (products * weight[..., None]).sum((2, 3)),
    "channel_vectors": lambda _, products, variance, __, eps, *___: (
        products * torch.rsqrt(variance + eps)[..., None]
    ).sum((2, 3)),
    "channel_norm_backward": lambda grad, x, *others: slope_of(grad, x, *others),
    "dropout": lambda x, seed, rate, scale: x * scale * kept(x, seed, rate),
    "dropout_of_rows": lambda x, seed, rate, scale: x * scale * kept(x, seed, rate),
    "embedding": lambda ids, table: table[ids.long()],
    "embedding_backward": lambda order, starts, ends, grad, _: torch.stack(
        [grad[order[a:b].long()].sum(0) / max(b - a, 1) for a, b in zip(starts.long().tolist(), ends.long().tolist())]
    ),
    "jsd": lambda x, target, labels, ignored, beta, *_: divergence(x, target, beta).sum(1) * (labels != ignored),
    "jsd_backward": lambda grad, x, target, labels, ignored, beta, *_: pulled_back(
        lambda target: divergence(x, target, beta).sum(1) * (labels != ignored), target, grad
    ),
    "kl_div": lambda x, target, _: target.exp() * (target - x),
    "kl_div_of_rows": lambda x, target, _: (target.exp() * (target - x)).sum(1),
    "kl_div_backward": lambda grad, x, target, scale, *_: scale * grad * target.exp() * (target + 1 - x),
    "swiglu_backward_with_output": lambda _, gate, up, *__: F.silu(gate) * up,
}


def in_parts(function, image):
    """Sums of a function of the parts of an image's channels."""
    return torch.cat([function(part).sum(3, keepdim=True) for part in image.split(1024, 3)], 3)


def joined(means, squares, pixels, size):
    """The variance of parts of `size` pixels, but for the last."""
    counts = (pixels - size * torch.arange(means.shape[3])).clamp(max=size)
    number = counts.sum() * means.shape[2]
    mean = (means * counts).sum((2, 3), keepdim=True) / number
    return (squares + counts * (means - mean).square()).sum((2, 3)) / number


def normalised(x, mean, variance, weight, bias, eps):
    mean, scale, bias = (each[..., None] for each in (mean, weight * torch.rsqrt(variance + eps), bias))
    return (x - mean) * scale + bias


def slope_of(grad, x, mean, variance, weight, total, product, eps, share, *_):
    """The gradient of a norm whose total and product are given."""
    mean, variance, weight, total, product = (each[..., None] for each in (mean, variance, weight, total, product))
    along = (x - mean) * product / (variance + eps)
    return (grad * weight - share * (total + along)) * torch.rsqrt(variance + eps)


def kept(x, seed, rate):
    return torch.ops.ninetoothed.dropout_of_seed(torch.ones_like(x), seed.long(), rate) != 0


def divergence(x, target, beta):
    mixture = (beta * target.exp() + (1 - beta) * x.exp()).log()
    return beta * target.exp() * (target - mixture) + (1 - beta) * x.exp() * (x - mixture)


def shares(target, weight, keep, spread):
    return F.one_hot(target.long(), len(weight)) * (keep * weight) + spread * weight


def loss_of(logits, target, weight, _, keep, spread, total, __, z_loss, *___):
    """The loss of classes, of which all have `total` together."""
    lse, own = logits.logsumexp(1), keep * weight[target.long()]
    return (own + total) * lse - (shares(target, weight, keep, spread) * logits).sum(1) + z_loss * lse * lse


def weights(query, key, value, mask, lengths, seed, scale, rate, grad, lse, *_):
    """Weights that need not add up to 1."""
    return torch.exp2(query @ key.mT * (scale / math.log(2)) - lse).tril()


def slopes(*arguments):
    """The gradients of scores."""
    value, grad, delta = (arguments[i] for i in (2, 8, 11))
    return weights(*arguments) * (grad @ value.mT - delta)


def rms_norm(weight, eps):
    return lambda x: F.rms_norm(x, x.shape[-1:], weight, eps)


def layer_norm(weight, bias, eps):
    return lambda x: F.layer_norm(x, x.shape[-1:], weight, bias, eps)


def pulled_back(function, x, grad):
    return torch.func.vjp(function, x)[1](grad)[0]


def check(name, dtype, tolerance):
    torch.manual_seed(0)
    kernel, arguments = calls.small(name, dtype)
    compare(f"{name} of {dtype}", kernel, arguments, REFERENCES[name], tolerance)


def compare(what, kernel, arguments, reference, tolerance):
    place = max(i for i, value in enumerate(arguments) if isinstance(value, torch.Tensor))
    inputs = [*arguments[:place], *arguments[place + 1 :]]
    wide = [value.double() if isinstance(value, torch.Tensor) else value for value in inputs]
    expected = reference(*wide)
    found = {}
    for backend, run in (("interpreter", lambda *values: interpret(kernel, values)), ("cpu", kernel)):
        output = torch.full_like(arguments[place], float("nan"))
        # One is written in place.
        given = [value.clone() if isinstance(value, torch.Tensor) else value for value in arguments]
        run(*given[:place], output, *given[place + 1 :])
        found[backend] = output.double()
        error = (found[backend] - expected).norm() / expected.norm()
        assert error <= tolerance, f"{what} by the {backend}: relative error {error}"
    difference = (found["interpreter"] - found["cpu"]).norm() / expected.norm()
    assert difference <= tolerance, f"{what}: the backends differ by {difference}"


def check_tables(interleaved, rows):
    def rotated(x, sin, cos):
        sin, cos = (table.mT.flatten(2) if interleaved and rows == 2 else table.flatten(2) for table in (sin, cos))
        return samples.rope(x, sin, cos, interleaved)

    x, *tables = torch.randn(2, 3, 5, 12), torch.randn(2, 3, rows, 6), torch.randn(2, 3, rows, 6)
    compare("rope", rope.make(interleaved), (x, *tables, torch.empty_like(x)), rotated, 1e-5)


if __name__ == "__main__":
    # Rows past the end that a program takes with others are -inf throughout, less their peak NaN: nobody reads them.
    warnings.filterwarnings("ignore", "invalid value encountered in subtract", RuntimeWarning)
    for i, name in enumerate((*calls.NAMES, *calls.OPTIONS, *calls.GRADIENTS)):
        check(name, torch.float32, 1e-5)
        if i % 2:  # how text converts does not depend on the kernel
            check(name, torch.float16, 2e-3)
        print(name)
    for interleaved in (True, False):
        for rows in (1, 2):
            check_tables(interleaved, rows)
