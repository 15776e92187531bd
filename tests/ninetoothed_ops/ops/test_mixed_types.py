"""Operands of several types, and types that are asked for: every pair, against PyTorch."""

import functools
import itertools

import pytest
import torch
from torch.nn import functional

import ninetoothed_ops
from ninetoothed_ops import gated, swiglu
from ninetoothed_ops.ops import functions
from tests.conftest import DEVICE

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
TYPES = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, *FLOATS)
TOLERANCES = {torch.float16: 1e-3, torch.bfloat16: 8e-3, torch.float32: 2e-6, torch.float64: 1e-13}


def assert_same(actual, expected, tolerance=None):
    """Of one type, and equal but for some roundings of one element."""
    assert actual.dtype is expected.dtype
    error = (actual.double() - expected.double()).norm()
    allowed = TOLERANCES[actual.dtype] if tolerance is None else tolerance
    assert error <= allowed * expected.double().norm(), f"{actual} is not {expected}"


@pytest.mark.parametrize("asked", (None, *FLOATS))
def test_softmax_of_the_converted_input(asked):
    # What differs by less than the type asked for can hold makes a difference only before the conversion.
    x = torch.tensor([[1000.1, 1000.2, 999.7, 2049, 3e4], [1e8, 1e8 + 1, 1e8 + 3, 1e8 - 5, 0]], dtype=torch.float64)
    for dtype in TYPES if asked is not None else FLOATS:
        for dim in (0, 1):
            given = x.to(DEVICE).to(dtype)
            expected = torch.softmax(given if asked is None else given.to(asked), dim)
            if not expected.isnan().any():
                assert_same(ninetoothed_ops.softmax(given, dim, dtype=asked), expected)


@pytest.mark.parametrize("dtype", FLOATS)
def test_rms_norm_with_a_weight_of_another_type(dtype):
    for other in FLOATS:
        x, weight = torch.randn(3, 5, device=DEVICE).to(dtype), torch.randn(5, device=DEVICE).to(other)
        expected = functional.rms_norm(x.double(), (5,), weight.double(), 1e-3).to(dtype)
        assert_same(ninetoothed_ops.rms_norm(x, (5,), weight, 1e-3), expected)


@pytest.mark.parametrize("dtype", FLOATS)
def test_rope_with_tables_of_another_type(dtype):
    for other in FLOATS:
        x = torch.randn(2, 3, 4, 8, device=DEVICE).to(dtype)
        sin, cos = (torch.randn(3, 4, device=DEVICE).to(other) for _ in range(2))
        even, odd = x.double().unflatten(-1, (-1, 2)).unbind(-1)
        wide_sin, wide_cos = sin.double()[:, None], cos.double()[:, None]
        expected = torch.stack((even * wide_cos - odd * wide_sin, even * wide_sin + odd * wide_cos), -1).flatten(-2)
        assert_same(ninetoothed_ops.rope(x, sin, cos), expected.to(dtype))


@pytest.mark.parametrize("factor", ("alpha", "beta"))
def test_addmm_refuses_factors_beyond_float32(factor):
    x = torch.ones(2, 2, device=DEVICE)
    for dtype in (torch.float16, torch.float32):
        with pytest.raises(RuntimeError, match="cannot be converted to type float without overflow"):
            ninetoothed_ops.addmm(*[x.to(dtype)] * 3, **{factor: 1e39})
        assert ninetoothed_ops.addmm(*[x.to(dtype)] * 3, **{factor: float("inf")}).isinf().all()


@pytest.mark.parametrize("function", ("silu", "gelu", "gelu_tanh"))
@pytest.mark.parametrize("first, second", [*itertools.product(FLOATS, FLOATS)])
def test_gates_of_another_type(function, first, second):
    """The types of the result, of each gradient and of those of gradients are PyTorch's."""
    namesake = functional.silu if function == "silu" else functions.FUNCTIONS[function]
    ours = swiglu if function == "silu" else functools.partial(gated, function=function)
    tensors = [torch.randn(3, 5, device=DEVICE).to(dtype).requires_grad_() for dtype in (first, second)]
    wide = [each.detach().double().requires_grad_() for each in tensors]
    found, expected = ours(*tensors), namesake(wide[0]) * wide[1]
    assert found.dtype is (namesake(tensors[0]) * tensors[1]).dtype
    # The gate is computed in its own type.
    tolerance = 4 * max(TOLERANCES[first], TOLERANCES[second])
    grad = torch.randn(3, 5, device=DEVICE).to(found.dtype)
    for needed in ([0, 1], [0], [1]):
        leaves, others = ([both[i] for i in needed] for both in (tensors, wide))
        grads = torch.autograd.grad(found, leaves, grad, create_graph=True)
        exact = torch.autograd.grad(expected, others, grad.double(), create_graph=True)
        for own, other, leaf in zip(grads, exact, leaves):
            assert_same(own, other.to(leaf.dtype), tolerance)
        (own,) = torch.autograd.grad(
            sum(each.double().square().sum() for each in grads), tensors[:1], retain_graph=True
        )
        (other,) = torch.autograd.grad(sum(each.square().sum() for each in exact), wide[:1], retain_graph=True)
        assert_same(own, other.to(first), 4 * tolerance)
