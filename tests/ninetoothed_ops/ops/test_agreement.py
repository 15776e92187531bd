"""Every operator against PyTorch: values, and shapes, types, devices and strides, real and fake."""

import functools

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import ninetoothed_ops
from tests.conftest import DEVICE
from tests.ninetoothed_ops.samples import LABELS, NAMESAKES, OPERATORS, Sample, operator, samples

# Relative errors in the Frobenius norm: some roundings of one element.
TOLERANCES = {torch.float64: 1e-13, torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}
PRODUCTS = {"addmm", "bmm", "conv2d", "linear", "linear_cross_entropy", "mm", "sdpa"}


@pytest.fixture(autouse=True)
def outputs_start_as_nan():
    """So that an element that no program writes is seen."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


def reference(sample: Sample) -> torch.Tensor:
    """PyTorch's answer, computed in float64."""
    return sample.map(lambda tensor: tensor.double() if tensor.is_floating_point() else tensor).call(
        NAMESAKES[sample.operator]
    )


def assert_close(actual: torch.Tensor, expected: torch.Tensor, tolerance: float) -> None:
    assert actual.shape == expected.shape
    error = (actual.double() - expected).norm()
    assert error <= tolerance * expected.norm(), f"relative error {error / expected.norm()}"


@functools.cache
def drawn(name, dtype):
    """The samples of an operator, which no test here changes; the same whichever test asks first."""
    torch.manual_seed(0)
    return samples(name, dtype)


@functools.cache
def real(name, label):
    """What an operator gives for a sample in float32, which several tests look at."""
    return drawn(name, torch.float32)[label].call(operator(name))


# In float32 every sample; in the other types every third, each type another third.
TYPED = [(*which, torch.float32) for which in LABELS] + [
    (*which, dtype)
    for start, dtype in enumerate((torch.float64, torch.float16, torch.bfloat16))
    for which in LABELS[start::3]
]


@pytest.mark.parametrize("name, label, dtype", TYPED)
def test_values(name, label, dtype):
    if DEVICE == "cuda" and dtype is torch.float64 and name in PRODUCTS:
        pytest.skip("products in float64 are for the CPU")
    sample = drawn(name, dtype)[label]

    actual = real(name, label) if dtype is torch.float32 else sample.call(operator(name))

    assert actual.device.type == DEVICE
    # A loss in float32 is that of logits in halves.
    is_typed = actual.dtype is not torch.float64 and name != "linear_cross_entropy"
    assert_close(actual, reference(sample), TOLERANCES[actual.dtype if is_typed else dtype])


@pytest.mark.parametrize("name", OPERATORS)
def test_front_door_is_the_operator(name):
    for label, sample in drawn(name, torch.float32).items():
        found = sample.call(getattr(ninetoothed_ops, name))
        torch.testing.assert_close(
            found, real(name, label), rtol=0, atol=0, equal_nan=True, msg=f"{label}: {{}}".format
        )


@pytest.mark.parametrize("name", OPERATORS)
def test_shape_type_and_strides_are_those_of_pytorch(name):
    for label, sample in drawn(name, torch.float32).items():
        actual, expected = real(name, label), sample.call(NAMESAKES[name])
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype), label
        # PyTorch's own strides differ from one of its GPU kernels to the next; the CPU's have one rule.
        if name == "sdpa":
            expected = sample.map(torch.Tensor.cpu).call(NAMESAKES[name])
        assert name == "rope" or "depth" in label or actual.stride() == expected.stride(), label


@pytest.mark.parametrize("name", OPERATORS)
def test_fakes_and_meta_tensors_tell_what_the_real_ones_are(name):
    for label, sample in drawn(name, torch.float32).items():
        found = real(name, label)
        with FakeTensorMode() as mode:
            fake = sample.map(mode.from_tensor).call(operator(name))
        assert (fake.shape, fake.dtype, fake.device) == (found.shape, found.dtype, found.device), label
        assert fake.stride() == found.stride(), label
        meta = sample.map(lambda tensor: tensor.to("meta")).call(operator(name))
        assert meta.is_meta and (meta.shape, meta.dtype) == (found.shape, found.dtype), label


def test_addmm_ignores_products_that_are_taken_no_times():
    nan, input = torch.full((3, 3), float("nan")), torch.randn(3, 3)
    torch.testing.assert_close(ninetoothed_ops.addmm(input, nan, input, alpha=0), input)
    torch.testing.assert_close(ninetoothed_ops.addmm(input, nan, input, alpha=0, beta=0), torch.zeros(3, 3))
