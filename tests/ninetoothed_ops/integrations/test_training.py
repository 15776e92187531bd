"""Swapped models learn as the unswapped do: losses of some steps, by gradients of NineToothed's operators."""

import copy

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from ninetoothed_ops import swap_modules
from tests.conftest import DEVICE
from tests.ninetoothed_ops.recorder import Recorder

OURS = {"linear", "mm", "rms_norm_backward", "rope_backward", "sdpa_backward"}
# By these PyTorch would compute a gradient in our place.
THEIRS = {"aten::mm", "aten::addmm", "aten::rsqrt", "aten::rsqrt_", "aten::silu_backward", "aten::sigmoid"}


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
    with Recorder() as recorder:
        found = losses(model, *batch(3, 9))

    assert found == pytest.approx(expected, rel=1e-4) and expected[-1] < expected[0]
    ran = {name.removeprefix("ninetoothed::") for name in recorder.names if name.startswith("ninetoothed::")}
    assert ran >= {*OURS, more} and not THEIRS & set(recorder.names)


def test_a_checkpointed_model(make, batch):
    model = make("Llama").train()
    swap_modules(model)
    plain = losses(copy.deepcopy(model), *batch(2, 6), steps=2)
    model.gradient_checkpointing_enable()
    assert losses(model, *batch(2, 6), steps=2) == pytest.approx(plain, rel=1e-5)


def test_compiled_whole(make, batch):
    """A joined model without biases, which without gradients would run on operators that have none."""
    model = make("Llama", num_hidden_layers=1, attention_bias=False, mlp_bias=False).train()
    expected = losses(copy.deepcopy(model), *batch(2, 6))
    swap_modules(model, join=True)
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(model, fullgraph=True, backend=counter)
    assert losses(compiled, *batch(2, 6)) == pytest.approx(expected, rel=1e-4)
    names = {str(node.target).removesuffix(".default") for graph in counter.graphs for node in graph.graph.nodes}
    assert names >= {"ninetoothed.swiglu", "ninetoothed.add_rms_norm"}


def test_a_gated_mlp_keeps_its_input_and_gate_and_up(make):
    mlp = make("Llama", mlp_bias=False).model.layers[0].mlp.train()
    states = torch.randn(2, 5, 64, device=DEVICE, requires_grad=True)
    expected = torch.autograd.grad(mlp(states).square().sum(), (states, *mlp.parameters()))
    swap_modules(mlp, join=True)
    weights, kept = {each.data_ptr() for each in mlp.parameters()}, {}
    with torch.autograd.graph.saved_tensors_hooks(
        lambda each: kept.update({each.data_ptr(): each}) or each, lambda each: each
    ):
        found = mlp(states)
    assert sorted(each.shape[-1] for place, each in kept.items() if place not in weights) == [
        64,
        *2 * [mlp.gate_proj.out_features],
    ]
    gradients = torch.autograd.grad(found.square().sum(), (states, *mlp.parameters()))
    for one, other in zip(gradients, expected, strict=True):
        assert (one - other).norm() <= 1e-5 * other.norm()
