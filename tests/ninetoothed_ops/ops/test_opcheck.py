"""`torch.library.opcheck`: schemas, fakes, autograd registration, and AOT autograd with symbolic shapes."""

import functools

import pytest
import torch

from tests.conftest import DEVICE
from tests.ninetoothed_ops.samples import LABELS, OPERATORS, operator, samples


@functools.cache
def drawn(name, dtype):
    return samples(name, dtype)


# Fakes are compared for every sample in `test_agreement`. Symbolic shapes take as long as the other three together.
CHEAP = ("test_schema", "test_autograd_registration", "test_faketensor")


@pytest.mark.parametrize("name, label", LABELS[::3])
def test_opcheck(name, label):
    sample = drawn(name, torch.float32)[label]

    torch.library.opcheck(operator(name).default, sample.args, sample.kwargs, test_utils=CHEAP)


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("name", OPERATORS)
def test_opcheck_with_symbolic_shapes(name, dtype):
    sample = next(iter(drawn(name, dtype).values()))

    torch.library.opcheck(operator(name).default, sample.args, sample.kwargs)


@pytest.mark.parametrize("types", ((torch.int32, torch.float16), (torch.bool, torch.uint8), (torch.bool, torch.bool)))
def test_opcheck_of_mixed_types(types):
    args = tuple(torch.ones(3, 4, device=DEVICE).to(dtype) for dtype in types)

    torch.library.opcheck(operator("add").default, args)
