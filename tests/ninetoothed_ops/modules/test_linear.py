import pytest
import torch
import torch.nn.functional as F
from torch import nn

from ninetoothed_ops.modules import NTLinear, swap_modules
from tests.conftest import DEVICE, error
from tests.ninetoothed_ops.recorder import Recorder

TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("bias", (False, True))
@pytest.mark.parametrize("shape", ((5, 4, 33), (1, 33), (33,), (2, 3, 5, 33)))
def test_agrees_with_float64(shape, bias, dtype):
    layer = NTLinear(33, 17, bias=bias, device=DEVICE, dtype=dtype)
    if bias:
        # A bias as large as the product: losing it could not hide in the tolerance.
        nn.init.normal_(layer.bias)
    input = torch.randn(shape, device=DEVICE, dtype=dtype)
    with torch.no_grad():
        output = layer(input)
    expected = F.linear(input.double(), layer.weight.double(), layer.bias.double() if bias else None)
    assert output.shape == expected.shape and output.dtype == dtype and output.device == input.device
    assert error(output, expected) < TOLERANCE[dtype]


@pytest.mark.parametrize("bias", (False, True))
@pytest.mark.parametrize("shape", ((0, 33), (2, 0, 33)))
def test_no_rows(shape, bias):
    layer = NTLinear(33, 17, bias=bias, device=DEVICE)
    with torch.no_grad():
        assert layer(torch.randn(shape, device=DEVICE)).shape == (*shape[:-1], 17)


def test_strided_input():
    layer = NTLinear(33, 17, device=DEVICE)
    input = torch.randn(4, 33, 6, device=DEVICE).transpose(1, 2)
    with torch.no_grad():
        assert error(layer(input), F.linear(input.double(), layer.weight.double(), layer.bias.double())) < 1e-5


def test_one_operator_and_no_copy_of_the_weight():
    layer = NTLinear(33, 17, device=DEVICE)
    input = torch.randn(2, 3, 33, device=DEVICE)
    with torch.no_grad(), Recorder() as recorder:
        layer(input)
    assert recorder.names == ["ninetoothed::linear"]


def test_wrong_width_raises_what_linear_raises():
    layer, reference = NTLinear(33, 17, device=DEVICE), nn.Linear(33, 17, device=DEVICE)
    input = torch.randn(4, 32, device=DEVICE)
    with pytest.raises(RuntimeError):
        reference(input)
    with pytest.raises(RuntimeError):
        layer(input)


def test_autocast_as_linear():
    reference = nn.Linear(33, 17, device=DEVICE)
    input = torch.randn(5, 33, device=DEVICE)
    with torch.no_grad(), torch.autocast(DEVICE, dtype=torch.bfloat16):
        expected = reference(input)
        swap_modules(reference)
        output = reference(input)
    assert output.dtype == expected.dtype == torch.bfloat16
    assert error(output, expected) < TOLERANCE[torch.bfloat16]


@pytest.mark.parametrize("bias", (True, False))
def test_traced_and_scripted(bias):
    model = nn.Sequential(nn.Linear(33, 17, bias=bias, device=DEVICE))
    input = torch.randn(5, 33, device=DEVICE)
    expected = model(input)
    swap_modules(model.requires_grad_(False))
    for rewritten in (torch.fx.symbolic_trace(model), torch.jit.script(model)):
        assert error(rewritten(input), expected) < TOLERANCE[torch.float32]
        assert rewritten(input[0]).shape == expected[0].shape


def test_rows_whose_number_depends_on_data():
    class Chosen(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = NTLinear(33, 17, device=DEVICE).requires_grad_(False)

        def forward(self, input, chosen):
            return self.layer(input[chosen])

    model, input = Chosen(), torch.randn(6, 33, device=DEVICE)
    chosen = input[:, 0] > 0
    exported = torch.export.export(model, (input, chosen)).module()
    assert torch.equal(exported(input, ~chosen), model(input, ~chosen))


def test_is_a_linear_that_can_be_made():
    layer = NTLinear(3, 4, bias=False, device=DEVICE)
    assert isinstance(layer, nn.Linear) and layer.weight.shape == (4, 3) and layer.bias is None
    assert repr(layer) == "NTLinear(in_features=3, out_features=4, bias=False)"
