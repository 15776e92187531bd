"""Swapped models learn as the unswapped do: losses of some steps, by gradients of NineToothed's operators."""

import copy

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ninetoothed_ops import swap_modules

OURS = {"linear", "mm", "rms_norm_backward", "rope_backward", "sdpa_backward"}
# By these PyTorch would compute a gradient in our place.
THEIRS = {"aten::mm", "aten::addmm", "aten::rsqrt", "aten::rsqrt_", "aten::silu_backward", "aten::sigmoid"}


class Operators(TorchDispatchMode):
    """The names of the operators that run."""

    def __enter__(self):
        self.names = set()
        return super().__enter__()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.add(function.name())
        return function(*args, **(kwargs or {}))


def losses(model, tokens, mask, steps=3):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    found = []
    for _ in range(steps):
        loss = model(input_ids=tokens, attention_mask=mask, labels=tokens.masked_fill(mask == 0, -100)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("name, join, more", (("Llama", True, "swiglu_backward"), ("Qwen3", False, "silu_backward")))
def test_losses(name, join, more, make, batch):
    model = make(name).train()
    expected = losses(copy.deepcopy(model), *batch(3, 9))
    assert swap_modules(model, join=join).swapped
    with Operators() as operators:
        found = losses(model, *batch(3, 9))

    assert found == pytest.approx(expected, rel=1e-4) and expected[-1] < expected[0]
    ran = {name.removeprefix("ninetoothed::") for name in operators.names if name.startswith("ninetoothed::")}
    assert ran >= {*OURS, more} and operators.names.isdisjoint(THEIRS)


def test_a_checkpointed_model(make, batch):
    model = make("Llama").train()
    swap_modules(model)
    plain = losses(copy.deepcopy(model), *batch(2, 6), steps=2)
    model.gradient_checkpointing_enable()
    assert losses(model, *batch(2, 6), steps=2) == pytest.approx(plain, rel=1e-5)
