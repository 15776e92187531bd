"""NTLayerNorm: what it gives, and what it leaves to PyTorch; those of families are in integrations/test_norms.py."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import TorchFunctionMode

from ninetoothed_ops.modules import NTLayerNorm, swap_modules
from tests.conftest import DEVICE, error

TOLERANCE = {torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 2e-2}


def made(*args, **kwargs):
    norm = nn.LayerNorm(*args, **kwargs, device=DEVICE)
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    return norm


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("options", ({}, {"bias": False}, {"elementwise_affine": False}), ids=str)
def test_agrees_with_float64(options, dtype):
    norm = made((7, 10), eps=0.1, **options).to(dtype)
    input = torch.randn(3, 7, 10, device=DEVICE, dtype=dtype)
    expected = copy.deepcopy(norm).double()(input.double())
    before = repr(norm)
    report = swap_modules(norm)
    assert type(norm) is NTLayerNorm and repr(norm) == before.replace("LayerNorm", "NTLayerNorm")
    assert norm(input).dtype == dtype and error(norm(input), expected) < TOLERANCE[dtype]
    report.undo()
    assert type(norm) is nn.LayerNorm


def test_gradients_and_autocast_are_those_of_pytorch():
    norm = made(70)
    input = torch.randn(3, 70, device=DEVICE, requires_grad=True)
    leaves = [input, *norm.parameters()]
    found = []
    for swap in (False, True):
        if swap:
            swap_modules(norm)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            output = norm(input * 1) + norm(input.bfloat16())
        found.append([output, *torch.autograd.grad(output.sin().sum(), leaves)])
    for actual, expected in zip(*reversed(found)):
        assert actual.dtype == expected.dtype and error(actual, expected) < 1e-2


def test_a_mode_sees_pytorchs_function():
    class Noting(TorchFunctionMode):
        names: list[str] = []

        def __torch_function__(self, function, types, args=(), kwargs=None):
            self.names.append(function.__name__)
            return function(*args, **(kwargs or {}))

    norm, input = made(70), torch.randn(3, 70, device=DEVICE)
    swap_modules(norm)
    with Noting():
        output = norm(input)
    assert "layer_norm" in Noting.names and error(output, F.layer_norm(input, (70,), norm.weight, norm.bias)) < 1e-6


def test_a_subclass_is_left_alone():
    class Louder(nn.LayerNorm):
        def forward(self, input):
            return 2 * super().forward(input)

    (row,) = swap_modules(Louder(3)).skipped
    assert row.reason == "a subclass of torch.nn.LayerNorm, which may compute something else"
