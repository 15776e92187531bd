"""Swapped models on two processes, run by `test_processes.py`: as one process computes, whoever comes first."""

import contextlib
import copy
import inspect

import torch
from torch import nn

from ninetoothed_ops import swap_modules
from tests.conftest import error
from tests.ninetoothed_ops.recorder import Recorder

TOKENS = torch.arange(1, 13).view(2, 6)


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"vocab_size": 48, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "head_dim": 8}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    tokens = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": 0}
    return LlamaForCausalLM(LlamaConfig(**sizes, **heads, **tokens, max_position_embeddings=32, use_cache=False))


def in_parallel(model, mesh):
    """Shard as `parallelize_module` does, the head too."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    plan = {"lm_head": ColwiseParallel(output_layouts=Replicate())}
    for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj"):
        plan[f"model.layers.*.{name}"] = ColwiseParallel()
    for name in ("self_attn.o_proj", "mlp.down_proj"):
        plan[f"model.layers.*.{name}"] = RowwiseParallel()
    return parallelize_module(model, mesh, plan)


def by_plan(model, mesh):
    """Shard as transformers does by the model's own `tp_plan`."""
    from transformers.distributed.tensor_parallel import apply_tensor_parallelism

    if len(inspect.signature(apply_tensor_parallelism).parameters) == 2:  # transformers 5.17's reads the plan itself.
        return apply_tensor_parallelism(model, mesh)
    plan, modules = {}, dict(model.named_modules())
    for key, style in model.tp_plan.items():
        for layer in range(model.config.num_hidden_layers):
            name = key.replace("*", str(layer))
            plan |= {f"{name}.{parameter}": style for parameter, _ in modules[name].named_parameters()} | {name: style}
    return apply_tensor_parallelism(model, mesh, plan)


def fully_sharded(model, mesh):
    from torch.distributed.fsdp import fully_shard

    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def outcome(model, compiled=False):
    """Give a loss and the gradients of all parameters, whole, and the operators that ran."""
    function, recorder = torch.compile(model, backend="aot_eager") if compiled else model, Recorder()
    with contextlib.nullcontext() if compiled else recorder:
        loss = function(input_ids=TOKENS, labels=TOKENS).loss
        loss.backward()
    grads = {name: getattr(each.grad, "full_tensor", lambda each=each: each.grad)()
             for name, each in model.named_parameters()}  # fmt: skip
    return loss, grads, {name for name in recorder.counts if name.startswith("ninetoothed::")}


def swapped(model, join):
    assert swap_modules(model, join=join).swapped
    return model


# How a model is sharded, whether it is joined, and whether it is swapped first.
WAYS = [
    (in_parallel, False, True),
    (in_parallel, True, True),
    (in_parallel, True, False),
    (by_plan, True, True),
    (by_plan, False, False),
    (fully_sharded, True, True),
    (fully_sharded, False, False),
]


def check_models(mesh):
    model = llama()
    expected, gradients, _ = outcome(copy.deepcopy(model))
    for spread, join, is_first in WAYS:
        label, own = f"{spread.__name__}, {join=}, {is_first=}", copy.deepcopy(model)
        own = spread(swapped(own, join), mesh) if is_first else swapped(spread(own, mesh), join)
        loss, found, operators = outcome(own)
        assert error(loss, expected) < 1e-5, f"{label}: {loss} and {expected}"
        for name, each in gradients.items():
            assert error(found[name], each) < 1e-4, f"{label}: {name}"
        assert {"ninetoothed::sdpa_with_lse", "ninetoothed::rms_norm"} <= operators, label
        # A swap behind transformers' hooks leaves the forwards that these hold.
        if is_first or spread is not by_plan:
            assert operators & {"ninetoothed::linear", "ninetoothed::joint_linear"}, label


def check_compiled(mesh):
    model = llama()
    expected, gradients, _ = outcome(copy.deepcopy(model))
    loss, found, _ = outcome(in_parallel(swapped(copy.deepcopy(model), True), mesh), compiled=True)
    assert error(loss, expected) < 1e-5
    for name, each in gradients.items():
        assert error(found[name], each) < 1e-4, name


def check_context_parallel(mesh):
    """A process has some of the tokens, and attention sees the keys of all: swapped before or within, joined too.

    Of CPU tensors, PyTorch shares out what attention is made of (`MATH`), where nothing is masked.
    """
    import torch.distributed as distributed
    from torch.distributed.tensor.experimental import context_parallel
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def unmasked(module, args, kwargs):
        return args, {**kwargs, "attention_mask": None}

    model, tokens, places = llama(), torch.arange(1, 17).view(2, 8), torch.arange(8)[None]
    attention = model.model.layers[0].self_attn
    attention.is_causal = False
    attention.register_forward_pre_hook(unmasked, with_kwargs=True)

    def outcome(own, *given):
        loss = own(input_ids=given[0], position_ids=given[1]).logits.square().sum()
        loss.backward()
        return [loss.detach(), *(each.grad for each in own.parameters())]

    expected = outcome(copy.deepcopy(model), tokens, places)
    for is_first, join in ((True, False), (True, True), (False, False)):
        own, given = copy.deepcopy(model), [tokens.clone(), places.clone()]
        if is_first:
            swapped(own, join)
        with sdpa_kernel(SDPBackend.MATH), context_parallel(mesh, buffers=given, buffer_seq_dims=[1, 1]):
            assert given[0].shape == (2, 4)
            if not is_first:
                swapped(own, join)
            with Recorder() as recorder:
                found = outcome(own, *given)
        assert "ninetoothed::rms_norm" in recorder.counts
        for each, wanted in zip(found, expected, strict=True):
            distributed.all_reduce(each)
            assert error(each, wanted) < 1e-5, f"{is_first=}, {join=}"


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.first, self.last, self.second = (
            nn.RMSNorm(8),
            nn.Linear(8, 12),
            nn.Linear(12, 8),
            nn.LayerNorm(8),
        )

    def forward(self, x):
        return self.second(self.last(nn.functional.silu(self.first(self.norm(x)))))


def check_sequence_parallel(mesh):
    from torch.distributed.tensor import Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module

    torch.manual_seed(0)
    model, x = Block().double(), torch.randn(2, 6, 8, dtype=torch.float64)
    (expected := copy.deepcopy(model)(x)).square().sum().backward()
    for is_first in (True, False):
        own = copy.deepcopy(model)
        if is_first:
            swap_modules(own)
        plan = {"norm": SequenceParallel(), "first": ColwiseParallel(input_layouts=Shard(1)),
                "last": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
                "second": SequenceParallel()}  # fmt: skip
        parallelize_module(own, mesh, plan)
        if not is_first:
            swap_modules(own)
        part = x.tensor_split(2, 1)[mesh.get_local_rank()]
        with Recorder() as recorder:
            found = own(part)
        assert error(found.full_tensor(), expected) < 1e-9
        assert {"ninetoothed::rms_norm", "ninetoothed::layer_norm", "ninetoothed::linear"} <= recorder.counts.keys()
