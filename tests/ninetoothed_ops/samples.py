"""Arguments for each operator, many and odd, and the PyTorch function that says what is right for them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import ninetoothed_ops  # noqa: F401 - registers the operators
from tests.conftest import DEVICE

# The most exact type that every operator takes: products in float64 are for the CPU, and a GPU refuses them by name.
EXACT = torch.float64 if DEVICE == "cpu" else torch.float32
# For tests of products in float64 alone.
on_the_cpu = pytest.mark.skipif(DEVICE == "cuda", reason="products in float64 are for the CPU")


def operator(name: str):
    """`torch.ops.ninetoothed.NAME`."""
    return getattr(torch.ops.ninetoothed, name)


def rope(input, sin, cos, interleaved=True, rotary_dim=None, interleaved_output=None):
    """The definition, written out."""
    if rotary_dim is not None and rotary_dim < 0:
        rest, input = input[..., :rotary_dim], input[..., rotary_dim:]
        return torch.cat((rest, rope(input, sin, cos, interleaved, None, interleaved_output)), dim=-1)
    width = input.shape[-1] if rotary_dim is None else rotary_dim
    input, rest = input[..., :width], input[..., width:]
    if sin.shape[-1] != width:
        sin, cos = (t.repeat_interleave(2, -1) if interleaved else torch.cat((t, t), -1) for t in (sin, cos))
    sin, cos = ((table if table.ndim == 3 else table[None])[:, :, None, :] for table in (sin, cos))
    if interleaved:
        turned = torch.stack((-input[..., 1::2], input[..., 0::2]), dim=-1).flatten(-2)
    else:
        turned = torch.cat((-input.chunk(2, dim=-1)[1], input.chunk(2, dim=-1)[0]), dim=-1)
    output = input * cos + turned * sin
    if interleaved_output is not None and interleaved and not interleaved_output:
        output = torch.cat((output[..., 0::2], output[..., 1::2]), dim=-1)
    if interleaved_output and not interleaved:
        output = torch.stack(output.chunk(2, dim=-1), dim=-1).flatten(-2)
    return output if rotary_dim is None else torch.cat((output, rest), dim=-1)


def linear_cross_entropy(input, weight, target, bias=None, class_weight=None, **options):
    """The definition, written out."""
    logits = F.linear(input, weight, bias).flatten(end_dim=-2) if input.ndim > 1 else F.linear(input, weight, bias)
    return F.cross_entropy(logits, target.flatten() if input.ndim > 1 else target, class_weight, **options)


NAMESAKES: dict[str, Callable] = {
    "add": torch.add,
    "addmm": torch.addmm,
    "bmm": torch.bmm,
    "conv2d": F.conv2d,
    "cross_entropy": F.cross_entropy,
    "gelu": F.gelu,
    "layer_norm": F.layer_norm,
    "linear": F.linear,
    "linear_cross_entropy": linear_cross_entropy,
    "mm": torch.mm,
    "rms_norm": F.rms_norm,
    "rope": rope,
    "sdpa": F.scaled_dot_product_attention,
    "silu": F.silu,
    "softmax": torch.softmax,
    "swiglu": lambda gate, up: F.silu(gate) * up,
}


@dataclass(frozen=True)
class Sample:
    """One call of an operator."""

    operator: str
    label: str
    args: tuple
    kwargs: dict[str, Any] = field(default_factory=dict)

    def call(self, function: Callable):
        return function(*self.args, **self.kwargs)

    def map(self, convert: Callable) -> "Sample":
        """The sample with every tensor converted."""

        def apply(value):
            return convert(value) if isinstance(value, torch.Tensor) else value

        kwargs = {name: apply(value) for name, value in self.kwargs.items()}
        return Sample(self.operator, self.label, tuple(map(apply, self.args)), kwargs)


def random(*shape: int, dtype=torch.float32, layout: str = "contiguous") -> torch.Tensor:
    """Normal numbers in memory that is contiguous, transposed, sliced (steps, an offset) or expanded (strides of 0)."""
    match layout:
        case "contiguous":
            return torch.randn(shape, dtype=torch.float64, device=DEVICE).to(dtype)
        case "transposed":
            return random(*shape[:-2], shape[-1], shape[-2], dtype=dtype).mT
        case "sliced":
            larger = random(*(2 * size + 1 for size in shape), dtype=dtype)
            return larger[tuple(slice(1, None, 2) for _ in shape)]
        case "expanded":
            return random(1, *shape[1:], dtype=dtype).expand(shape)
    raise AssertionError(layout)


LAYOUTS = ("contiguous", "transposed", "sliced", "expanded")


def samples(operator: str, dtype: torch.dtype = torch.float32) -> dict[str, Sample]:
    """The samples of an operator by their labels; `dtype` is that of the tensors that have no other reason."""

    def r(*shape, **options):
        return random(*shape, **{"dtype": dtype, **options})

    calls = {label: call for label, *call in _CALLS[operator](r)}
    return {
        label: Sample(operator, label, tuple(call[0]), *(call[1:] if len(call) > 1 else ()))
        for label, call in calls.items()
    }


def check_gradient(sample: Sample, index: int, function: Callable, tolerance: float = 1e-5) -> None:
    """Compare the gradient of one argument, of a random scalar of the output, with the namesake's in float64."""
    check_gradients(sample, [index], function, tolerance)


def check_gradients(sample: Sample, indices: Sequence[int], function: Callable, tolerance: float = 1e-5) -> None:
    """Compare the gradients of some arguments, of a random scalar of the output, with the namesake's in float64."""
    wide = sample.map(lambda tensor: tensor.double() if tensor.is_floating_point() else tensor)
    found, expected = _gradients(sample, indices, function), _gradients(wide, indices, NAMESAKES[sample.operator])
    for index, own, theirs in zip(indices, found, expected):
        assert own.dtype == sample.args[index].dtype and own.shape == theirs.shape
        # Of one column, the gradient of a norm is what rounding leaves of a difference.
        assert (own - theirs).norm() <= tolerance * theirs.norm().clamp(min=1), f"{sample.label}: argument {index}"


def _gradients(sample: Sample, indices: Sequence[int], function: Callable) -> tuple[torch.Tensor, ...]:
    args = list(sample.args)
    for index in indices:
        args[index] = args[index].clone().requires_grad_()
    output = function(*args, **sample.kwargs)
    generator = torch.Generator(output.device).manual_seed(1)
    # Of few bits, so that every type holds them as they are.
    weights = torch.randn(output.shape, generator=generator, dtype=torch.float64, device=output.device).bfloat16()
    return torch.autograd.grad(output, [args[index] for index in indices], weights.to(output.dtype))


def _add(r) -> Iterator:
    for layout in LAYOUTS:
        yield layout, (r(7, 12, layout=layout), r(7, 12))
        yield f"{layout} both", (r(3, 5, 6, layout=layout), r(3, 5, 6, layout=layout))
    yield "long", (r(4097), r(4097))
    yield "alpha", (r(33), r(33)), {"alpha": 2.5}
    yield "integer alpha", (r(33), r(33)), {"alpha": -3}
    yield "row and column", (r(5, 1), r(1, 6))
    yield "ranks", (r(3, 4, 5), r(5))
    yield "number", (r(3, 4), r())
    yield "numbers", (r(), r())
    yield "channels last", (r(2, 3, 4, 5).to(memory_format=torch.channels_last), r(2, 3, 4, 5))
    yield "permuted", (r(2, 3, 4, 5).permute(3, 1, 0, 2), r(2, 3, 4, 5).permute(3, 1, 0, 2))
    yield "differently permuted", (r(2, 3, 4).permute(2, 0, 1), r(3, 4, 2).permute(1, 2, 0))
    yield "empty", (r(0), r(0))
    yield "empty by broadcasting", (r(0, 3), r(1, 3))
    yield "one", (r(1), r(1, 1, 1))


def _silu(r) -> Iterator:
    for layout in LAYOUTS:
        yield layout, (r(9, 14, layout=layout),)
        yield f"{layout} of three", (r(3, 5, 6, layout=layout),)
    yield "long", (r(4099),)
    yield "extreme", (r(64) * 40,)
    yield "permuted", (r(2, 3, 4, 5).permute(3, 1, 0, 2),)
    yield "number", (r(),)
    yield "empty", (r(3, 0, 2),)


def _mm(r) -> Iterator:
    for m, n, k in ((70, 90, 65), (1, 1, 1), (1, 5, 300), (16, 16, 16), (128, 64, 96), (3, 200, 2)):
        yield f"{m}x{n}x{k}", (r(m, k), r(k, n))
    for layout in LAYOUTS[1:]:
        yield f"{layout} left", (r(17, 33, layout=layout), r(33, 20))
        yield f"{layout} right", (r(17, 33), r(33, 20, layout=layout))
    yield "nothing to add", (r(4, 0), r(0, 5))
    yield "no rows", (r(0, 3), r(3, 5))
    yield "no columns", (r(4, 3), r(3, 0))


def _linear(r) -> Iterator:
    yield "plain", (r(2, 3, 33), r(20, 33))
    yield "bias", (r(2, 3, 33), r(20, 33), r(20))
    yield "one row", (r(33), r(20, 33), r(20))
    yield "rows", (r(17, 33), r(20, 33), r())
    yield "transposed", (r(4, 5, 33, layout="transposed"), r(20, 33, layout="transposed"), r(20))
    yield "sliced", (r(4, 5, 33, layout="sliced"), r(20, 33, layout="sliced"), r(20, layout="sliced"))
    yield "expanded", (r(4, 5, 33, layout="expanded"), r(20, 33), r(1).expand(20))
    yield "nothing to add", (r(2, 4, 0), r(5, 0), r(5))
    yield "empty", (r(2, 0, 3), r(5, 3), r(5))


def _addmm(r) -> Iterator:
    yield "matrix", (r(65, 70), r(65, 33), r(33, 70)), {"beta": 0.7, "alpha": 1.3}
    yield "row", (r(20), r(17, 33), r(33, 20))
    yield "column", (r(17, 1), r(17, 33), r(33, 20)), {"alpha": 2}
    yield "number", (r(), r(17, 33), r(33, 20))
    yield "transposed", (r(17, 20, layout="transposed"), r(17, 33, layout="transposed"), r(33, 20, layout="transposed"))
    yield "sliced", (r(17, 20, layout="sliced"), r(17, 33, layout="sliced"), r(33, 20, layout="sliced"))
    yield "ignored input", (r(17, 20) * float("nan"), r(17, 33), r(33, 20)), {"beta": 0}
    yield "nothing to add", (r(4, 5), r(4, 0), r(0, 5)), {"beta": 0.5}
    yield "nothing to add, infinitely often", (r(4, 5), r(4, 0), r(0, 5)), {"alpha": float("inf")}
    yield "empty", (r(5), r(0, 3), r(3, 5))


def _bmm(r) -> Iterator:
    yield "odd", (r(3, 40, 37), r(3, 37, 50))
    yield "one", (r(1, 1, 1), r(1, 1, 1))
    for layout in LAYOUTS[1:]:
        yield layout, (r(3, 17, 33, layout=layout), r(3, 33, 20, layout=layout))
    yield "permuted batch", (r(17, 3, 33).transpose(0, 1), r(33, 20, 3).permute(2, 0, 1))
    yield "nothing to add", (r(2, 4, 0), r(2, 0, 5))
    yield "no batch", (r(0, 4, 3), r(0, 3, 5))


def _conv2d(r) -> Iterator:
    yield "plain", (r(2, 5, 14, 13), r(6, 5, 3, 3))
    yield "bias", (r(2, 5, 9, 8), r(6, 5, 3, 2), r(6))
    yield "stride", (r(2, 3, 11, 12), r(4, 3, 3, 3), None, [2, 3])
    yield "padding", (r(2, 3, 7, 8), r(4, 3, 3, 3), r(4), [1], [1, 2])
    yield "dilation", (r(1, 3, 12, 11), r(4, 3, 3, 2), None, [1, 1], [0, 0], [2, 3])
    yield "everything", (r(2, 4, 13, 12), r(6, 2, 3, 3), r(6), [2, 1], [2, 1], [1, 2], 2)
    yield "depthwise", (r(2, 6, 8, 8), r(12, 1, 3, 3), r(12), [1, 1], [1, 1], [1, 1], 6)
    yield "one by one", (r(2, 8, 5, 5), r(3, 8, 1, 1))
    yield "unbatched", (r(3, 8, 9), r(4, 3, 2, 2), r(4))
    yield "channels last", (r(2, 5, 9, 8).to(memory_format=torch.channels_last), r(6, 5, 3, 3))
    yield "unbatched, filters' channels last", (r(3, 8, 9), r(4, 3, 2, 2).to(memory_format=torch.channels_last))
    yield "no batch, filters' channels last", (r(0, 3, 8, 8), r(4, 3, 3, 3).to(memory_format=torch.channels_last))
    yield "sliced", (r(2, 3, 6, 7, layout="sliced"), r(4, 3, 2, 2, layout="sliced"), r(4, layout="sliced"))
    yield "no batch", (r(0, 3, 8, 8), r(4, 3, 3, 3))


def _targets(classes, *shape, ignored=0):
    """Classes, of which the first few rows have none."""
    targets = torch.randint(classes, shape, device=DEVICE)
    targets.view(-1)[:ignored] = -100
    return targets


def _cross_entropy(r) -> Iterator:
    yield "rows", (r(9, 30), _targets(30, 9))
    yield "ignored", (r(9, 30), _targets(30, 9, ignored=2)), {"weight": r(30).abs(), "label_smoothing": 0.1}
    yield "one row", (r(30), _targets(30))
    yield "images", (r(2, 5, 7, 6), _targets(5, 2, 7, 6, ignored=3)), {"weight": r(5).abs()}
    yield "probabilities", (r(9, 30), r(9, 30).softmax(1), r(30).abs()), {"label_smoothing": 0.3}
    yield "probabilities of images", (r(2, 5, 7), r(2, 5, 7).softmax(1))
    for layout in LAYOUTS[1:]:
        yield layout, (r(9, 14, layout=layout), _targets(14, 9))
    yield "long rows", (r(3, 20001), _targets(20001, 3)), {"label_smoothing": 0.1}
    yield "one class", (r(5, 1), _targets(1, 5))
    yield "extreme", (r(5, 30) * 100, _targets(30, 5))


def _linear_cross_entropy(r) -> Iterator:
    yield "rows", (r(9, 16), r(30, 16) / 4, _targets(30, 9))
    yield "bias", (r(2, 7, 16), r(30, 16) / 4, _targets(30, 2, 7, ignored=3), r(30))
    yield "weights", (r(9, 16), r(30, 16) / 4, _targets(30, 9)), {"class_weight": r(30).abs(), "label_smoothing": 0.1}
    yield "one row", (r(16), r(30, 16) / 4, _targets(30))
    yield "transposed", (r(9, 16, layout="transposed"), r(30, 16, layout="transposed"), _targets(30, 9))
    yield "sliced", (r(3, 4, 16, layout="sliced"), r(30, 16, layout="sliced"), _targets(30, 3, 4))


def _rms_norm(r) -> Iterator:
    yield "rows", (r(9, 300), [300])
    yield "weight", (r(9, 300), [300], r(300))
    yield "eps", (r(4, 7, 33), [33], r(33), 0.5)
    yield "one row", (r(64), [64], r(64))
    yield "two dimensions", (r(5, 6, 7), [6, 7], r(6, 7))
    yield "all dimensions", (r(5, 6), [5, 6])
    yield "one column", (r(5, 1), [1], r(1), 1e-5)
    for layout in LAYOUTS[1:]:
        yield layout, (r(4, 6, 10, layout=layout), [10], r(10))
    yield "sliced weight", (r(4, 10), [10], r(10, layout="sliced"))
    yield "sequence sliced", (r(3, 8, 16)[:, 1:6], [16], r(16))
    for shape in ([7], [6, 7], [3, 6, 7]):
        image = r(2, 3, 6, 7).to(memory_format=torch.channels_last)
        yield f"channels last, {len(shape)} normalized", (image, shape, r(*shape))
    yield "long rows", (r(2, 40001), [40001])
    yield "long rows, weight", (r(2, 40001), [40001], r(40001))
    yield "many rows", (r(16500, 6), [6], r(6), 0.1)
    yield "empty", (r(0, 5), [5], r(5))
    yield "empty rows", (r(5, 0), [0])


def _gelu(r) -> Iterator:
    yield "rows", (r(9, 14),)
    yield "tanh", (3 * r(9, 14),), {"approximate": "tanh"}
    yield "sliced", (r(9, 14, layout="sliced"),)
    yield "number", (r(),)


def _layer_norm(r) -> Iterator:
    yield "rows", (r(9, 300), [300])
    yield "weight and bias", (r(4, 7, 33), [33], r(33), r(33), 0.5)
    yield "weight", (r(9, 300) + 3, [300], r(300))
    yield "transposed", (r(4, 6, 10, layout="transposed"), [10], r(10), r(10, layout="sliced"))
    yield "channels last", (r(2, 3, 6, 7).to(memory_format=torch.channels_last), [6, 7], r(6, 7))
    yield "long rows", (r(2, 40001) + 3, [40001], r(40001), r(40001))
    yield "many rows", (r(16500, 6), [6], r(6), r(6), 0.1)
    yield "empty", (r(0, 5), [5], r(5))


def _rope(r) -> Iterator:
    for interleaved in (True, False):
        kind = "interleaved" if interleaved else "halves"
        yield kind, (r(2, 11, 3, 64), r(11, 32), r(11, 32), interleaved)
        yield f"{kind}, odd sizes", (r(2, 5, 3, 10), r(5, 5), r(5, 5), interleaved)
        yield f"{kind}, tables of the batch", (r(2, 5, 4, 8), r(2, 5, 4), r(2, 5, 4), interleaved)
        yield f"{kind}, tables for all of the batch", (r(2, 5, 4, 8), r(1, 5, 4), r(1, 5, 4), interleaved)
        yield f"{kind}, whole tables", (r(2, 5, 4, 12), r(5, 12), r(5, 12), interleaved)
        yield f"{kind}, whole tables of the batch", (r(2, 5, 4, 2), r(2, 5, 2), r(2, 5, 2), interleaved)
        yield f"{kind}, heads first", (r(2, 4, 5, 8).transpose(1, 2), r(5, 4), r(5, 4), interleaved)
        yield f"{kind}, sliced", (r(2, 5, 3, 8, layout="sliced"), r(5, 4, layout="sliced"), r(5, 4), interleaved)
        yield f"{kind}, partial", (r(2, 5, 3, 20), r(5, 6), r(5, 6), interleaved, 12)
        last = r(2, 5, 3, 21), r(2, 5, 12), r(2, 5, 12), interleaved, -12, not interleaved
        yield f"{kind}, the last columns and the other way", last
        yield f"{kind}, one token", (r(1, 1, 1, 2), r(1, 1), r(1, 1), interleaved)
        yield f"{kind}, no depth", (r(1, 3, 2, 0), r(3, 0), r(3, 0), interleaved)
    yield "interleaved to halves", (r(2, 4, 5, 10).transpose(1, 2), r(5, 5), r(5, 5), True, None, False)
    yield "default", (r(2, 5, 3, 8), r(5, 4), r(5, 4))
    yield "empty", (r(0, 5, 3, 8), r(5, 4), r(5, 4))


def _sdpa(r) -> Iterator:
    def qkv(queries=33, keys=40, heads=4, depth=16, batch=2, **options):
        return tuple(r(batch, heads, length, depth, **options) for length in (queries, keys, keys))

    def mask(*shape):
        return torch.rand(shape, device=DEVICE) > 0.4

    yield "plain", qkv()
    yield "equal lengths", qkv(77, 77, 3, 64)
    yield "one query", qkv(1, 70)
    yield "one key", qkv(5, 1)
    yield "causal", qkv(70, 70), {"is_causal": True}
    yield "causal, fewer queries", qkv(20, 70), {"is_causal": True}
    yield "causal, fewer keys", qkv(70, 20), {"is_causal": True}
    yield "boolean mask", (*qkv(), mask(33, 40))
    yield "boolean mask of heads", (*qkv(), mask(2, 4, 33, 40))
    yield "padding mask", (*qkv(), mask(2, 1, 1, 40))
    yield "additive mask", (*qkv(), r(33, 40))
    yield "additive mask of the batch", (*qkv(), r(2, 1, 33, 40))
    yield "scale", qkv(), {"scale": 0.3}
    yield "negative scale", qkv(), {"scale": -0.3}
    yield "no scale", qkv(), {"scale": 0.0}
    yield "groups", (r(2, 6, 33, 16), r(2, 2, 40, 16), r(2, 2, 40, 16)), {"enable_gqa": True}
    yield "groups, causal", (r(2, 6, 33, 16), r(2, 3, 33, 16), r(2, 3, 33, 16)), {"enable_gqa": True, "is_causal": True}
    yield "one head of keys", (r(2, 6, 33, 16), r(2, 1, 40, 16), r(2, 1, 40, 16))
    yield "one batch of keys", (r(2, 4, 33, 16), r(1, 4, 40, 16), r(1, 4, 40, 16))
    yield "keys of two dimensions", (r(2, 4, 33, 16), r(40, 16), r(4, 40, 16))
    yield "other depth of values", (r(2, 4, 33, 16), r(2, 4, 40, 16), r(2, 4, 40, 24))
    yield "odd depth", qkv(depth=20)
    yield "lengths first", tuple(r(2, length, 4, 16).transpose(1, 2) for length in (33, 40, 40))
    yield "sliced", qkv(9, 10, 2, 8, layout="sliced")
    yield "expanded", qkv(9, 10, 2, 8, layout="expanded")
    yield "three dimensions", tuple(r(3, length, 16) for length in (33, 40, 40))
    yield "two dimensions", tuple(r(length, 16) for length in (33, 40, 40))
    yield "five dimensions", tuple(r(2, 3, 2, length, 8) for length in (9, 10, 10))
    yield "no batch", qkv(batch=0)
    yield "no queries", qkv(queries=0)


def _softmax(r) -> Iterator:
    yield "rows", (r(17, 781), -1)
    for dim in range(3):
        yield f"dimension {dim}", (r(5, 6, 7), dim)
    for layout in LAYOUTS[1:]:
        yield layout, (r(4, 6, 10, layout=layout), -1)
        yield f"{layout}, first dimension", (r(4, 6, 10, layout=layout), 0)
    yield "vector", (r(100), 0)
    yield "long rows", (r(2, 40001) * 10, 1)
    yield "long rows that start masked", (torch.cat((r(2, 10000) - float("inf"), r(2, 25000)), 1), 1)
    yield "number", (r(), 0)
    yield "large", (r(4, 33) * 100, 1)
    yield "in float32", (r(4, 33), 1, torch.float32)
    yield "in float64", (r(4, 33), 1, torch.float64)
    yield "one", (r(4, 1), 1)
    yield "empty", (r(0, 5), 1)
    yield "empty rows", (r(5, 0), 1)


def _swiglu(r) -> Iterator:
    for layout in LAYOUTS:
        yield layout, (r(9, 14, layout=layout), r(9, 14))
    yield "halves", tuple(r(5, 3, 66).chunk(2, -1))
    yield "extreme", (r(64) * 40, r(64))
    yield "permuted", (r(2, 3, 4, 5).permute(3, 1, 0, 2), r(2, 3, 4, 5).permute(3, 1, 0, 2))
    yield "number", (r(), r())
    yield "empty", (r(3, 0, 2), r(3, 0, 2))


_CALLS: dict[str, Callable[..., Iterator]] = {
    "add": _add,
    "addmm": _addmm,
    "bmm": _bmm,
    "conv2d": _conv2d,
    "cross_entropy": _cross_entropy,
    "gelu": _gelu,
    "layer_norm": _layer_norm,
    "linear": _linear,
    "linear_cross_entropy": _linear_cross_entropy,
    "mm": _mm,
    "rms_norm": _rms_norm,
    "rope": _rope,
    "sdpa": _sdpa,
    "silu": _silu,
    "softmax": _softmax,
    "swiglu": _swiglu,
}

OPERATORS = tuple(_CALLS)
LABELS = tuple((operator, label) for operator in OPERATORS for label in samples(operator))
