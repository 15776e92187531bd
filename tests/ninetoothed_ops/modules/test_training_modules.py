"""Norms of channels, embedding, dropout and losses as modules, beside PyTorch's of the same arguments and state."""

import pytest
import torch
from torch import nn

import ninetoothed_ops as ops
from tests.conftest import DEVICE

BATCH_NORMS = ((nn.BatchNorm1d, 0), (nn.BatchNorm1d, 1), (nn.BatchNorm2d, 2), (nn.BatchNorm3d, 3))


def images(dims):
    return torch.randn((3, 4, 6, 2, 3)[: 2 + dims], device=DEVICE)


def both(cls, *args, **options):
    """PyTorch's module and ours of the same state."""
    theirs = cls(*args, **options, device=DEVICE)
    own = getattr(ops, f"NT{cls.__name__}")(*args, **options, device=DEVICE)
    with torch.no_grad():
        for each in theirs.parameters():
            each.copy_(torch.randn_like(each))
    own.load_state_dict(theirs.state_dict())
    assert isinstance(own, cls)
    return own, theirs


@pytest.mark.parametrize("options", ({}, {"momentum": None}, {"affine": False}, {"track_running_stats": False}))
@pytest.mark.parametrize(
    "cls, dims", ((nn.BatchNorm1d, 0), (nn.BatchNorm1d, 1), (nn.BatchNorm2d, 2), (nn.BatchNorm3d, 3))
)
def test_batch_norm(cls, dims, options):
    own, theirs = both(cls, 4, **options)
    for is_training in (True, True, False):
        own.train(is_training), theirs.train(is_training)
        x = 2 + images(dims)
        torch.testing.assert_close(own(x), theirs(x), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(own.state_dict(), theirs.state_dict(), rtol=1e-5, atol=1e-5)


def test_batch_norm_takes_the_dimensions_of_its_namesake():
    with pytest.raises(ValueError, match="expected 4D input"):
        ops.NTBatchNorm2d(4, device=DEVICE)(images(1))


@pytest.mark.parametrize("affine", (False, True))
def test_group_norm(affine):
    own, theirs = both(nn.GroupNorm, 2, 4, affine=affine)
    x = images(2)
    torch.testing.assert_close(own(x), theirs(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("options", ({}, {"padding_idx": 2}, {"max_norm": 1.0}, {"scale_grad_by_freq": True}))
def test_embedding(options):
    own, theirs = both(nn.Embedding, 7, 5, **options)
    ids = torch.tensor([[1, 2, 2], [6, 0, 1]], device=DEVICE)
    grad = torch.randn(2, 3, 5, device=DEVICE)
    found, expected = own(ids), theirs(ids)
    assert torch.equal(found, expected)
    found.backward(grad), expected.backward(grad)
    torch.testing.assert_close(own.weight.grad, theirs.weight.grad)


def test_dropout():
    x, module = torch.ones(200, device=DEVICE), ops.NTDropout(0.5)
    assert set(module(x).tolist()) == {0.0, 2.0} and module.eval()(x) is x
    assert ops.NTDropout(0.5, inplace=True)(x) is x and repr(module) == "NTDropout(p=0.5, inplace=False)"


def test_losses():
    x, target = (torch.randn(3, 5, device=DEVICE).log_softmax(-1) for _ in range(2))
    options = {"reduction": "batchmean", "log_target": True}
    torch.testing.assert_close(ops.NTKLDivLoss(**options)(x, target), nn.KLDivLoss(**options)(x, target))
    module, labels = ops.NTJSDLoss(0.3, reduction="sum"), torch.tensor([0, -100, 2], device=DEVICE)
    torch.testing.assert_close(module(x, target, labels), module(x[::2], target[::2]))
    assert repr(module) == "NTJSDLoss(beta=0.3, ignore_index=-100, reduction='sum')"
