"""Loops in which users of PyTorch train, over swapped models whose loss needs no logits: losses of unswapped ones."""

import copy
import functools

import pytest
import torch
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from ninetoothed_ops import swap_modules
from tests.ninetoothed_ops.integrations.calls import DEVICE

pytest.importorskip("transformers")
STEPS, BATCHES = 3, 2


def trained(model, tokens, call=None, scaled=False):
    """Train by clipped gradients that several batches add up, perhaps scaled; give losses and norms of gradients."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler(DEVICE, enabled=scaled, init_scale=2.0**14)
    found = []
    for _ in range(STEPS):
        total = 0.0
        for batch in tokens.chunk(BATCHES):
            loss = (call or model)(input_ids=batch, labels=batch, use_cache=False).loss / BATCHES
            scaler.scale(loss).backward()
            total += loss.item()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        found += [total, norm.item()]
    return found


def selective():
    """Keep products, and compute all else again."""

    def policy(_, operator, *args, **kwargs):
        is_product = operator.name() in ("aten::mm", "aten::addmm", "ninetoothed::mm", "ninetoothed::linear")
        return CheckpointPolicy.MUST_SAVE if is_product else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def checkpointed(model, **options):
    """Call the whole model, its loss too, under a checkpoint."""

    def call(**given):
        return checkpoint(functools.partial(model, **given), **options)

    return call


def reentrant(model):
    """Checkpoint the layers in the first of PyTorch's two ways."""
    model.gradient_checkpointing_enable({"use_reentrant": True})
    model.enable_input_require_grads()
    return model


WAYS = {
    "clipped and accumulated": (lambda model: model, False),
    "scaled": (lambda model: model, True),
    "layers checkpointed, reentrant": (reentrant, False),
    "all checkpointed": (lambda model: checkpointed(model, use_reentrant=False), False),
    "all checkpointed, selectively": (
        lambda model: checkpointed(model, use_reentrant=False, context_fn=selective),
        False,
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_losses_are_those_of_pytorch(way, make):
    wrap, is_scaled = WAYS[way]
    model = make("Llama", num_hidden_layers=1).train()
    tokens = torch.randint(1, 97, (4, 7), generator=torch.Generator().manual_seed(0)).to(DEVICE)
    twin = copy.deepcopy(model)
    expected = trained(model, tokens, wrap(model), is_scaled)
    assert swap_modules(twin, join=True, loss=True).swapped
    assert trained(twin, tokens, wrap(twin), is_scaled) == pytest.approx(expected, rel=1e-3)
    assert expected[-2] < expected[0]
