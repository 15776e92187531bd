import pytest
import torch

import ninetoothed
from ninetoothed import ir
from ninetoothed.arrangement.tensor import Tensor
from ninetoothed.runtime.dispatch import program


def pairs(x, y):
    return x.tile((2, 8)).squeeze(1), y.tile((1,))


def total(x, y):
    y = ninetoothed.language.sum(x)


@pytest.fixture
def kernel():
    return ninetoothed.make(pairs, total, (Tensor(2), Tensor(1)))


def guards_of(kernel, *tensors):
    operations = ir.walk(program(kernel, tensors, {}).body)
    return {op.access.parameter: op.access.guards for op in operations if isinstance(op, ir.Load | ir.Store)}


def test_a_program_is_within_the_outermost_shape_of_every_tensor(kernel):
    """Calls whose outermost shapes differ are refused, so y needs no guard though its size has another name."""
    x = torch.randn(13, 8)
    y = torch.full((7,), float("nan"))
    guards = guards_of(kernel, x, y)
    assert guards["y"] == ()
    assert guards["x"]
    kernel(x, y)
    wanted = torch.nn.functional.pad(x, (0, 0, 0, 1)).double().reshape(7, 16).sum(1)
    torch.testing.assert_close(y.double(), wanted, rtol=1e-5, atol=1e-5)


def test_it_is_checked_that_they_agree(kernel):
    with pytest.raises(ninetoothed.errors.ArgumentError):
        kernel(torch.randn(13, 8), torch.empty(6))
