"""A call that loses gradients warns at the user's line; one that is meant, or is recorded, says nothing."""

import inspect
import warnings

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import ninetoothed
from ninetoothed import LostGradientWarning, Tensor
from ninetoothed_ops import register
from tests.conftest import DEVICE


def arrangement(x, y):
    return x.tile((8,)), y.tile((8,))


def application(x, y):
    y = 2 * x


def made(function=application):
    return ninetoothed.make(arrangement, function, (Tensor(1), Tensor(1)), kernel_name="double")


def tensors(requires_grad=True, size=24):
    return torch.randn(size, device=DEVICE, requires_grad=requires_grad), torch.empty(size, device=DEVICE)


def warned(function):
    """Return what a function warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    return [each for each in caught if each.category is LostGradientWarning]


def test_a_call_names_what_requires_gradients_its_line_and_the_cure():
    kernel = made()
    (warning,) = warned(lambda: kernel(*tensors()))
    told = str(warning.message)
    assert told.startswith("kernel `double`: `x` requires gradients, and autograd does not record what a kernel")
    assert all(cure in told for cure in ("ninetoothed_ops.register", "`backward`", "torch.no_grad()", ".detach()"))
    assert (warning.filename, warning.lineno) == (__file__, inspect.currentframe().f_lineno - 4)


def test_each_line_warns_once_by_default():
    kernel = made()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for size in (8, 24, 40):
            kernel(*tensors(size=size))
            kernel(*tensors(size=size))
        kernel(*tensors())
    assert [each.category for each in caught] == [LostGradientWarning] * 2


@pytest.mark.parametrize("calls", range(1, 8))
def test_calls_without_gradients_before_hide_nothing(calls):
    kernel = made()
    x, y = tensors(requires_grad=False)
    assert not warned(lambda: [kernel(x, y) for _ in range(calls)])
    assert warned(lambda: kernel(*tensors()))


def test_a_call_without_autograd_before_hides_nothing():
    kernel = made()
    x, y = tensors()
    with torch.no_grad():
        assert not warned(lambda: kernel(x, y))
    assert warned(lambda: kernel(x, y))


def test_misaligned_tensors_have_no_fast_path_and_warn():
    kernel = made()
    x, y = tensors(requires_grad=False, size=25)
    kernel(x[1:], y[1:])
    assert warned(lambda: kernel(x[1:].requires_grad_(), y[1:]))


def test_a_parameter_that_is_given():
    kernel = made()
    assert warned(lambda: kernel(torch.nn.Parameter(torch.ones(8, device=DEVICE)), torch.empty(8, device=DEVICE)))
    kernel = made()
    with torch.no_grad():
        kernel(torch.nn.Parameter(torch.ones(8, device=DEVICE)), torch.empty(8, device=DEVICE))
    assert warned(lambda: kernel(x=torch.nn.Parameter(torch.ones(8, device=DEVICE)), y=tensors(size=8)[1]))


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        made()(x, y)
        return y

    @staticmethod
    def backward(ctx, grad):
        x = torch.empty_like(grad)
        made()(grad.contiguous(), x)
        return x


@torch.library.custom_op("lost_gradients::double", mutates_args=())
def custom_op(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    made()(x, y)
    return y


def registered(x):
    operator = register(
        "lost_gradients::registered(Tensor x) -> Tensor",
        allocate=lambda x: torch.empty_like(x),
        launch=lambda y, x: made()(x, y),
        backward=lambda ctx, grad: operator(grad.contiguous()),
    )
    return operator(x)


def transformed(x):
    """Run an operator below levels of `torch.func`, where autograd is on inside."""
    return torch.func.grad(lambda x: registered(x).sum())(x) + x


class Watching(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def watched(x):
    """Run an operator under a mode, where autograd is on inside."""
    with Watching():
        return registered(x)


@pytest.mark.parametrize("function", [Double.apply, custom_op, registered, transformed, watched])
def test_operators_that_autograd_records_are_silent(function):
    def run():
        x = torch.ones(24, device=DEVICE, requires_grad=True)
        y = function(x)
        if y.requires_grad and function is not custom_op:
            y.sum().backward()

    assert not warned(run)


def test_where_no_gradient_is_wanted_nothing_is_said():
    kernel = made()

    def run():
        x, y = tensors()
        kernel(x.detach(), y)
        with torch.no_grad():
            kernel(x, y)
        with torch.inference_mode():
            kernel(x, y)
            kernel(*tensors())

    assert not warned(run)


def test_a_parameter_that_is_not_touched_is_not_named():
    def ignores(x, y):
        y = y * 0

    kernel = made(ignores)
    assert not warned(lambda: kernel(*tensors()))
