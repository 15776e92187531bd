"""Optimisers over swapped and joined models, in a loop and in hooks on gradients: the losses of unswapped ones."""

import copy

import pytest
import torch

from ninetoothed_ops.modules import swap_modules
from tests.ninetoothed_ops.integrations.calls import DEVICE

pytest.importorskip("transformers")
OPTIMISERS = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=1e-3, momentum=0.9),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
    "fused": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3, fused=True),
    "foreach": lambda parameters: torch.optim.Adam(parameters, lr=1e-3, foreach=True),
}


def in_a_loop(model, make):
    optimiser = make(model.parameters())

    def step():
        optimiser.step()
        optimiser.zero_grad()

    return step


def in_hooks(model, make):
    """Step each weight as soon as its gradient is there, and let go of that; layers before it have theirs to come."""

    def stepping(parameter):
        optimiser = make([parameter])

        def hook(parameter):
            optimiser.step()
            optimiser.zero_grad()

        return hook

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(stepping(parameter))
    return lambda: None


def losses(model, tokens, optimiser, where):
    step, found = where(model, optimiser), []
    for _ in range(4):
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("optimiser", OPTIMISERS.values(), ids=OPTIMISERS)
@pytest.mark.parametrize("where", (in_a_loop, in_hooks))
@pytest.mark.parametrize("training", (True, False))
def test_losses_are_those_of_pytorch(make, where, optimiser, training):
    model = make("Qwen2", num_hidden_layers=1, tie_word_embeddings=True).train(training)
    tokens = torch.randint(1, 97, (2, 6), generator=torch.Generator().manual_seed(0)).to(DEVICE)
    twins = [copy.deepcopy(model) for _ in range(2)]
    expected = losses(model, tokens, optimiser, where)
    assert expected[0] > expected[-1]
    for join, twin in zip((False, True), twins):
        swap_modules(twin, join=join)
        assert losses(twin, tokens, optimiser, where) == pytest.approx(expected, rel=1e-4)
