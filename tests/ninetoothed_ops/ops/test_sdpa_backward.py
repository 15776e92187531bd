"""Gradients of attention against those that PyTorch takes of the definition in float64, and dropout."""

import functools
import importlib
import math

import pytest
import torch

import ninetoothed_ops
from ninetoothed_ops.kernels import sdpa_backward_key_value
from tests.conftest import DEVICE
from tests.ninetoothed_ops.attention import attention
from tests.ninetoothed_ops.recorder import Recorder
from tests.ninetoothed_ops.samples import on_the_cpu, random, samples

LENGTHS = (0, 1, 37, 101)


def check(tensors, options, tolerance=2e-6, reference=attention, **reference_options):
    """Compare the output, and the gradients of all tensors that have one; they are relative to the norm of all."""
    ours = [each.detach().clone() for each in tensors]
    theirs = [each.detach().double() if each.is_floating_point() else each for each in tensors]
    for each in (*ours, *theirs):
        each.requires_grad_(each.is_floating_point())
    output = ninetoothed_ops.sdpa(*ours, **options)
    expected = reference(*theirs, **reference_options)
    grad = random(*expected.shape, dtype=output.dtype)
    output.backward(grad)
    expected.backward(grad.double())

    pairs = [(output, expected), *((a.grad, b.grad) for a, b in zip(ours, theirs) if a.is_floating_point())]
    for actual, wanted in pairs:
        assert actual.shape == wanted.shape and actual.dtype == output.dtype
        error, scale = (actual.double() - wanted).norm(), torch.maximum(wanted.norm(), 0.1 * grad.double().norm())
        assert error <= tolerance * scale, f"relative error {error / scale}"


def qkv(queries=33, keys=40, heads=4, kv_heads=2, depth=16, value_depth=24, dtype=torch.float32):
    sizes = (heads, queries, depth), (kv_heads, keys, depth), (kv_heads, keys, value_depth)
    return [random(2, *size, dtype=dtype) for size in sizes]


LABELS = (
    *("one query", "one key", "causal, fewer keys", "negative scale", "no scale", "one batch of keys", "no batch"),
    *("keys of two dimensions", "sliced", "expanded", "five dimensions", "no queries"),
)


@pytest.mark.parametrize("label", LABELS)
def test_samples(label):
    sample = samples("sdpa")[label]
    check(sample.args, sample.kwargs, 5e-6, torch.nn.functional.scaled_dot_product_attention, **sample.kwargs)


def boolean(*shape):
    """A mask of which one row hides everything."""
    mask = torch.rand(shape, device=DEVICE) > 0.4
    mask[..., 5 % shape[-2], :] = False
    return mask


MASKS = {
    "none": lambda: None,
    "boolean": lambda: boolean(2, 1, 33, 40),
    "hidden by infinities": lambda: torch.zeros(33, 40, device=DEVICE).masked_fill(~boolean(33, 40), -math.inf),
    "of each head": lambda: random(4, 33, 40),
    "of each key": lambda: random(2, 1, 1, 40),
    "of each query": lambda: random(1, 4, 33, 1),
    "one number": lambda: random(1, 1),
}


@pytest.mark.parametrize(
    "mask, is_causal", (*((mask, False) for mask in MASKS), ("none", True), ("of each head", True))
)
def test_masks(mask, is_causal):
    tensors = qkv()
    if MASKS[mask]() is not None:
        tensors.append(MASKS[mask]())
    check(tensors, {"is_causal": is_causal, "enable_gqa": True, "scale": 0.2}, is_causal=is_causal, scale=0.2)


@pytest.mark.parametrize(
    "dtype, tolerance",
    ((torch.float16, 1e-3), (torch.bfloat16, 8e-3), pytest.param(torch.float64, 1e-14, marks=on_the_cpu)),
)
def test_types(dtype, tolerance):
    tensors = *qkv(70, 65, dtype=dtype), random(1, 1, 70, 65, dtype=dtype)
    check(tensors, {"enable_gqa": True}, tolerance)


@pytest.mark.parametrize(
    "dtype, mask, is_causal, count, tolerance",
    (
        (torch.float16, "none", True, 2, 1e-3),
        (torch.bfloat16, "boolean", False, 2, 8e-3),
        (torch.bfloat16, "of each head", True, 2, 8e-3),
        (torch.float32, "none", True, 1, 2e-6),
    ),
)
def test_gradients_of_wide_heads(dtype, mask, is_causal, count, tolerance, monkeypatch):
    """Those of keys and of values have a launch each, but in float32."""
    made, make = [], sdpa_backward_key_value.make
    monkeypatch.setattr(sdpa_backward_key_value, "make", lambda *given: made.append(given) or make(*given))
    tensors, mask = qkv(depth=136, value_depth=144, dtype=dtype), MASKS[mask]()
    tensors += [] if mask is None else [mask.to(dtype) if mask.is_floating_point() else mask]
    check(tensors, {"is_causal": is_causal, "enable_gqa": True}, tolerance, is_causal=is_causal)
    assert len(made) == count


def test_wide_heads_with_lengths_and_dropout():
    query, key, value = qkv(70, 101, depth=136, value_depth=136, dtype=torch.bfloat16)
    lengths, kept = torch.tensor((101, 37), device=DEVICE), kept_weights(3, 0.3, (2, 4, 70, 101)).double() / 0.7

    def reference(query, key, value):
        return attention(query, key, value, None, lengths, weights=kept)

    torch.manual_seed(3)
    options = {"lengths": lengths, "dropout_p": 0.3, "enable_gqa": True}
    check((query, key, value), options, 8e-3, reference)


def test_a_mask_that_is_wider_than_the_queries():
    query, key, value = qkv(dtype=torch.float16)
    mask = random(33, 40).requires_grad_()
    ninetoothed_ops.sdpa(query, key, value, mask, enable_gqa=True).sum().backward()

    wide = mask.detach().double().requires_grad_()
    attention(query.double(), key.double(), value.double(), wide).sum().backward()
    assert mask.grad.dtype is torch.float32 and (mask.grad - wide.grad).norm() <= 4e-3 * wide.grad.norm()


def test_the_lowest_number_hides_nothing_where_there_is_no_other():
    """Beside it the logarithm of a sum is nothing, and each of 40 weights would be 1."""
    mask = torch.zeros(33, 40, device=DEVICE)
    mask[4], mask[7, 10:] = torch.finfo().min, torch.finfo().min
    query, key, value = qkv()
    check((query, key, value), {"attn_mask": mask, "enable_gqa": True}, reference=lambda *qkv: attention(*qkv, mask))


@pytest.mark.parametrize("mask, is_causal", ((None, True), ("boolean", False), ("of each entry", False)))
def test_lengths(mask, is_causal):
    """Keys that an entry does not have are NaN, and have gradients of 0."""
    query, key, value = (random(4, heads, length, 16) for heads, length in ((4, 70), (2, 101), (2, 101)))
    mask = {None: None, "boolean": boolean(4, 1, 70, 101), "of each entry": random(4, 1, 70, 101)}[mask]
    lengths = torch.tensor(LENGTHS, device=DEVICE)
    missing = (torch.arange(101, device=DEVICE) >= lengths[:, None])[:, None, :, None]
    tensors = [query, *(each.masked_fill(missing, math.nan) for each in (key, value))]

    def reference(query, key, value, mask=None):
        return attention(query, key, value, mask, lengths, is_causal)

    options = {"lengths": lengths, "is_causal": is_causal, "enable_gqa": True}
    check([*tensors, *([] if mask is None else [mask])], options, reference=reference)


def test_heads_of_keys_and_of_values_may_differ():
    query, key, value = random(2, 6, 9, 16), random(2, 3, 11, 16), random(2, 2, 11, 8)

    def reference(query, key, value):
        return attention(query, key.repeat_interleave(2, 1), value.repeat_interleave(3, 1))

    check((query, key, value), {"enable_gqa": True}, reference=reference)


def test_rows_that_see_nothing_are_nan_where_that_is_asked_for():
    query, key, value = (each.requires_grad_() for each in qkv(9, 10, 2, 2))
    mask = boolean(9, 10)
    output = torch.ops.ninetoothed.sdpa(query, key, value, mask, safe=False)
    seen = output[:, :, torch.arange(9, device=DEVICE) != 5]
    seen.sum().backward(retain_graph=True)
    assert not seen.isnan().any() and output[:, :, 5].isnan().all() and query.grad[:, :, 5].isnan().all()
    assert query.grad.isnan().sum() == query.grad[:, :, 5].numel()


def test_gradients_of_any_strides():
    tensors = [each.requires_grad_() for each in qkv()]
    output = ninetoothed_ops.sdpa(*tensors, enable_gqa=True)
    for grad in (random(1, 1, 1, 1).expand_as(output), random(2, 33, 4, 24).transpose(1, 2), random(4, 24, 2, 33).mT):
        grad = grad if grad.shape == output.shape else grad.transpose(0, 1).reshape(output.shape).mT.contiguous().mT
        found, expected = (torch.autograd.grad(output, tensors, each, True) for each in (grad, grad.contiguous()))
        for pair in zip(found, expected):
            torch.testing.assert_close(*pair, rtol=1e-5, atol=1e-5)


def kept_weights(seed, rate, shape):
    """Tell which weights a seed keeps: those of equal scores, shown by values that are one-hot."""
    torch.manual_seed(seed)
    query, value = torch.zeros(*shape[:-1], 16, device=DEVICE), torch.eye(shape[-1], device=DEVICE)
    weights = ninetoothed_ops.sdpa(query, query.new_zeros(shape[-1], 16), value, dropout_p=rate)
    kept = weights > 0
    torch.testing.assert_close(weights[kept], torch.full_like(weights[kept], 1 / shape[-1] / (1 - rate)))
    return kept


@pytest.mark.parametrize("options", ({"is_causal": True}, {"mask": "of each entry"}))
def test_dropout(options):
    """Forward and backward drop the same weights, whatever their blocks."""
    shape, rate = (2, 4, 70, 101), 0.3
    kept = kept_weights(3, rate, shape)
    mask = random(2, 1, 70, 101) if "mask" in options else None
    tensors = [*qkv(70, 101), *([] if mask is None else [mask])]
    is_causal = options.get("is_causal", False)
    torch.manual_seed(3)
    check(
        tensors,
        {"dropout_p": rate, "enable_gqa": True, "is_causal": is_causal},
        is_causal=is_causal,
        weights=kept.double() / (1 - rate),
    )


def test_what_dropout_keeps():
    shape, rate = (2, 4, 70, 101), 0.3
    kept = kept_weights(3, rate, shape).double()

    # Within five standard deviations: of all, of each row, and of neighbours.
    assert abs(kept.mean() - 0.7) <= 5 * math.sqrt(0.21 / kept.numel())
    assert (kept.mean(-1) - 0.7).abs().max() <= 5 * math.sqrt(0.21 / 101)
    centred = kept - 0.7
    for shifted in (centred.roll(1, dim) for dim in range(4)):
        assert abs((centred * shifted).mean()) <= 5 * 0.21 / math.sqrt(kept.numel())


def test_dropout_is_drawn_anew_unless_it_is_seeded():
    query, key, value = qkv()
    outputs = []
    for seed, needs_grad in ((0, False), (0, True), (1, True), (None, True)):
        if seed is not None:
            torch.manual_seed(seed)
        query = query.detach().requires_grad_(needs_grad)
        outputs.append(ninetoothed_ops.sdpa(query, key, value, dropout_p=0.5, enable_gqa=True))
    assert torch.equal(outputs[0], outputs[1])
    assert len({each.sum().item() for each in outputs}) == 3


def test_dropout_of_everything():
    tensors = [each.requires_grad_() for each in qkv()]
    output = ninetoothed_ops.sdpa(*tensors, dropout_p=1.0, enable_gqa=True)
    assert not output.any() and not any(each.any() for each in torch.autograd.grad(output.sum(), tensors))


@on_the_cpu
@pytest.mark.parametrize(
    "options",
    (
        {"is_causal": True, "scale": -0.7},
        {"dropout_p": 0.4},
        {"attn_mask": "boolean"},
        {"attn_mask": "additive", "lengths": torch.tensor([3, 7])},
        {"softcap": 1.5, "attn_mask": "additive", "sinks": torch.tensor([0.5, -1.0])},
    ),
)
def test_gradcheck(options):
    """Of the first derivative and of the second."""
    mask = {"boolean": boolean(5, 7), "additive": random(1, 1, 5, 7, dtype=torch.float64).requires_grad_()}
    options = {name: value.to(DEVICE) if name == "lengths" else value for name, value in options.items()}
    sinks = options.pop("sinks", None)
    sinks = None if sinks is None else sinks.to(DEVICE, torch.float64).requires_grad_()
    mask = mask.get(options.pop("attn_mask", None))
    tensors = [each.requires_grad_() for each in qkv(5, 7, 2, 1, depth=4, value_depth=3, dtype=torch.float64)]

    def seeded(query, key, value, mask, sinks):
        torch.manual_seed(0)
        return ninetoothed_ops.sdpa(query, key, value, mask, enable_gqa=True, sinks=sinks, **options)

    assert torch.autograd.gradcheck(seeded, (*tensors, mask, sinks), fast_mode=True)
    assert torch.autograd.gradgradcheck(seeded, (*tensors, mask, sinks), fast_mode=True, check_undefined_grad=False)


def higher_derivatives(function, query, key, value, **options):
    """Take the second by `torch.func`, and the third by autograd."""

    def slope(query):
        return torch.func.grad(lambda query: function(query, key, value, **options).sin().sum())(query).cos().sum()

    query = query.detach().requires_grad_()
    derivative = function(query, key, value, **options)
    for _ in range(3):
        (derivative,) = torch.autograd.grad(derivative.sin().sum(), query, create_graph=True)
    return torch.func.grad(slope)(query.detach()), derivative


@pytest.mark.parametrize("dtype, tolerance", ((torch.float32, 1e-5), (torch.bfloat16, 3e-2)))
def test_higher_derivatives(dtype, tolerance):
    tensors = qkv(dtype=dtype)
    found = higher_derivatives(ninetoothed_ops.sdpa, *tensors, enable_gqa=True)
    for actual, wanted in zip(found, higher_derivatives(attention, *(each.double() for each in tensors))):
        assert actual.dtype is dtype and (actual.double() - wanted).norm() <= tolerance * wanted.norm()


@on_the_cpu
def test_transforms():
    query, key, value = qkv(dtype=torch.float64)

    def call(query, key, value, function):
        return function(query, key, value, enable_gqa=True).sin().sum()

    found = torch.func.grad(call, (0, 1, 2))(query, key, value, ninetoothed_ops.sdpa)
    expected = torch.func.grad(call, (0, 1, 2))(query, key, value, torch.nn.functional.scaled_dot_product_attention)
    for pair in zip(found, expected):
        torch.testing.assert_close(*pair)


def test_only_what_is_needed_is_computed(monkeypatch):
    names = []

    def noted(make, module, *given):
        of_both = module != "key_value" or given[1:] == (True, True)
        names.append(module if of_both else (module, *given[1:]))
        return make(*given)

    for module in ("delta", "query", "key_value", "mask"):
        path = f"ninetoothed_ops.ops.sdpa_backward.sdpa_backward_{module}.make"
        make = importlib.import_module(f"ninetoothed_ops.kernels.sdpa_backward_{module}").make
        monkeypatch.setattr(path, functools.partial(noted, make, module))
    query, key, value, mask = *qkv(), random(33, 40)
    for needed, expected in enumerate(("query", "key_value", "key_value", "mask")):
        tensors = [each.detach() for each in (query, key, value, mask)]
        tensors[needed].requires_grad_()
        output = ninetoothed_ops.sdpa(*tensors, enable_gqa=True).sum()
        names.clear()
        output.backward()
        assert names == ["delta", expected]
    wide = [each.requires_grad_(i == 2) for i, each in enumerate(qkv(depth=136, dtype=torch.float16))]
    output = ninetoothed_ops.sdpa(*wide, enable_gqa=True).sum()
    names.clear()
    output.backward()
    assert names == ["delta", ("key_value", False, True)]


@pytest.mark.parametrize("needed", ((1,), (2,), (0, 2)))
@pytest.mark.parametrize("is_jagged", (False, True))
def test_batches_of_some_gradients_of_wide_heads(needed, is_jagged):
    """Of each by itself, as of all: keys' and values' have launches of their own."""
    offsets = torch.tensor([0, 5, 12], device=DEVICE)

    def attention(query, key, value):
        if is_jagged:
            given = query, key, value, offsets, None, None, None, 7, 7, True, 0.1
            return torch.ops.ninetoothed.sdpa_jagged(*given)[0].float().square().sum()
        return ninetoothed_ops.sdpa(query, key, value).float().square().sum()

    tensors = [random(3, 2, 12, 136, dtype=torch.bfloat16) for _ in range(3)]
    tensors = tensors if is_jagged else [each[:, None] for each in tensors]
    gradients = torch.func.grad(attention, argnums=needed)
    found = torch.func.vmap(gradients)(*tensors)
    for i in range(3):
        expected = gradients(*(each[i] for each in tensors))
        for own, other in zip(found, expected, strict=True):
            torch.testing.assert_close(own[i], other, rtol=2e-2, atol=2e-2)


def test_a_second_derivative_computes_no_first_one():
    query, key, value = (each.requires_grad_() for each in qkv())
    output = ninetoothed_ops.sdpa(query, key, value, enable_gqa=True)
    grad = torch.ones_like(output, requires_grad=True)
    with Recorder() as recorder:
        (first,) = torch.autograd.grad(output, query, grad, create_graph=True)
        torch.autograd.grad(first.sum(), (query, key, value, grad))
    assert recorder.names.count("ninetoothed::sdpa_backward") == 1


def test_compiled():
    """In one graph, with a seed that the backward shares; and as fakes say."""
    tensors = [each.requires_grad_() for each in (*qkv(), random(1, 4, 33, 40))]

    def call(*tensors):
        return ninetoothed_ops.sdpa(*tensors, enable_gqa=True, dropout_p=0.3)

    torch._dynamo.reset()
    results = []
    for function in (call, torch.compile(call, backend="aot_eager", fullgraph=True)):
        torch.manual_seed(0)
        output = function(*tensors)
        results.append([output, *torch.autograd.grad(output.sin().sum(), tensors)])
    torch._dynamo.reset()
    for pair in zip(*results):
        torch.testing.assert_close(*pair)


def test_opcheck():
    query, key, value = (each.requires_grad_() for each in qkv(kv_heads=2))
    mask, seed = random(1, 4, 33, 40).requires_grad_(), torch.tensor(7, device=DEVICE)
    arguments = query, key, value, mask, None, random(4).requires_grad_(), seed, 0.3, False, 0.25, True, 2.0
    torch.library.opcheck(torch.ops.ninetoothed.sdpa_with_lse.default, arguments)
    with torch.no_grad():
        output, lse = torch.ops.ninetoothed.sdpa_with_lse(*arguments)
    for needed in ([True] * 5, [False, True, False, False, False]):
        given = *arguments[:7], output, output, lse, *arguments[7:10], 2.0, needed
        operator = torch.ops.ninetoothed.sdpa_backward.default
        torch.library.opcheck(operator, given, test_utils=("test_schema", "test_faketensor"))


def test_the_gradient_of_a_mask_loses_nothing_to_a_rounded_output():
    """Where values have a mean, slopes are small differences: of an output in bfloat16, they were off by .016."""
    query, key, value = (each + mean for each, mean in zip(qkv(dtype=torch.bfloat16), (0, 0, 8)))
    mask = random(2, 4, 33, 40, dtype=torch.bfloat16)
    check((query, key, value, mask), {"enable_gqa": True}, 6e-3)


@pytest.mark.parametrize("shape", ((2, 4, 33, 40), (1, 1, 33, 40), (2, 4, 1, 40), (2, 1, 33, 1)))
def test_the_gradient_of_a_mask_is_rounded_once(shape):
    """Beside that in float64 of the same operands it is off by the last rounding alone, as PyTorch's is on a CPU."""
    query, key, value = (each + mean for each, mean in zip(qkv(dtype=torch.bfloat16), (0, 0, 8)))
    mask = random(*shape, dtype=torch.bfloat16).requires_grad_()
    grad = random(2, 4, 33, value.shape[-1], dtype=torch.bfloat16)
    ninetoothed_ops.sdpa(query, key, value, mask, enable_gqa=True).backward(grad)

    exact = mask.detach().double().requires_grad_()
    attention(query.double(), key.double(), value.double(), exact).backward(grad.double())
    rounded = (exact.grad.bfloat16() - exact.grad).norm()
    # Sums over all keys of a row are nothing but what is left of rounding.
    assert (mask.grad - exact.grad).norm() <= (1.1 * rounded if shape[-1] > 1 else 1e-3 * grad.double().norm())
