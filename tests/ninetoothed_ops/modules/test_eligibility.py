"""Modules of PyTorch and of others that look like what can be swapped, and are left alone with a reason."""

import functools

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

from ninetoothed_ops.modules import NTLinear, swap_modules


class Double(nn.Module):
    def forward(self, weight):
        return 2 * weight


class LoraLinear(nn.Linear):
    def forward(self, input):
        return super().forward(input) + 1


class Linear4bit(nn.Module):
    def forward(self, input):
        return input


class Quantised(torch.Tensor):
    """Stands for the tensor subclasses that hold quantised or sharded weights."""

    @staticmethod
    def __new__(cls, data):
        return torch.Tensor._make_subclass(cls, data)


def patched():
    layer = nn.Linear(3, 3)
    layer.forward = lambda input: input
    return layer


def parametrised():
    layer = nn.Linear(3, 3)
    parametrize.register_parametrization(layer, "weight", Double())
    return layer


def quantised():
    layer = nn.Linear(3, 3)
    layer.weight = nn.Parameter(Quantised(torch.randn(3, 3)), requires_grad=False)
    return layer


def sparse():
    layer = nn.Linear(3, 3)
    layer.weight = nn.Parameter(layer.weight.detach().to_sparse_csr())
    return layer


@pytest.mark.parametrize(
    ("make", "reason"),
    (
        (patched, "patched"),
        (parametrised, "parametrised: weight"),
        (lambda: parametrizations.weight_norm(nn.Linear(3, 3)), "parametrised: weight"),
        (lambda: prune.l1_unstructured(nn.Linear(3, 3), "weight", 0.5), "weight is recomputed before every call"),
        (lambda: nn.utils.spectral_norm(nn.Linear(3, 3)), "weight is recomputed before every call"),
        (lambda: prune.random_unstructured(nn.Linear(3, 3), "bias", 0.5), "bias is recomputed before every call"),
        (quantised, "its weight is a Quantised"),
        (sparse, "its weight is sparse or of another layout, torch.sparse_csr"),
        (lambda: LoraLinear(3, 3), "a subclass of torch.nn.Linear"),
        (lambda: nn.LazyLinear(3), "a subclass of torch.nn.Linear"),
        (lambda: nn.modules.linear.NonDynamicallyQuantizableLinear(3, 3), "a subclass of torch.nn.Linear"),
        (Linear4bit, "not a torch.nn.Linear"),
        (lambda: nn.Linear(3, 3, dtype=torch.complex64), "torch.complex64"),
        (lambda: nn.Linear(3, 3).requires_grad_(False).to(torch.float8_e4m3fn), "torch.float8_e4m3fn"),
        (lambda: nn.MultiheadAttention(4, 2), "it has no q_proj"),
    ),
)
def test_left_alone_with_a_reason(make, reason):
    model = nn.ModuleDict({"layer": make(), "plain": nn.Linear(3, 3)})
    before = type(model["layer"])
    report = swap_modules(model)
    assert [reason in row.reason for row in report.skipped if row.name == "layer"] == [True]
    assert type(model["layer"]) is before and type(model["plain"]) is NTLinear


@pytest.mark.parametrize("cls", (nn.Linear, nn.SiLU, nn.RMSNorm))
def test_classes_of_pytorch_that_something_has_patched(cls, monkeypatch):
    forward = cls.forward

    @functools.wraps(forward)
    def patched(self, input):
        return forward(self, input) + 1

    monkeypatch.setattr(cls, "forward", patched)
    report = swap_modules(nn.Sequential(nn.Linear(3, 3), nn.SiLU(), nn.RMSNorm(3)))
    assert [(row.old, row.reason) for row in report.skipped] == [(cls, "the forward of its class was patched")]
