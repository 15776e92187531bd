"""`linear_swiglu`, of weights that lie one behind another and of others, as one product and as two."""

import pytest
import torch
from torch.autograd import gradcheck
from torch.nn import functional

from ninetoothed_ops.ops import linear_swiglu
from ninetoothed_ops.ops.linear_swiglu import operator
from tests.conftest import DEVICE

TOLERANCES = {torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 1e-2}


def namesake(input, gate, up):
    return functional.silu(functional.linear(input, gate)) * functional.linear(input, up)


def arguments(dtype, shape=(3, 5, 40), columns=72, are_joint=True, device=DEVICE):
    input = torch.randn(shape, device=device, dtype=torch.float64).to(dtype)
    weights = torch.randn(2 * columns, shape[-1], device=device, dtype=torch.float64).to(dtype).split(columns)
    return input, *(weights if are_joint else map(apart, weights))


def apart(weight):
    """A copy in twice the memory: copies of just their size may lie one behind another by chance."""
    return torch.cat((weight, weight))[: len(weight)]


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("are_joint", (True, False))
def test_values(monkeypatch, dtype, are_joint):
    """Of sizes that end within tiles; as one product just what as two, bit for bit on a CPU."""
    for shape, columns in (((3, 5, 40), 72), ((130, 64), 200), ((24,), 8), ((0, 16), 8), ((4, 0), 8)):
        given = arguments(dtype, shape, columns, are_joint)
        as_two = operator(*given)
        with monkeypatch.context() as patched:
            patched.setattr(linear_swiglu, "FEWEST_ROWS", 1)
            output = linear_swiglu.allocate(*linear_swiglu.flatten(*given)).fill_(float("nan"))
            linear_swiglu.launch(output, *linear_swiglu.flatten(*given))
        assert output.dtype == dtype and output.shape == as_two.shape == (*shape[:-1], columns)
        expected = namesake(*(each.double() for each in given))
        for found in (output, as_two):
            assert (found.double() - expected).norm() <= TOLERANCES[dtype] * expected.norm()
        assert DEVICE != "cpu" or torch.equal(output, as_two)


def test_many_rows_are_one_product(monkeypatch):
    made = []
    monkeypatch.setattr(linear_swiglu.kernels, "make", lambda make=linear_swiglu.kernels.make: made.append(1) or make())
    for rows, are_joint, dtype in ((128, True, torch.bfloat16), (127, True, torch.bfloat16)):
        operator(*arguments(dtype, (rows, 16), 16, are_joint))
    operator(*arguments(torch.bfloat16, (128, 16), 16, False))
    operator(*arguments(torch.float32, (128, 16), 16))
    assert made == [1]


def test_errors():
    input, gate, up = arguments(torch.float32)
    with pytest.raises(RuntimeError, match="two weights of one shape, but got"):
        operator(input, gate, up[:-1])
    with pytest.raises(RuntimeError):
        operator(input, gate, up.half())
    with pytest.raises(RuntimeError):
        operator(input[..., 1:], gate, up)


@pytest.mark.skipif(DEVICE != "cpu", reason="in float64, on the CPU")
def test_gradients():
    leaves = [each.detach().requires_grad_() for each in arguments(torch.float64, (2, 3, 4), 5)]
    assert gradcheck(operator, leaves, fast_mode=True)
    assert torch.autograd.gradgradcheck(operator, leaves, fast_mode=True)
    torch.library.opcheck(operator, tuple(leaves))
