"""`torch.library.opcheck`: schemas, fakes, autograd registration, and AOT autograd with symbolic shapes."""

import pytest
import torch

from tests.conftest import DEVICE
from tests.ninetoothed_ops.samples import LABELS, OPERATORS, operator, samples


@pytest.mark.parametrize("name, label", LABELS)
def test_opcheck(name, label):
    sample = samples(name)[label]

    torch.library.opcheck(operator(name).default, sample.args, sample.kwargs)


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
@pytest.mark.parametrize("name", OPERATORS)
def test_opcheck_of_halves(name, dtype):
    sample = next(iter(samples(name, dtype).values()))

    torch.library.opcheck(operator(name).default, sample.args, sample.kwargs)


@pytest.mark.parametrize("types", ((torch.int32, torch.float16), (torch.bool, torch.uint8), (torch.bool, torch.bool)))
def test_opcheck_of_mixed_types(types):
    args = tuple(torch.ones(3, 4, device=DEVICE).to(dtype) for dtype in types)

    torch.library.opcheck(operator("add").default, args)
