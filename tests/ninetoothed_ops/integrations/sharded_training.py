"""Train small Llamas over two processes on CPUs, sharded or whole, as they are and swapped: run by `test_fsdp.py`."""

import os
import sys
from functools import partial

import torch
from torch import distributed

from ninetoothed_ops import swap_modules
from tests.ninetoothed_ops.recorder import Recorder

STEPS = 2
# How transformers' Trainer shards: options of `TrainingArguments`, and of its `fsdp_config`.
TRAINED = {
    "Trainer": ({}, {}),
    "Trainer, checkpointed and mixed": ({"bf16": True}, {"activation_checkpointing": True}),
}
# How FSDP of PyTorch's first kind keeps the weights, wrapped as Trainer does where it still takes it.
WRAPPED = {"flat": False, "flat, with views": True}


def train(rank: int, port: int, results: str) -> None:
    """Train in one of the processes; the first of them writes what each way gave, `{(way, is_swapped): ...}`."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    shard_on_cpus()
    found = {}
    for is_swapped in (False, True):
        for way, options in TRAINED.items():
            found[way, is_swapped] = of_trainer(model_of(is_swapped), *options)
        for way, has_views in WRAPPED.items():
            found[way, is_swapped] = of_loop(model_of(is_swapped), has_views, rank)
        found["whole", is_swapped] = of_whole_models(model_of(is_swapped, loss=True))
    if rank == 0:
        torch.save(found, results)
    distributed.destroy_process_group()


def shard_on_cpus() -> None:
    """Let accelerate shard over CPUs as over GPUs: left alone, it takes `DistributedDataParallel` without a word."""
    from accelerate import DistributedType
    from accelerate.state import AcceleratorState

    begin = AcceleratorState.__init__

    def begin_sharded(self, *args, fsdp_plugin=None, **kwargs):
        begin(self, *args, fsdp_plugin=fsdp_plugin, **kwargs)
        if fsdp_plugin is not None:
            self.distributed_type, self.fsdp_plugin = DistributedType.FSDP, fsdp_plugin
            if self.mixed_precision != "no":
                fsdp_plugin.set_mixed_precision(self.mixed_precision)

    AcceleratorState.__init__ = begin_sharded


def model_of(is_swapped, loss=False):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"vocab_size": 97, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "head_dim": 16}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    tokens = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": 0}
    model = LlamaForCausalLM(LlamaConfig(**sizes, **heads, **tokens, max_position_embeddings=64, use_cache=False))
    if is_swapped:
        assert swap_modules(model, join=True, loss=loss).swapped
    return model


def tokens_of(seed, rows):
    return torch.randint(1, 97, (rows, 8), generator=torch.Generator().manual_seed(seed))


def of_trainer(model, options, config):
    return outcome(*trained(model, {"fsdp": True, "fsdp_config": {"version": 2, **config}, **options}))


def of_whole_models(model):
    """Give the losses of `DistributedDataParallel` by transformers' Trainer, and the operators of ours that ran."""
    os.environ.pop("ACCELERATE_USE_FSDP", None)  # left by a Trainer that shards
    wrapped, losses, recorder = trained(model, {"gradient_accumulation_steps": 2})
    assert isinstance(wrapped, torch.nn.parallel.DistributedDataParallel)
    return losses, {name for name in recorder.counts if name.startswith("ninetoothed::")}


def trained(model, options):
    """Train by transformers' Trainer: the model as it wraps it, the losses, and what was recorded."""
    from accelerate.state import AcceleratorState
    from transformers import Trainer, TrainingArguments

    AcceleratorState._reset_state()  # of the Trainer before
    args = TrainingArguments(
        use_cpu=True, max_steps=STEPS, optim="sgd", learning_rate=0.1, per_device_train_batch_size=2, logging_steps=1,
        report_to=[], save_strategy="no", disable_tqdm=True, **options,
    )  # fmt: skip
    data = [{"input_ids": row, "labels": row} for row in tokens_of(1, 8 * STEPS)]
    trainer = Trainer(model=model, args=args, train_dataset=data)
    with Recorder() as recorder:
        trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return trainer.model_wrapped, losses, recorder


def of_loop(model, has_views, rank):
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer

    policy = partial(transformer_auto_wrap_policy, transformer_layer_cls={LlamaDecoderLayer})
    wrapped = FullyShardedDataParallel(
        model, auto_wrap_policy=policy, use_orig_params=has_views, device_id=torch.device("cpu")
    )
    optimizer, losses = torch.optim.SGD(wrapped.parameters(), lr=0.1), []
    with Recorder() as recorder:
        for step in range(STEPS):
            tokens = tokens_of(10 * rank + step, 2)
            loss = wrapped(input_ids=tokens, labels=tokens).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return outcome(wrapped, losses, recorder)


def outcome(model, losses, recorder):
    """Give the losses, all weights whole, the operators of ours that ran, and how many modules are shards."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
    from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel

    weights = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    sharded = sum(isinstance(module, FSDPModule | FullyShardedDataParallel) for module in model.modules())
    ours = {name for name in recorder.counts if name.startswith("ninetoothed::")}
    return losses, {name: weight.clone() for name, weight in weights.items()}, ours, sharded


if __name__ == "__main__":
    from transformers import Trainer  # noqa: F401 - imported once, for both processes

    port, results = sys.argv[1:]
    torch.multiprocessing.start_processes(train, (int(port), results), nprocs=2, start_method="fork")
