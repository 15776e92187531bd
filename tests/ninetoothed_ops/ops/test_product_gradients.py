"""Gradients of mm, addmm, bmm and linear: in PyTorch's layouts, of any factors, and only those that are needed."""

import pytest
import torch

import ninetoothed_ops
from tests.conftest import DEVICE
from tests.ninetoothed_ops.recorder import Recorder
from tests.ninetoothed_ops.samples import NAMESAKES, operator, random, samples


@pytest.mark.parametrize("layouts", (("contiguous", "transposed"), ("transposed", "contiguous"), ("sliced", "sliced")))
def test_layouts_are_pytorchs(layouts):
    tensors = [random(*shape, layout=layout) for shape, layout in zip(((5, 4), (4, 3)), layouts)]
    for name, more in (("mm", ()), ("addmm", (random(3),))):
        found, expected = (
            torch.autograd.grad(function(*more, *(args := [t.detach().requires_grad_() for t in tensors])).sum(), args)
            for function in (operator(name), NAMESAKES[name])
        )
        assert [grad.stride() for grad in found] == [grad.stride() for grad in expected]
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("options", ({"beta": 0}, {"alpha": 0}, {"beta": 0, "alpha": 2}, {"beta": -1.5, "alpha": 1}))
def test_factors(options):
    """What is scaled by 0 is left out of the result; its gradient is 0 times another, which may be NaN."""
    self, mat1, mat2, weights = (random(*shape) for shape in ((3,), (5, 4), (4, 3), (5, 3)))
    for each in (self, mat1, mat2, weights):
        each.view(-1)[0] = float("nan")
    tensors = [each.requires_grad_() for each in (self, mat1, mat2)]
    found, expected = (
        torch.autograd.grad(function(*tensors, **options), tensors, weights)
        for function in (operator("addmm"), torch.addmm)
    )
    torch.testing.assert_close(found, expected, equal_nan=True)


@pytest.mark.parametrize("leading", ((), (3,), (2, 3), (0,)))
@pytest.mark.parametrize("bias", (None, (5,), ()))
def test_linear(leading, bias):
    args = [random(*leading, 4), random(5, 4), *([] if bias is None else [random(*bias)])]
    args = [arg.requires_grad_() for arg in args]
    weights = random(5).expand(*leading, 5)
    found, expected = (
        torch.autograd.grad(function(*args), args, weights)
        for function in (operator("linear"), torch.nn.functional.linear)
    )
    torch.testing.assert_close(found, expected)
    assert [grad.stride() for grad in found] == [grad.stride() for grad in expected]


@pytest.mark.parametrize("layout", ("transposed", "sliced"))
@pytest.mark.parametrize("leading", ((), (3,), (2, 3)))
def test_the_gradient_of_a_weight_lies_as_pytorchs(layout, leading):
    args = [random(*leading, 4).requires_grad_(), random(5, 4, layout=layout).requires_grad_()]
    found, expected = (
        torch.autograd.grad(function(*args).sum(), args)
        for function in (operator("linear"), torch.nn.functional.linear)
    )
    torch.testing.assert_close(found, expected)
    assert [grad.stride() for grad in found] == [grad.stride() for grad in expected]


@pytest.mark.parametrize("name, own", (("mm", 0), ("addmm", 1), ("bmm", 0), ("conv2d", 0), ("linear", 0)))
@pytest.mark.parametrize("needed", (0, 1))
def test_only_what_is_needed_is_kept_and_computed(name, own, needed):
    args = [tensor.clone() for tensor in next(iter(samples(name).values())).args]
    args[own + needed].requires_grad_()
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        output = operator(name)(*args)
    with Recorder() as recorder:
        output.sum().backward()

    assert [tensor.data_ptr() for tensor in kept] == [args[own + 1 - needed].data_ptr()]
    assert sum(each.startswith("ninetoothed::") for each in recorder.names) == 1


def test_autocast():
    bias, input, weight = random(3).requires_grad_(), random(5, 4), random(3, 4).requires_grad_()
    with torch.autocast(DEVICE, torch.bfloat16):
        output = ninetoothed_ops.addmm(bias, input, weight.t())
    output.sum().backward()
    half = input.bfloat16().float()

    assert output.dtype == torch.bfloat16 and weight.grad.dtype == bias.grad.dtype == torch.float32
    assert weight.grad.is_contiguous()
    torch.testing.assert_close(weight.grad, half.sum(0).expand(3, 4).bfloat16().float())
    torch.testing.assert_close(bias.grad, torch.full((3,), 5.0, device=DEVICE))
