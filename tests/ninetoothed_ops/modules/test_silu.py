import pytest
import torch
import torch.nn.functional as F
from torch import nn

from ninetoothed_ops.modules import NTSiLU, swap_modules
from tests.conftest import DEVICE, error

TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", ((), (7, 5), (2, 1, 33)))
def test_agrees_with_float64(shape, dtype):
    input = torch.randn(shape, device=DEVICE, dtype=dtype)
    kept = input.clone()
    output = NTSiLU()(input)
    assert output.shape == input.shape and output.dtype == dtype and torch.equal(input, kept)
    assert error(output, F.silu(input.double())) < TOLERANCE[dtype]


def test_in_place_means_in_place():
    input = torch.randn(6, 5, device=DEVICE)[:, ::2]
    expected = F.silu(input.double())
    module = nn.SiLU(inplace=True)
    swap_modules(module)
    assert module(input) is input
    assert error(input, expected) < 1e-5
    assert repr(module) == "NTSiLU(inplace=True)"


def test_transformers_activation():
    pytest.importorskip("transformers")
    from transformers.activations import ACT2FN

    module = ACT2FN["silu"]
    report = swap_modules(module)
    input = torch.randn(6, 5, device=DEVICE)
    assert isinstance(module, NTSiLU) and error(module(input), F.silu(input.double())) < 1e-5
    assert repr(module) == "NTSiLU()"
    report.undo()
    assert type(module) is type(ACT2FN["silu"]) and torch.equal(module(input), F.silu(input))
