"""`activation` and `gated`: values, gradients of every order, fakes, compiled calls, errors; and how exact `erf` is."""

import math

import pytest
import torch
import torch.nn.functional as F

from ninetoothed.errors import ArgumentError, ArgumentTypeError, UnsupportedError
from ninetoothed_ops import gated, gelu
from ninetoothed_ops.ops.functions import FUNCTIONS
from tests.ninetoothed_ops.samples import operator, random as r

TOLERANCES = {torch.float64: 1e-13, torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}
REFERENCES = {
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "quick_gelu": lambda x: x * (1.702 * x).sigmoid(),
    "relu": F.relu,
    "relu_squared": lambda x: F.relu(x) ** 2,
}


def close(found, expected, tolerance):
    assert found.shape == expected.shape
    assert (found - expected).norm() <= tolerance * expected.norm()


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("function", REFERENCES)
def test_values_and_gradients(function, dtype):
    leaves = [(3 * r(5, 70, dtype=dtype)).requires_grad_(), r(5, 70, dtype=dtype).requires_grad_()]
    grad = r(5, 70, dtype=dtype)
    wide = [each.detach().double().requires_grad_() for each in leaves]
    calls = {1: operator("activation"), 2: operator("gated")}
    for count, call in calls.items():
        found, given = call(*leaves[:count], function), wide[:count]
        expected = REFERENCES[function](given[0]) * (given[1] if count == 2 else 1)
        assert found.dtype == dtype
        close(found, expected, TOLERANCES[dtype])
        grads = torch.autograd.grad(found, leaves[:count], grad)
        for each, wanted in zip(grads, torch.autograd.grad(expected, given, grad.double())):
            close(each, wanted, 4 * TOLERANCES[dtype])


@pytest.mark.parametrize("function", FUNCTIONS)
def test_derivatives_of_every_order(function):
    args = [r(2, 3, dtype=torch.float64).requires_grad_() for _ in range(2)]
    assert torch.autograd.gradgradcheck(lambda gate, up: gated(gate, up, function), args)
    assert torch.autograd.gradgradcheck(lambda x: operator("activation")(x, function), args[:1])
    to_up = torch.autograd.grad(gated(args[0].detach(), args[1], function).sum(), args[1])[0]
    close(to_up, REFERENCES[function](args[0]), 1e-12)


def test_registered_as_pytorch_asks():
    torch.library.opcheck(operator("gated").default, (r(3, 4).requires_grad_(), r(3, 4), "gelu"))
    torch.library.opcheck(operator("activation").default, (r(3, 4).requires_grad_(), "quick_gelu"))


def test_halves_of_a_product_are_not_copied():
    gate, up = r(3, 66).chunk(2, -1)
    found = gated(gate, up, "gelu")
    assert found.is_contiguous()
    torch.testing.assert_close(found, F.gelu(gate) * up)


def test_errors():
    with pytest.raises(ArgumentError, match="ninetoothed::gated: function is 'swish'; it is one of 'gelu'"):
        gated(r(3), r(3), "swish")
    with pytest.raises(ArgumentTypeError, match="takes a string for function"):
        gated(r(3), r(3), 1)
    with pytest.raises(UnsupportedError, match="ninetoothed::gated does not support torch.int32"):
        gated(r(3), r(3).int(), "gelu")
    with pytest.raises(RuntimeError):
        gated(r(2, 3), r(2, 4), "gelu")


def test_extremes():
    inf, nan = math.inf, math.nan
    x = torch.tensor([inf, -inf, nan, 0.0, -0.0, 1e18, -1e18, 1e-30], device=r(1).device)
    for function, expected in REFERENCES.items():
        found = operator("activation")(x, function)
        # In float32, PyTorch gives NaN for gelu of infinity on some CPUs.
        torch.testing.assert_close(found.double(), expected(x.double()), equal_nan=True)


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
@pytest.mark.parametrize("function", ("gelu", "gelu_tanh", "quick_gelu", "relu"))
def test_gradients_of_large_numbers(function, dtype):
    x = torch.tensor([1e14, -1e14, 1e20, -1e20, 3e38, -3e38], dtype=dtype, device=r(1).device).requires_grad_()
    wide, grad = x.detach().double().requires_grad_(), torch.full_like(x, 0.5)
    (expected,) = torch.autograd.grad(REFERENCES[function](wide), wide, grad.double())
    for found in (operator("activation")(x, function), gated(x, torch.ones_like(x), function)):
        # PyTorch's GELU with tanh gives NaN beyond 1e19 in float32.
        torch.testing.assert_close(torch.autograd.grad(found, x, grad)[0], expected.to(dtype))


@pytest.mark.parametrize("function", ("relu", "relu_squared"))
def test_a_gradient_that_overflowed_goes_no_further_than_relu(function):
    x = torch.tensor([-1.0, 0.0, 2.0, math.nan], device=r(1).device).requires_grad_()
    grad = torch.full_like(x, math.inf)
    (expected,) = torch.autograd.grad(REFERENCES[function](x), x, grad)
    for found in (operator("activation")(x, function), gated(x, torch.ones_like(x), function)):
        torch.testing.assert_close(torch.autograd.grad(found, x, grad)[0], expected, equal_nan=True)


def test_erf_is_exact_to_a_few_ulps():
    """The error of gelu is that of the error function, wherever 1 + erf does not cancel."""
    x = torch.linspace(1e-3, 6, 4001, device=r(1).device)
    found, expected = operator("activation")(x, "gelu").double(), F.gelu(x.double())
    ulps = (found - expected).abs() / (expected * torch.finfo(torch.float32).eps)
    assert ulps.max() < 4


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("approximate", ("none", "tanh"))
def test_gelu_of_what_is_large_or_infinite(approximate, dtype):
    """As PyTorch's in float64; it gives NaN where a cube overflows, by tanh, and for float32 on CPUs at infinity."""
    largest = torch.finfo(dtype).max
    x = r(7, dtype=dtype).copy_(
        torch.tensor([math.inf, -math.inf, math.nan, largest, -largest, 11.0, -11.0], dtype=torch.float64)
    )
    found = gelu(x.requires_grad_(), approximate=approximate)
    (grad,) = torch.autograd.grad(found, x, torch.ones_like(x))

    expected = torch.tensor([math.inf, math.nan, math.nan, largest, 0.0, 11.0, 0.0], dtype=torch.float64)
    slopes = torch.tensor([math.nan, math.nan, math.nan, 1.0, 0.0, 1.0, 0.0], dtype=torch.float64)
    torch.testing.assert_close(found.detach().double().cpu(), expected, rtol=1e-3, atol=1e-5, equal_nan=True)
    torch.testing.assert_close(grad.double().cpu(), slopes, rtol=1e-3, atol=1e-5, equal_nan=True)
