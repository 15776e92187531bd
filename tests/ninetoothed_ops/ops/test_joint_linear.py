"""`joint_linear`, of weights that lie one behind another and of others: values, gradients, recordings, errors."""

import pytest
import torch
from torch.autograd import gradcheck
from torch.nn import functional

from ninetoothed.errors import ArgumentError
from ninetoothed.runtime.launch_plan import ReplayedFunction
from ninetoothed.runtime.launch_steps import LaunchPlan
from ninetoothed_ops.kernels import addmm
from ninetoothed_ops.ops import joint_linear
from ninetoothed_ops.ops.joint_linear import operator
from tests.conftest import DEVICE
from tests.ninetoothed.runtime import addresses

SIZES = (20, 8, 24)
TOLERANCES = {torch.float64: 1e-13, torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}


def namesake(input, weights, biases):
    layers = zip(weights, biases or [None] * len(weights), strict=True)
    return torch.cat([functional.linear(input, weight, bias) for weight, bias in layers], -1)


def arguments(are_joint, has_bias, dtype=torch.float64, shape=(2, 3, 32), device=DEVICE):
    input, weight, bias = (torch.randn(each, device=device, dtype=torch.float64) for each in (shape, (52, 32), (52,)))
    groups = [each.to(dtype).split(SIZES) for each in ((weight, bias) if has_bias else (weight,))]
    groups = [[part if are_joint else torch.cat((part, part))[: len(part)] for part in group] for group in groups]
    return input.to(dtype), groups[0], groups[1] if has_bias else []


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("has_bias", (False, True))
@pytest.mark.parametrize("are_joint", (False, True))
def test_values(are_joint, has_bias, dtype):
    if DEVICE == "cuda" and dtype is torch.float64:
        pytest.skip("products in float64 are for the CPU")
    for shape in ((2, 3, 32), (32,), (5, 32), (0, 32)):
        input, weights, biases = arguments(are_joint, has_bias, dtype, shape)
        output = operator(input, weights, biases)
        expected = namesake(input.double(), [each.double() for each in weights], [each.double() for each in biases])
        assert output.dtype == dtype and output.shape == expected.shape and output.is_contiguous()
        assert (output.double() - expected).norm() <= TOLERANCES[dtype] * expected.norm()
        assert joint_linear.flatten(input, weights, biases)[1:3] == (3, are_joint)


@pytest.mark.skipif(torch.cuda.is_available(), reason="in float64, on the CPU")
@pytest.mark.parametrize("are_joint", (False, True))
def test_gradients(are_joint):
    input, weights, biases = arguments(are_joint, has_bias=True)
    leaves = [each.requires_grad_() for each in (input, *(part.detach() for part in (*weights, *biases)))]

    def call(input, *tensors):
        return operator(input, tensors[:3], tensors[3:])

    assert gradcheck(call, leaves, fast_mode=True)
    assert torch.autograd.gradgradcheck(call, leaves, fast_mode=True)
    # Each alone is given a gradient, and no other is computed.
    for leaf in leaves:
        others = [each if each is leaf else each.detach() for each in leaves]
        (found,) = torch.autograd.grad(call(*others).square().sum(), leaf)
        (expected,) = torch.autograd.grad(namesake(others[0], others[1:4], others[4:]).square().sum(), leaf)
        torch.testing.assert_close(found, expected)
    torch.library.opcheck(operator, (leaves[0], leaves[1:4], leaves[4:]))


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("are_joint", (False, True))
def test_the_gradient_of_an_input_is_one_sum(are_joint, dtype, monkeypatch):
    """One product of weights that lie one behind another; else others are added in place. No input is written."""
    products, linear = [], joint_linear.linear
    monkeypatch.setattr(joint_linear, "linear", lambda *args: (products.append(args[0].shape), linear(*args))[1])
    for shape in ((2, 3, 32), (32,), (0, 32)):
        input, weights, _ = arguments(are_joint, False, dtype, shape)
        weights = [each.detach().requires_grad_() for each in weights]
        output = operator(input.requires_grad_(), weights, ())
        grad = torch.randn(*output.shape[:-1], 2 * output.shape[-1], device=DEVICE, dtype=dtype)[..., ::2]
        kept, products[:] = grad.clone(), []
        (found,) = torch.autograd.grad(output, input, grad)
        expected = sum(g.double() @ w.double() for g, w in zip(grad.split(SIZES, -1), weights))
        assert products == [(*shape[:-1], 52 if are_joint else SIZES[0])] and torch.equal(grad, kept)
        assert (found.double() - expected).norm() <= TOLERANCES[dtype] * expected.norm()
        assert found.dtype == dtype and found.shape == input.shape


@pytest.mark.parametrize("are_joint", (True, False))
@pytest.mark.parametrize("within", ((False, True), (True, False), (True, True)))
def test_autocast_of_either_pass(within, are_joint):
    """The gradient of an input, where the forward or the backward alone is under autocast, too."""
    input, weights, _ = arguments(are_joint, False, torch.float32, (3, 32))
    leaves = [each.detach().requires_grad_() for each in weights[:2]]
    calls = (lambda x: operator(x, leaves, ()), lambda x: torch.ops.ninetoothed.linear_swiglu(x, leaves[0], leaves[0]))
    for call in calls:
        x = input.detach().requires_grad_()
        with torch.autocast(DEVICE, torch.bfloat16, enabled=within[0]):
            output = call(x)
        with torch.autocast(DEVICE, torch.bfloat16, enabled=within[1]):
            (found,) = torch.autograd.grad(output, x, torch.ones_like(output))
        (exact,) = torch.autograd.grad(call(x), x, torch.ones(output.shape, device=DEVICE))
        assert found.dtype == torch.float32 and (found - exact).norm() <= 2e-2 * exact.norm()


@pytest.mark.parametrize("shape", ((32,), (1, 32), (3, 32)))
def test_gradients_share_no_memory(shape):
    input, weights, biases = arguments(False, True, torch.float32, shape)
    leaves = [each.detach().requires_grad_() for each in (*weights, *biases)]
    output = operator(input, leaves[:3], leaves[3:])
    output.backward(grad := torch.randn_like(output))

    storages = [each.untyped_storage().data_ptr() for each in (grad, *(leaf.grad for leaf in leaves))]
    assert len(set(storages)) == len(storages)


@pytest.fixture
def new_kernel():
    """A kernel that has not been called, nor will be by other tests: it remembers how it runs."""
    addmm.make.cache_clear()
    yield
    addmm.make.cache_clear()


@pytest.mark.usefixtures("new_kernel")
def test_a_recording_sees_where_the_weights_lie(monkeypatch):
    addresses.use(monkeypatch)
    replayed = ReplayedFunction(joint_linear.allocate, joint_linear.launch)
    found = set()
    with torch.inference_mode():
        for are_joint in (True, False, True) * 3:
            input, weights, biases = arguments(are_joint, True, torch.float32)
            flat = joint_linear.flatten(input, weights, biases)
            torch.testing.assert_close(replayed(*flat), namesake(input, weights, biases), rtol=1e-4, atol=1e-4)
            known = replayed.calls.find(flat, ())
            found.add((are_joint, len(known.steps) if isinstance(known, LaunchPlan) else None))
    assert {(True, 1), (False, 3)} <= found


def test_casts_under_autocast():
    input, weights, biases = arguments(True, True, torch.float32)
    with torch.no_grad(), torch.autocast(DEVICE, dtype=torch.bfloat16):
        output = operator(input, weights, biases)
    assert output.dtype == torch.bfloat16
    torch.testing.assert_close(output.float(), namesake(input, weights, biases), rtol=5e-2, atol=0.2)


@pytest.mark.parametrize("are_joint", (False, True))
def test_biases_and_errors(are_joint):
    input, weights, biases = arguments(are_joint, True, torch.float32)
    for wrong in (input[..., 1:], input.half()):
        with pytest.raises(RuntimeError):
            operator(wrong, weights, biases)
    # Biases that repeat themselves, and lie one behind another.
    scalars = list(torch.randn(3, device=DEVICE).split(1))
    torch.testing.assert_close(operator(input, weights, scalars), namesake(input, weights, scalars))
    for lists in ((weights[:2], biases), ([], [])):
        with pytest.raises(ArgumentError, match="a bias for each"):
            operator(input, *lists)
