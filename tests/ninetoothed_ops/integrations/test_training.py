"""Swapped models learn as the unswapped do: losses of some steps, by gradients of NineToothed's operators."""

import copy

import pytest
import torch
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch import config as functorch
from torch._functorch.aot_autograd import make_boxed_func
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor import config as inductor, metrics

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
    """In compiled steps of training products and activations are PyTorch's, forward and backward, and the rest is ours.

    Nothing is left between the graphs, and in `eval()` the products are ours, whether gradients are recorded or not.
    """
    model = make("Llama", num_hidden_layers=1, attention_bias=False, mlp_bias=False).train()
    expected = losses(copy.deepcopy(model), *batch(2, 6))
    swap_modules(model, join=True)
    torch._dynamo.reset()
    names, graphs = [], []

    def noted(graph, _):
        graphs.append(list(graph.graph.nodes))
        names.append({str(node.target).removesuffix(".default") for node in graph.graph.nodes})
        return make_boxed_func(graph)

    compiled = torch.compile(model, fullgraph=True, backend=aot_autograd(fw_compiler=noted, bw_compiler=noted))
    assert losses(compiled, *batch(2, 6)) == pytest.approx(expected, rel=1e-4)
    forward, backward = names
    assert forward >= {"ninetoothed.add_rms_norm", "ninetoothed.sdpa_with_lse", "aten.mm", "aten.silu"}
    assert backward >= {"ninetoothed.rms_norm_backward", "ninetoothed.sdpa_backward", "aten.mm"}
    theirs = {f"ninetoothed.{name}" for name in ("linear", "joint_linear", "gated_linear", "mm", "silu", "swiglu")}
    assert not theirs & (forward | backward)
    # The gradients of residual sums are added by the kernels of the norms; the last norm has no residual beside it.
    norms = [node.args for node in graphs[1] if str(node.target) == "ninetoothed.rms_norm_backward.default"]
    assert [len(args) > 6 and args[6] is not None for args in norms] == [False, True, True]
    compiled.eval()(*batch(2, 6))
    assert names[2] >= {"ninetoothed.linear", "ninetoothed.gated_linear"} and "aten.mm" not in names[2]


def test_inductor_fuses_around_the_products_of_a_compiled_step():
    """Bias, activation, residual and cast: as many kernels as of PyTorch's modules, and float64's numbers."""
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(24, 40), nn.SiLU(), nn.Linear(40, 24), nn.GELU(), nn.Linear(24, 24)).to(DEVICE)
    swapped, exact = copy.deepcopy(plain), copy.deepcopy(plain).double()
    assert len(swap_modules(swapped).swapped) == 4
    x = torch.randn(6, 24, device=DEVICE)
    counts, results = [], []
    for model, given in ((plain, x), (swapped, x), (exact, x.double())):

        def step(x, model=model):
            return ((x + model(x)).to(torch.float64) * 2).to(x.dtype).square().sum()

        torch._dynamo.reset()
        metrics.reset()
        run = step if model is exact else torch.compile(step, fullgraph=True, dynamic=False)
        with inductor.patch(fx_graph_cache=False), functorch.patch(enable_autograd_cache=False):
            loss = run(given)
            results.append((loss.detach(), *torch.autograd.grad(loss, tuple(model.parameters()))))
        counts.append(metrics.generated_kernel_count)
    assert counts[0] == counts[1] > 0
    for found, expected in zip(results[1], results[2], strict=True):
        assert (found - expected).norm() <= 1e-5 * expected.norm()


@pytest.mark.parametrize("is_compiled", (False, True))
def test_a_gated_mlp_keeps_its_input_and_gate_and_up(make, is_compiled):
    mlp = make("Llama", mlp_bias=False).model.layers[0].mlp.train()
    states = torch.randn(2, 5, 64, device=DEVICE, requires_grad=True)
    expected = torch.autograd.grad(mlp(states).square().sum(), (states, *mlp.parameters()))
    swap_modules(mlp, join=True)
    if is_compiled:
        torch._dynamo.reset()
        backend = aot_autograd(
            fw_compiler=lambda graph, _: make_boxed_func(graph), partition_fn=min_cut_rematerialization_partition
        )
        mlp.compile(fullgraph=True, backend=backend)
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
