"""The operators and their gradients over types, shapes, strides, offsets and options, against PyTorch in float64.

An element of a result may differ by what its type and the number of its terms allow: `SLACK * u * terms * magnitude`,
where u is the unit roundoff of the sum's type and magnitude the same operation on absolute values; and by one rounding.
A gradient may differ, as a whole, by some times what PyTorch's in the same type does.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F

import ninetoothed_ops

from .parts import Case

CALLS = 20
TYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
SIZES = (0, 1, 1, 2, 3, 5, 7, 8, 11, 13, 16, 17, 31, 32, 33, 37, 64, 67)
SLACK = 8


@dataclass(frozen=True)
class Sample:
    """A call of an operator; `reference` and `magnitude` are functions of its arguments in float64.

    terms: the length of its sums. wide: whether halves are computed in float32 and rounded once.
    """

    name: str
    args: tuple
    kwargs: dict
    reference: Callable
    magnitude: Callable
    terms: int = 1
    options: dict = field(default_factory=dict)


class Maker:
    """Random tensors of one type, in any layout."""

    def __init__(self, rng: random.Random, device: str = "cpu"):
        self.rng, self.device = rng, device
        self.dtype = rng.choice(TYPES)
        self.generator = torch.Generator().manual_seed(rng.randrange(2**31))
        self.has_specials = rng.random() < 0.1

    def size(self, largest: int = 67) -> int:
        return self.rng.choice([size for size in SIZES if size <= largest])

    def numbers(self, shape, dtype) -> torch.Tensor:
        values = torch.randn(shape, generator=self.generator, dtype=torch.float64)
        if self.has_specials and values.numel():
            places = torch.randint(values.numel(), (2,), generator=self.generator)
            values.view(-1)[places] = torch.tensor([float("nan"), float("inf")], dtype=torch.float64)
        return values.to(dtype)

    def __call__(self, *shape: int, dtype=None) -> torch.Tensor:
        dtype = dtype or self.dtype
        kind = self.rng.randrange(6)
        if kind == 0 and len(shape) > 1:
            order = self.rng.sample(range(len(shape)), len(shape))
            inverse = [order.index(d) for d in range(len(shape))]
            made = self.numbers([shape[d] for d in order], dtype).to(self.device).permute(inverse)
        elif kind == 1 and shape:
            larger = self.numbers([2 * size + 1 for size in shape], dtype).to(self.device)
            made = larger[tuple(slice(1, None, 2) for _ in shape)]
        elif kind == 2 and shape:
            repeated = self.rng.randrange(len(shape))
            once = [1 if d == repeated else size for d, size in enumerate(shape)]
            made = self.numbers(once, dtype).to(self.device).expand(shape)
        elif kind == 3:
            size, offset = torch.Size(shape).numel(), self.rng.randint(1, 9)
            made = self.numbers((size + offset,), dtype).to(self.device)[offset:].view(shape)
        else:
            made = self.numbers(shape, dtype).to(self.device)
        return made

    def rows(self, dims: tuple[int, int] = (1, 4)) -> tuple[int, ...]:
        count = self.rng.randint(*dims)
        return tuple(self.size(67 if count < 3 else 13) for _ in range(count))


def add(make: Maker) -> Sample:
    rng, shape = make.rng, make.rows()
    other = tuple(1 if rng.random() < 0.2 else size for size in shape)[rng.choice((0, 0, 0, 1)) :]
    alpha = rng.choice((1, 1, 2, -3, 0.5, 2.5))
    return Sample(
        "add", (make(*shape), make(*other)), {"alpha": alpha}, torch.add,
        lambda a, b, alpha: a.abs() + abs(alpha) * b.abs(),
    )  # fmt: skip


def silu(make: Maker) -> Sample:
    return Sample("silu", (make(*make.rows()),), {}, F.silu, lambda x: x.abs(), 2)


def mm(make: Maker) -> Sample:
    m, k, n = make.size(), make.size(), make.size()
    return Sample("mm", (make(m, k), make(k, n)), {}, torch.mm, lambda a, b: a.abs() @ b.abs(), k)


def addmm(make: Maker) -> Sample:
    rng, m, k, n = make.rng, make.size(), make.size(), make.size()
    shape = rng.choice(((m, n), (n,), (m, 1), (1, n), ()))
    options = {"beta": rng.choice((1, 0.5, 0, -2.0)), "alpha": rng.choice((1, 1.5, 0, -1))}

    def magnitude(c, a, b, beta, alpha):
        return (abs(beta) * c.abs() if beta else 0) + (abs(alpha) * (a.abs() @ b.abs()) if alpha else 0 * a.sum())

    return Sample("addmm", (make(*shape), make(m, k), make(k, n)), options, torch.addmm, magnitude, k + 2)


def bmm(make: Maker) -> Sample:
    b, m, k, n = make.size(5), make.size(37), make.size(37), make.size(37)
    return Sample("bmm", (make(b, m, k), make(b, k, n)), {}, torch.bmm, lambda a, b: a.abs() @ b.abs(), k)


def conv2d(make: Maker) -> Sample:
    rng = make.rng
    groups = rng.choice((1, 1, 1, 2, 3))
    channels, filters = rng.randint(1, 5), groups * rng.randint(1, 5)
    kernel = rng.choice((1, 1, 2, 3)), rng.choice((1, 1, 2, 3))
    stride, padding = (rng.randint(1, 3), rng.randint(1, 2)), (rng.randint(0, 2), rng.randint(0, 1))
    dilation = rng.randint(1, 2), rng.randint(1, 2)
    pixels = rng.choice((1, 2, 3, 5, 8, 9)), rng.choice((1, 2, 3, 5, 8, 16))
    image = [
        max(1, (p - 1) * s + d * (k - 1) + 1 - 2 * pad + rng.randrange(s))
        for p, k, d, s, pad in zip(pixels, kernel, dilation, stride, padding, strict=True)
    ]
    # Padding alone is no image where a window is larger than what it leaves.
    image = [max(size, d * (k - 1) + 1 - 2 * pad) for size, k, d, pad in zip(image, kernel, dilation, padding)]
    batch = rng.choice(((), (1,), (2,), (3,), (0,)))
    x, w = make(*batch, channels * groups, *image), make(filters, channels, *kernel)
    bias = make(filters) if rng.random() < 0.5 else None
    options = (list(stride), list(padding), list(dilation), groups)

    def magnitude(x, w, bias, *options):
        return F.conv2d(x.abs(), w.abs(), None if bias is None else bias.abs(), *options)

    return Sample("conv2d", (x, w, bias, *options), {}, F.conv2d, magnitude, channels * kernel[0] * kernel[1] + 1)


def rms_norm(make: Maker) -> Sample:
    rng, shape = make.rng, make.rows((1, 4))
    normalized = list(shape[-rng.randint(1, len(shape)) :])
    weight = make(*normalized) if rng.random() < 0.5 else None
    eps = rng.choice((1e-5, 1e-3, 0.5))
    terms = torch.Size(normalized).numel()

    def magnitude(x, shape, weight, eps):
        return F.rms_norm(x, shape, weight, eps).abs()

    return Sample("rms_norm", (make(*shape), normalized, weight, eps), {}, F.rms_norm, magnitude, terms + 4)


def gelu(make: Maker) -> Sample:
    options = {"approximate": make.rng.choice(("none", "tanh"))}
    return Sample("gelu", (make(*make.rows()),), options, F.gelu, lambda x, approximate: x.abs(), 4)


def layer_norm(make: Maker) -> Sample:
    rng, shape = make.rng, make.rows((1, 4))
    normalized = list(shape[-rng.randint(1, len(shape)) :])
    weight, bias = (make(*normalized) if rng.random() < 0.5 else None for _ in range(2))
    eps = rng.choice((1e-5, 1e-3, 0.5))

    def magnitude(x, shape, weight, bias, eps):
        dims = tuple(range(-len(shape), 0))
        scale = (x.var(dims, correction=0, keepdim=True) + eps).rsqrt()
        spread = (x.abs() + x.abs().mean(dims, keepdim=True)) * scale * (1 if weight is None else weight.abs())
        return spread if bias is None else spread + bias.abs()

    terms = torch.Size(normalized).numel()
    return Sample("layer_norm", (make(*shape), normalized, weight, bias, eps), {}, F.layer_norm, magnitude, terms + 4)


def rope(make: Maker) -> Sample:
    rng = make.rng
    batch, length, heads, half = make.size(3), make.size(17), make.size(5), make.size(17)
    width, rest = rng.choice((half, 2 * half)), rng.choice((0, make.size(9))) if half else 0
    table = rng.choice(((length, width), (1, length, width), (batch, length, width)))
    tensors = make(batch, length, heads, 2 * half + rest), make(*table), make(*table)
    # Of no columns there is no rotary_dim.
    options = rng.random() < 0.5, 2 * half * rng.choice((1, -1)) or None, rng.choice((None, False, True))
    return Sample("rope", (*tensors, *options), {}, rotated, lambda *args: rotated(*args, absolute=True), 2)


def rotated(x, sin, cos, interleaved, rotary_dim, interleaved_output, absolute=False):
    """The definition, written out."""
    width, is_last = abs(rotary_dim or x.shape[-1]), rotary_dim is not None and rotary_dim < 0
    rest, x = x.split((x.shape[-1] - width, width), -1) if is_last else x.split((width, x.shape[-1] - width), -1)[::-1]
    if sin.shape[-1] != width:
        sin, cos = (t.repeat_interleave(2, -1) if interleaved else torch.cat((t, t), -1) for t in (sin, cos))
    sin, cos = ((t if t.ndim == 3 else t[None])[:, :, None, :] for t in (sin, cos))
    first, second = (x[..., 0::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    turned = torch.stack((-second, first), -1).flatten(-2) if interleaved else torch.cat((-second, first), -1)
    found = x.abs() * cos.abs() + turned.abs() * sin.abs() if absolute else x * cos + turned * sin
    if interleaved and interleaved_output is False:
        found = torch.cat((found[..., 0::2], found[..., 1::2]), -1)
    if interleaved_output and not interleaved:
        found = torch.stack(found.chunk(2, -1), -1).flatten(-2)
    rest = rest.abs() if absolute else rest
    return torch.cat((rest, found) if is_last else (found, rest), -1)


def sdpa(make: Maker) -> Sample:
    rng, causal = make.rng, make.rng.random() < 0.3
    kind = None if causal else rng.choice((None, None, torch.bool, make.dtype))
    # What a mask hides has no part in our result; in PyTorch's, NaN has.
    make.has_specials &= not causal and kind is not torch.bool
    batch, heads, queries, keys, depth = (
        make.size(3),
        rng.choice((1, 2, 3, 4)),
        make.size(37),
        make.size(37),
        rng.choice((1, 3, 8, 16, 20, 32)),
    )
    groups = rng.choice([count for count in (1, 2, 3, 4) if heads % count == 0])
    of_value = rng.choice((depth, depth, 8))
    q, k, v = make(batch, heads, queries, depth), make(batch, groups, keys, depth), make(batch, groups, keys, of_value)
    mask = None
    if kind is not None:
        shape = rng.choice(((queries, keys), (batch, 1, queries, keys), (batch, heads, queries, keys), (1, keys)))
        mask = make(*shape) if kind is not torch.bool else make.numbers(shape, torch.float64).to(make.device) > -0.7
    options = {"is_causal": causal, "scale": rng.choice((None, 0.3, 0.05)), "enable_gqa": True}
    if not make.has_specials and rng.random() < 0.4:
        options |= {"softcap": rng.choice((None, 0.7, 50.0)), "sinks": rng.choice((None, make(heads)))}

    def magnitude(q, k, v, mask=None, softcap=None, sinks=None, **options):
        spread = torch.matmul(q.abs(), repeated(k.abs(), q).mT) * (options["scale"] or depth**-0.5)
        largest = spread.amax(-1, keepdim=True) if spread.shape[-1] else spread.new_zeros(*spread.shape[:-1], 1)
        most = v.abs().amax(-2, keepdim=True) if v.shape[-2] else v.new_zeros(*v.shape[:-2], 1, v.shape[-1])
        others = (
            each.abs().max()
            for each in (mask, sinks)
            if each is not None and each.numel() and each.dtype.is_floating_point
        )
        return (1 + largest + (softcap or 0) + sum(others)) * repeated(most, q)

    return Sample("sdpa", (q, k, v, mask), options, attention, magnitude, keys + depth + 4)


def repeated(x, like):
    return x.repeat_interleave(like.shape[-3] // x.shape[-3], -3)


def attention(q, k, v, mask, is_causal, scale, enable_gqa, softcap=None, sinks=None):
    if softcap is None and sinks is None:
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa)
    scores = q @ repeated(k, q).mT * (scale or q.shape[-1] ** -0.5)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype is torch.bool else scores + mask
    if is_causal:
        scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), -torch.inf)
    # A row that sees nothing sees this column alone.
    sinks = scores.new_full(scores.shape[1:2], torch.finfo(scores.dtype).min) if sinks is None else sinks
    column = sinks[:, None, None].expand(*scores.shape[:-1], 1)
    return torch.softmax(torch.cat((scores, column), -1), -1)[..., :-1] @ repeated(v, q)


def softmax(make: Maker) -> Sample:
    rng, shape = make.rng, make.rows()
    dtype = rng.choice((None, None, None, torch.float32, torch.float64))
    dim = rng.randrange(-len(shape), len(shape))

    def magnitude(x, dim, dtype=None):
        spread = x.abs().amax(dim, keepdim=True) if x.shape[dim] else 0
        return torch.softmax(x, dim) * (1 + spread)

    def reference(x, dim, dtype=None):
        return torch.softmax(x if dtype is None else x.to(dtype).double(), dim)

    return Sample("softmax", (make(*shape), dim), {"dtype": dtype}, reference, magnitude, shape[dim] + 4)


OPERATORS = (add, silu, mm, addmm, bmm, conv2d, gelu, layer_norm, rms_norm, rope, sdpa, softmax)


def in_float64(value):
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def described(value) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype)[6:]}{tuple(value.shape)}/{value.stride()}+{value.storage_offset()}"
    return str(value)


def difference(found: torch.Tensor, sample: Sample) -> str:
    """Whichever elements are further from float64 than roundings explain; "" where none is."""
    args, kwargs = tuple(map(in_float64, sample.args)), {k: in_float64(v) for k, v in sample.kwargs.items()}
    expected, size = sample.reference(*args, **kwargs), sample.magnitude(*args, **kwargs)
    if found.shape != expected.shape:
        return f"shape {tuple(found.shape)}, not {tuple(expected.shape)}"
    info = torch.finfo(found.dtype)
    inner = torch.finfo(torch.float64 if found.dtype is torch.float64 else torch.float32)
    size = torch.broadcast_to(size, expected.shape).nan_to_num(torch.inf, torch.inf)
    bound = SLACK * (inner.eps * (sample.terms + 1) * size + inner.tiny) + info.eps * expected.abs() + info.tiny
    if found.dtype in (torch.float16, torch.bfloat16) and sample.name in ("sdpa",):
        bound = bound + 2 * info.eps * size  # Weights are rounded to the type of the values.
    actual = found.double()
    same = (actual == expected) | (actual.isnan() & expected.isnan())
    overflows = (expected.abs() + bound > info.max) & ~expected.isinf()
    wrong = ~(same | ((actual - expected).abs() <= bound) | overflows)
    if not wrong.any():
        return ""
    at = tuple(wrong.nonzero()[0].tolist())
    return (
        f"at {at}: {actual[at].item()}, not {expected[at].item()} within {bound[at].item():.3g}; {wrong.sum().item()}"
    )


def gradient_difference(sample: Sample, generator: torch.Generator) -> str:
    """Whichever gradients of a random scalar are further from float64 than some times PyTorch's; "" where none is."""
    own = gradients(sample, getattr(ninetoothed_ops, sample.name), generator, lambda value: value)
    exact = gradients(sample, sample.reference, generator, in_float64)
    try:
        theirs = gradients(sample, sample.reference, generator, lambda value: value)
    except RuntimeError:  # A type that PyTorch's operator or its gradient has not.
        theirs = exact
    for place, grads in enumerate(zip(own, theirs, exact, strict=True)):
        found, other, expected = (grad.double() for grad in grads)
        if found.shape != expected.shape:
            return f"gradient {place}: shape {tuple(found.shape)}, not {tuple(expected.shape)}"
        if found.isnan().any() != expected.isnan().any():
            return f"gradient {place}: NaN in one alone"
        error, bound = (found - expected).norm(), (other - expected).norm()
        # Of one column, the gradient of a norm is what rounding leaves of a difference.
        largest = max((each.abs().max().item() for each in tensors_of(sample) if each.numel()), default=0.0)
        size = expected.norm() + (1 + largest) ** 2 * max(expected.numel(), 1) ** 0.5
        if not error <= SLACK * (bound + torch.finfo(grads[0].dtype).eps * size):
            return f"gradient {place}: off by {error.item():.3g} of {expected.norm().item():.3g}, PyTorch's {bound:.3g}"
    return ""


def tensors_of(sample: Sample) -> list[torch.Tensor]:
    """The arguments that have gradients."""
    values = (*sample.args, *sample.kwargs.values())
    return [value for value in values if isinstance(value, torch.Tensor) and value.is_floating_point()]


def gradients(sample: Sample, function: Callable, generator: torch.Generator, convert: Callable) -> list[torch.Tensor]:
    """The gradients of all arguments, of a random scalar of the result; those of no part are 0."""
    leaves: list[torch.Tensor] = []

    def leaf(value):
        if not (isinstance(value, torch.Tensor) and value.is_floating_point()):
            return value
        leaves.append(convert(value).detach().requires_grad_())
        return leaves[-1]

    output = function(*map(leaf, sample.args), **{name: leaf(value) for name, value in sample.kwargs.items()})
    state = generator.get_state()
    # Of few bits, so that every type holds them as they are.
    weights = torch.randn(output.shape, generator=generator, dtype=torch.float64).bfloat16()
    generator.set_state(state)
    return list(torch.autograd.grad(output, leaves, weights.to(output), allow_unused=True, materialize_grads=True))


def cases(seed: int, device: str = "cpu") -> Iterator[Case]:
    """Check some calls of each operator in turn, and some of their gradients."""
    rng = random.Random(f"operators {seed}")
    for _ in range(CALLS):
        make = Maker(rng, device)
        sample, has_gradients = rng.choice(OPERATORS)(make), rng.random() < 0.5
        description = ", ".join(map(described, sample.args))
        options = ", ".join(f"{name}={described(value)}" for name, value in sample.kwargs.items())
        description = f"{sample.name}({description}; {options})"
        try:
            with torch.no_grad():
                found = getattr(ninetoothed_ops, sample.name)(*sample.args, **sample.kwargs)
            wrong = difference(found, sample)
            if not wrong and has_gradients and not make.has_specials:
                wrong = gradient_difference(sample, make.generator)
        except Exception as error:
            yield Case(description, f"{type(error).__name__}: {error}")
        else:
            yield Case(description, wrong)
