"""Norms of channels, embedding, dropout and losses as modules, beside PyTorch's of the same arguments and state."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import ninetoothed_ops as ops
from ninetoothed.errors import ArgumentError
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
@pytest.mark.parametrize("cls, dims", BATCH_NORMS)
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


def network():
    """One of each class that is swapped on request, and an image of bytes as its input."""
    torch.manual_seed(0)
    layers = nn.Embedding(9, 4, padding_idx=0), Last(), nn.BatchNorm2d(4), nn.Dropout(0.0), nn.GroupNorm(2, 4)
    return nn.Sequential(*layers, nn.Flatten(2), nn.BatchNorm1d(4, momentum=None)).to(DEVICE)


class Last(nn.Module):
    def forward(self, x):
        return x.movedim(-1, 1)


def steps(model, count=3):
    """Train by clipped gradients, and give the losses and the state."""
    # A norm behind a norm leaves the bias between them without a gradient, which others would scale up.
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=1e-1), []
    for seed in range(count):
        ids = torch.randint(9, (3, 5, 6), generator=torch.Generator().manual_seed(seed)).to(DEVICE)
        losses.append((model(ids) ** 4).mean())
        losses[-1].backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return torch.stack(losses).detach(), model.state_dict()


ON_REQUEST = [nn.Embedding, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.GroupNorm, nn.Dropout]


def test_modules_on_request_train_as_those_that_they_replace():
    model, twin = network(), network()
    classes = [type(each) for each in twin]
    assert not ops.swap_modules(twin).swapped and [type(each) for each in twin] == classes
    report = ops.swap_modules(twin, also=ON_REQUEST)
    assert [row.new.__name__ for row in report.swapped] == [f"NT{cls.__name__}" for cls in classes if cls in ON_REQUEST]
    (expected, state), (found, ours) = steps(model), steps(twin)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ours, state, rtol=1e-3, atol=1e-4)
    assert not torch.equal(found[:1], found[1:2])
    report.undo()
    assert [type(each) for each in twin] == classes
    twin.load_state_dict(state)
    ops.swap_modules(model, also=ON_REQUEST)
    model.load_state_dict(twin.state_dict())
    x = torch.arange(9, device=DEVICE).view(1, 3, 3)
    torch.testing.assert_close(model.eval()(x), twin.eval()(x), rtol=1e-4, atol=1e-5)


def test_what_is_left_on_request():
    class Own(nn.BatchNorm2d):
        """A subclass."""

    patched, spectral = nn.Dropout(0.5), nn.utils.parametrizations.weight_norm(nn.Embedding(3, 3))
    patched.forward = lambda input: input
    left = Own(3), patched, spectral, nn.Embedding(3, 3, sparse=True), nn.GroupNorm(1, 3)
    model = nn.Sequential(*left, nn.BatchNorm1d(3), nn.Dropout(0.5), nn.KLDivLoss())
    report = ops.swap_modules(model, also=[nn.BatchNorm2d, nn.Dropout, nn.Embedding])
    assert {row.name: row.reason for row in report} == {
        "0": "a subclass of torch.nn.BatchNorm2d, which may compute something else",
        "1": "its forward was patched on this instance",
        "2": "parametrised: weight",
        "3": "its gradients are sparse; the operator has none",
        "4": "swapped where `also` names it",
        "5": "swapped where `also` names it",
        "6": "",
        "7": "",
    }
    assert [type(each) for each in model[6:]] == [ops.NTDropout, ops.NTKLDivLoss]
    with pytest.raises(ArgumentError, match=r"also has Linear, .* name some of nn.BatchNorm1d, .*nn.Dropout\."):
        ops.swap_modules(model, also=[nn.Linear])
    assert len(ops.swap_modules(model, also=nn.GroupNorm).swapped) == 1


@pytest.mark.parametrize("cls", (nn.BatchNorm2d, nn.GroupNorm, nn.Embedding, nn.Dropout, nn.KLDivLoss))
def test_a_patch_of_pytorchs_class_after_the_swap_is_called(cls, monkeypatch):
    args = {nn.GroupNorm: (1, 4), nn.BatchNorm2d: (4,), nn.Embedding: (3, 3)}.get(cls, ())
    module = cls(*args)
    ops.swap_modules(module, also=ON_REQUEST)
    assert type(module) is getattr(ops, f"NT{cls.__name__}")
    monkeypatch.setattr(cls, "forward", lambda *_: "patched")
    assert module(*[images(2)] * (2 if cls is nn.KLDivLoss else 1)) == "patched"


@pytest.mark.parametrize("reentrant", (True, False))
def test_dropout_is_drawn_again_under_a_checkpoint(reentrant):
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 8), nn.Dropout(0.25)).to(DEVICE)
    ops.swap_modules(model, also=[nn.Dropout])
    x = torch.randn(4, 8, device=DEVICE, requires_grad=True)

    def gradient(call):
        torch.manual_seed(3)
        x.grad = None
        call(x).square().sum().backward()
        return x.grad, torch.rand(1, device=DEVICE)

    (expected, after), (found, then) = map(gradient, (model, lambda x: checkpoint(model, x, use_reentrant=reentrant)))
    assert torch.equal(found, expected) and torch.equal(after, then) and expected.count_nonzero()
    with torch.random.fork_rng():
        torch.manual_seed(3)
        assert not torch.equal(model(x), model(x))
    torch.manual_seed(4)
    drawn = model(x)
    torch.manual_seed(4)
    with torch.random.fork_rng():
        model(x)
    assert torch.equal(model(x), drawn)
