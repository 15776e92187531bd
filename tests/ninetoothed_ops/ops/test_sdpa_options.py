"""Soft caps and sinks of attention, and their gradients, against the definition in float64."""

import math

import pytest
import torch

import ninetoothed_ops
from ninetoothed.errors import ArgumentError, ArgumentTypeError
from tests.conftest import DEVICE
from tests.ninetoothed_ops.attention import attention
from tests.ninetoothed_ops.samples import random

SINKS = (-3.0, 0.5, 4.0, 200.0)


def boolean(queries, keys):
    mask = torch.rand(2, 1, queries, keys, device=DEVICE) > 0.4
    mask[..., 5 % queries, :] = False
    return mask


MASKS = {
    "none": lambda queries, keys: None,
    "boolean": boolean,
    "added": lambda queries, keys: random(1, 4, queries, keys),
}


def check(
    softcap, has_sinks, mask="none", is_causal=False, sizes=(33, 40), dtype=torch.float32, tolerance=3e-6, depth=16
):
    """Compare the output, with and without a gradient to come, and the gradients of all tensors."""
    queries, keys = sizes
    mask = MASKS[mask](*sizes)
    mask = mask.to(dtype) if mask is not None and mask.is_floating_point() else mask
    sinks = torch.tensor(SINKS, dtype=dtype, device=DEVICE) if has_sinks else None
    qkv = [random(2, *size, dtype=dtype) * 2 for size in ((4, queries, depth), (2, keys, depth), (2, keys, 24))]
    given = [*qkv, mask, sinks]
    wide = [each.double() if each is not None and each.is_floating_point() else each for each in given]
    ours, theirs = ([each for each in tensors if each is not None] for tensors in (given, wide))

    def call():
        options = {"is_causal": is_causal, "scale": 0.3, "enable_gqa": True, "softcap": softcap, "sinks": sinks}
        return ninetoothed_ops.sdpa(*qkv, mask, **options)

    outputs = [call()]
    for each in (*ours, *theirs):
        each.requires_grad_(each.is_floating_point())
    outputs.append(call())
    expected = attention(*wide[:4], None, is_causal, 0.3, wide[4], softcap)
    grad = random(*expected.shape, dtype=dtype)
    outputs[1].backward(grad)
    expected.backward(grad.double())
    pairs = [(a.grad, b.grad) for a, b in zip(ours, theirs) if a.requires_grad]
    for actual, wanted in (*((output, expected) for output in outputs), *pairs):
        error, scale = (actual.double() - wanted).norm(), torch.maximum(wanted.norm(), 0.1 * grad.double().norm())
        assert actual.shape == wanted.shape and actual.dtype == dtype
        assert error <= tolerance * scale, f"relative error {error / scale}"


@pytest.mark.parametrize(
    "softcap, has_sinks, mask, is_causal",
    (
        (2.0, False, "none", True),
        (2.0, False, "added", False),
        (None, True, "boolean", False),
        (None, True, "added", False),
        (2.0, True, "none", False),
        (2.0, True, "boolean", True),
    ),
)
def test_output_and_gradients(softcap, has_sinks, mask, is_causal):
    check(softcap, has_sinks, mask, is_causal)


@pytest.mark.parametrize(
    "dtype, tolerance, depth", ((torch.float16, 1e-3, 16), (torch.bfloat16, 8e-3, 16), (torch.bfloat16, 8e-3, 136))
)
def test_types(dtype, tolerance, depth):
    """Of wide heads, the gradients of keys and of values have a kernel each."""
    check(2.0, True, "added", sizes=(70, 65), dtype=dtype, tolerance=tolerance, depth=depth)


@pytest.mark.parametrize("softcap", (1e5, 1e8))
def test_a_cap_that_is_high_caps_nothing(softcap):
    tensors = [random(1, 2, 33, 16, dtype=torch.float16).requires_grad_() for _ in range(3)]
    outputs = [ninetoothed_ops.sdpa(*tensors, softcap=each) for each in (softcap, None)]
    grads = [torch.autograd.grad(each.float().square().sum(), tensors) for each in outputs]
    torch.testing.assert_close(*outputs, rtol=2e-3, atol=2e-3)
    torch.testing.assert_close(*grads, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("scale", (1e-38, -1e-38))
@pytest.mark.parametrize("with_gradients", (False, True))
def test_sinks_beside_scores_of_a_tiny_scale(scale, with_gradients):
    tensors = [random(1, 2, 9, 16).requires_grad_(with_gradients) for _ in range(3)]
    sinks = torch.tensor([1.0, 8.0], device=DEVICE)
    found = ninetoothed_ops.sdpa(*tensors, scale=scale, sinks=sinks)
    torch.testing.assert_close(found, ninetoothed_ops.sdpa(*tensors, scale=0.0, sinks=sinks))
    weights = 1 / (9 + sinks.exp())
    torch.testing.assert_close(found, (tensors[2].sum(2, keepdim=True) * weights[:, None, None]).expand_as(found))


def test_one_query_of_many_keys():
    """Queries of the same keys are rows of one tile, each with the sink of its head."""
    check(2.0, True, "boolean", sizes=(1, 300))


def test_other_ranks_and_lengths():
    query, key, value, sinks = random(2, 3, 4, 1, 16), random(2, 3, 2, 9, 16), random(2, 3, 2, 9, 8), random(4)
    options = {"enable_gqa": True, "scale": 0.3, "softcap": 2.0, "sinks": sinks}
    output = ninetoothed_ops.sdpa(query, key, value, **options, lengths=torch.tensor(5, device=DEVICE))
    wide = [each.flatten(0, 1).double() for each in (query, key[..., :5, :], value[..., :5, :])]
    expected = attention(*wide, scale=0.3, sinks=sinks, softcap=2.0)
    torch.testing.assert_close(output.flatten(0, 1).double(), expected, rtol=1e-5, atol=1e-5)

    alone = ninetoothed_ops.sdpa(query[0, 0, 0], key[0, 0, 0], value[0, 0, 0], scale=0.3, sinks=sinks[:1])
    expected = attention(*(each[:1, :1] for each in (query[0], key[0], value[0])), scale=0.3, sinks=sinks[:1])
    torch.testing.assert_close(alone.double(), expected[0, 0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("scale", (1.0, -0.5, 0.0))
def test_scores_that_are_large_or_infinite(scale):
    """A cap makes numbers of infinities."""
    # The terms of a score have one sign: of both, it depends on how they are added whether that is NaN.
    query, key, value = random(1, 2, 33, 4).abs() * 1e25, random(1, 2, 70, 4).abs() * 1e25, random(1, 2, 70, 8)
    key *= random(1, 2, 70, 1).sign()
    query[0, 0, 3], key[0, 0, 5], query[0, 1, 2] = math.inf, 1.0, math.nan
    for dtype in (torch.float32, torch.bfloat16):
        tensors = [each.to(dtype) for each in (query, key, value)]
        actual = ninetoothed_ops.sdpa(*tensors, scale=scale, softcap=30.0)
        scores = 30.0 * torch.tanh(tensors[0].float() * scale @ tensors[1].mT.float() / 30.0)
        expected = torch.softmax(scores.double(), -1) @ tensors[2].double()
        tolerance = 1e-4 if dtype is torch.float32 else 2e-2
        torch.testing.assert_close(actual.double(), expected, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize("sink", (-math.inf, 1e30))
def test_sinks_that_take_nothing_or_all(sink):
    query, key, value = (random(2, 2, 9, 16).requires_grad_() for _ in range(3))
    mask = boolean(9, 9)
    sinks = torch.full((2,), sink, device=DEVICE, requires_grad=True)
    output = ninetoothed_ops.sdpa(query, key, value, mask, sinks=sinks)
    grads = torch.autograd.grad(output.square().sum(), (query, key, value, sinks))
    expected = ninetoothed_ops.sdpa(query, key, value, mask) if sink < 0 else torch.zeros_like(output)
    torch.testing.assert_close(output, expected)
    wanted = torch.autograd.grad(expected.square().sum() + query.sum() * 0, (query, key, value), allow_unused=True)
    for actual, each in zip(grads, wanted):
        torch.testing.assert_close(actual, torch.zeros_like(actual) if each is None else each)
    assert not grads[3].any()


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")  # it runs item by item
def test_dropout_under_vmap_is_drawn_as_its_randomness_says():
    query = torch.randn(1, 2, 8, 16, device=DEVICE)

    def dropped(randomness):
        attend = torch.vmap(lambda x: ninetoothed_ops.sdpa(x, x, x, dropout_p=0.5), randomness=randomness)
        return attend(query.expand(2, -1, -1, -1, -1))

    one, other = dropped("same")
    assert torch.equal(one, other)
    one, other = dropped("different")
    assert not torch.equal(one, other)
    with pytest.raises(RuntimeError, match="randomness"):
        dropped("error")
    with torch.autocast(DEVICE, torch.bfloat16):
        assert dropped("same").dtype == torch.bfloat16


def test_dropout_is_of_the_seed_and_scales_what_is_kept():
    query, key = random(1, 2, 8, 16), random(1, 2, 400, 16)
    value, sinks = torch.ones(1, 2, 400, 1, device=DEVICE), torch.zeros(2, device=DEVICE)
    drawn = []
    for seed, rate, needs_grad in ((0, 0.0, False), (1, 0.5, False), (1, 0.5, True), (2, 0.5, False)):
        torch.manual_seed(seed)
        query.requires_grad_(needs_grad)
        drawn.append(ninetoothed_ops.sdpa(query, key, value, dropout_p=rate, scale=0.01, sinks=sinks, softcap=5.0))
    whole, first, again, other = drawn
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert (first.mean() - whole.mean()).abs() < 0.05 and (first - whole).abs().max() < 0.4


@pytest.mark.parametrize(
    "options, error, message",
    (
        ({"softcap": 0.0}, ArgumentError, "takes a finite softcap above zero, but got 0.0; leave it out"),
        ({"softcap": -1}, ArgumentError, "above zero, but got -1"),
        ({"softcap": math.nan}, ArgumentError, "above zero, but got nan"),
        ({"softcap": math.inf}, ArgumentError, "above zero, but got inf"),
        ({"softcap": "50"}, ArgumentTypeError, "takes a number for softcap, but got '50'"),
        ({"sinks": torch.zeros(3)}, ArgumentError, r"a sink for each head, of the shape \(2,\), .*got \(3,\)"),
        ({"sinks": torch.zeros(1, 2)}, ArgumentError, r"got \(1, 2\)"),
        ({"sinks": torch.zeros(2).bool()}, ArgumentError, "got .* of torch.bool"),
        ({"sinks": torch.zeros(2, device="meta")}, ArgumentError, "on meta"),
        ({"sinks": 1.0}, ArgumentTypeError, "takes a tensor for sinks, but got 1.0"),
    ),
)
def test_refused(options, error, message):
    sinks = options.get("sinks")
    if isinstance(sinks, torch.Tensor) and sinks.device.type == "cpu":
        options = {"sinks": sinks.to(DEVICE)}
    query = random(1, 2, 3, 16)
    with pytest.raises(error, match=message):
        ninetoothed_ops.sdpa(query, query, query, **options)


def test_as_an_operator_of_pytorch():
    """Fake tensors, autocast, and compiled with its gradient."""
    tensors = *(random(1, 2, 9, 16).requires_grad_() for _ in range(3)), random(2).requires_grad_()
    options = {"scale": 0.25, "softcap": 2.0}
    query, key, value, sinks = tensors
    checks = "test_schema", "test_faketensor", "test_autograd_registration"
    arguments = query, key, value, None, 0.0, True, None, sinks
    torch.library.opcheck(torch.ops.ninetoothed.sdpa.default, arguments, options, test_utils=checks)

    def call(query, key, value, sinks):
        return ninetoothed_ops.sdpa(query, key, value, is_causal=True, sinks=sinks, **options)

    def loss(*tensors):
        return call(*tensors).square().sum()

    expected = torch.autograd.grad(loss(*tensors), tensors)
    torch._dynamo.reset()
    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    for actual, wanted in zip(torch.autograd.grad(compiled(*tensors), tensors), expected):
        torch.testing.assert_close(actual, wanted)
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        output = call(*tensors)
        grads = torch.autograd.grad(output.square().sum(), tensors)
    assert output.dtype is torch.bfloat16
    for actual, wanted in zip(grads, expected):
        assert actual.dtype is torch.float32 and (actual - wanted).norm() <= 0.03 * wanted.norm()
