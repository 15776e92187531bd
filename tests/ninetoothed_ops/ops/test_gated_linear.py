"""`gated_linear`, the second half of a gated MLP: values, gradients, and that gate and up alone are kept."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.nn import functional

from ninetoothed.errors import ArgumentError
from ninetoothed_ops.ops import functions, gated_linear as operators
from tests.conftest import DEVICE

operator = torch.ops.ninetoothed.gated_linear.default
TOLERANCES = {torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 1e-2}
NAMES = ("silu", *functions.FUNCTIONS)


def namesake(gate, up, weight, function="silu"):
    activation = functional.silu if function == "silu" else functions.FUNCTIONS[function]
    return functional.linear(activation(gate) * up, weight)


def arguments(dtype, shape=(3, 5, 40), columns=24):
    generator = torch.Generator().manual_seed(0)
    both = torch.randn(*shape[:-1], 2 * shape[-1], generator=generator, dtype=torch.float64)
    weight = torch.randn(columns, shape[-1], generator=generator, dtype=torch.float64)
    both, weight = both.to(DEVICE, dtype), weight.to(DEVICE, dtype)
    return *(each.detach().requires_grad_() for each in both.chunk(2, -1)), weight.requires_grad_()


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_values_and_gradients(dtype):
    """Of sizes that end within tiles, of halves of one tensor, of turned weights and of nothing."""
    for shape, function in (((3, 5, 40), "silu"), ((7,), "relu"), ((0, 16), "silu")):
        gate, up, weight = arguments(dtype, shape)
        for matrix in (weight, weight.detach().t().contiguous().t().requires_grad_()):
            output = operator(gate, up, matrix, function)
            expected = namesake(*(each.double() for each in (gate, up, matrix)), function)
            grad = torch.randn_like(expected)
            found = torch.autograd.grad(output, (gate, up, matrix), grad.to(dtype))
            wanted = torch.autograd.grad(expected, (gate, up, matrix), grad)
            for one, other in zip((output, *found), (expected, *wanted), strict=True):
                assert one.dtype == dtype and one.shape == other.shape
                assert (one.double() - other.double()).norm() <= 3 * TOLERANCES[dtype] * other.double().norm()
            assert found[2].stride() == matrix.stride()


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_the_output_again_has_the_bits_that_it_had(dtype):
    for function in NAMES:
        gate, up, weight = (each.detach() for each in arguments(dtype))
        grad = torch.ones_like(gate)
        outputs = operators.allocate_with_output(grad, gate, up, function)
        for each in outputs:
            each.fill_(float("nan"))
        operators.launch_with_output(outputs, grad, gate, up, function)
        expected = operators.recorded_with_output(grad, gate, up, function)
        assert all(map(torch.equal, outputs, expected))


def test_gate_and_up_alone_are_kept():
    gate, up, weight = arguments(torch.float32)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda each: kept.append(each) or each, lambda each: each):
        operator(gate, up, weight, "silu")
    assert {each.data_ptr() for each in kept} == {each.data_ptr() for each in (gate, up, weight)}


@pytest.mark.skipif(DEVICE != "cpu", reason="float64 is multiplied on the CPU alone")
def test_gradients_that_nobody_asked_for_are_left_out():
    for needed in ((True, False, False), (False, False, True), (True, True, False), (False, True, True)):
        given = [each.detach().requires_grad_(is_needed) for each, is_needed in zip(arguments(torch.float64), needed)]
        asked = [each for each, is_needed in zip(given, needed) if is_needed]
        found = torch.autograd.grad(operator(*given, "silu").square().sum(), asked)
        for one, other in zip(found, torch.autograd.grad(namesake(*given).square().sum(), asked), strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.skipif(DEVICE != "cpu", reason="in float64, on the CPU")
def test_gradients_of_every_order():
    leaves = arguments(torch.float64, (2, 3), 2)
    assert gradcheck(lambda *given: operator(*given, "gelu"), leaves, fast_mode=True)
    assert gradgradcheck(lambda *given: operator(*given, "gelu"), leaves, fast_mode=True)


def test_errors():
    gate, up, weight = arguments(torch.float32)
    with pytest.raises(ArgumentError, match="gated_linear: function is 'swish'"):
        operator(gate, up, weight, "swish")
    with pytest.raises(RuntimeError, match="one floating type, one shape"):
        operator(gate, up[..., 1:], weight, "silu")
    with pytest.raises(RuntimeError, match="one floating type, one shape"):
        operator(gate, up.half(), weight, "silu")
    with pytest.raises(RuntimeError):
        operator(gate, up, weight[:, 1:], "silu")
