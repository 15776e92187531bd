import pytest
import torch
import torch.nn.functional as F
from torch import nn

from ninetoothed_ops.modules import NTRMSNorm, swap_modules
from tests.conftest import DEVICE, error

TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", ((70,), (3, 5, 70), (0, 70)))
def test_agrees_with_float64(shape, dtype):
    norm = NTRMSNorm(70, eps=0.1, device=DEVICE, dtype=dtype)
    nn.init.normal_(norm.weight)
    input = torch.randn(shape, device=DEVICE, dtype=dtype)
    with torch.no_grad():
        output = norm(input)
    assert output.shape == input.shape and output.dtype == dtype
    if output.numel():
        assert error(output, F.rms_norm(input.double(), (70,), norm.weight.double(), 0.1)) < TOLERANCE[dtype]


def test_several_dimensions_no_weight_and_the_default_eps():
    input = torch.randn(3, 4, 5, device=DEVICE) * 1e-4
    norm = NTRMSNorm((4, 5), elementwise_affine=False, device=DEVICE)
    expected = F.rms_norm(input.double(), (4, 5), None, torch.finfo(torch.float32).eps)
    with torch.no_grad():
        assert error(norm(input), expected) < 1e-5


@pytest.fixture
def llama():
    pytest.importorskip("transformers")
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    norm = LlamaRMSNorm(70, eps=0.1).to(DEVICE)
    nn.init.normal_(norm.weight)
    return norm


@pytest.mark.parametrize("weight", TOLERANCE)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_llamas_norm_with_its_rules_for_types(llama, dtype, weight):
    llama.to(weight)
    input = torch.randn(3, 70, device=DEVICE, dtype=dtype)
    with torch.no_grad():
        expected = llama(input)
        report = swap_modules(llama)
        output = llama(input)
    assert isinstance(llama, NTRMSNorm) and len(report.swapped) == 1
    assert output.dtype == expected.dtype
    assert error(output, expected) < max(TOLERANCE[dtype], TOLERANCE[weight])


def test_prints_as_before(llama):
    before = repr(llama)
    swap_modules(llama)
    assert repr(llama) == before.replace("LlamaRMSNorm", "NTRMSNorm")
    plain = nn.RMSNorm(7)
    before = repr(plain)
    swap_modules(plain)
    assert repr(plain) == before.replace("RMSNorm", "NTRMSNorm")
