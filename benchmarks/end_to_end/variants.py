"""The ways to generate tokens that are compared.

Each `prepare(model, inputs, count)` gives `run(at_token)`, which generates `count` tokens of each sequence, greedily,
calls `at_token()` behind each, and returns them all, `(batch, count)` on the CPU.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.end_to_end import twin_modules
from examples.decoding import Decoder
from ninetoothed_ops import swap_modules


@dataclass(frozen=True)
class Variant:
    """A way to generate: its name in tables, what it is, and how modules are swapped, if any, until `undo`."""

    name: str
    description: str
    swap: Callable[[Any], Any] | None
    prepare: Callable[[Any, dict[str, torch.Tensor], int], Callable[[Callable[[], None]], torch.Tensor]]


class _EachToken:
    """Calls a function at each token that `generate` has chosen, and never stops it."""

    def __init__(self, at_token, like):
        self.at_token = at_token
        self.stops = torch.zeros(len(like), dtype=torch.bool, device=like.device)

    def __call__(self, tokens, scores, **_):
        self.at_token()
        return self.stops


def generate(model, inputs, count, **options):
    """`model.generate` of transformers."""

    def run(at_token):
        tokens = model.generate(
            **inputs,
            max_new_tokens=count,
            min_new_tokens=count,
            do_sample=False,
            pad_token_id=0,
            stopping_criteria=[_EachToken(at_token, inputs["input_ids"])],
            **options,
        )
        return tokens[:, inputs["input_ids"].shape[1] :].cpu()

    return run


def generate_static(model, inputs, count):
    """`model.generate` with a static cache, for which transformers compiles a model on a GPU, with CUDA graphs."""
    return generate(model, inputs, count, cache_implementation="static")


def compiled_loop(model, inputs, count):
    """PyTorch's own means: the whole step under `torch.compile` with CUDA graphs, over transformers' static cache."""
    import transformers

    ids, length = inputs["input_ids"], inputs["input_ids"].shape[1]
    cache = transformers.StaticCache(config=model.config, max_cache_len=length + count)

    def step(tokens, positions):
        output = model(input_ids=tokens, position_ids=positions, past_key_values=cache, use_cache=True)
        return output.logits[:, -1:].argmax(-1)

    mode = "reduce-overhead" if ids.device.type == "cuda" else "default"
    compiled = torch.compile(step, mode=mode, dynamic=False)

    @torch.no_grad()
    def run(at_token):
        cache.reset()
        positions = torch.arange(length, device=ids.device)[None]
        tokens = step(ids, positions)
        positions = positions[:, -1:] + 1
        made = [tokens]
        at_token()
        for _ in range(count - 1):
            # What a graph gave is overwritten when it runs again.
            tokens = compiled(tokens, positions).clone()
            made.append(tokens)
            positions += 1
            at_token()
        return torch.cat(made, 1).cpu()

    return run


def graph_loop(model, inputs, count, **options):
    """The loop of `examples/decoding.py`: one CUDA graph a step."""
    batch, length = inputs["input_ids"].shape
    decoder = Decoder(model, batch, length + count, **options)

    def run(at_token):
        made = []
        for tokens in decoder.stream(inputs, count):
            made.append(tokens)
            at_token()
        return torch.stack(made, 1)

    return run


def compiled_graph_loop(model, inputs, count):
    """The same loop around a step that Inductor compiled, once for the whole cache."""
    window = inputs["input_ids"].shape[1] + count
    return graph_loop(model, inputs, count, window=window, forward=torch.compile(model, dynamic=False))


JOINED = functools.partial(swap_modules, join=True)
REPLAYED = functools.partial(swap_modules, join=True, replay=True)

VARIANTS = {
    variant.name: variant
    for variant in (
        Variant("eager", "PyTorch, generate", None, generate),
        Variant("generate", "PyTorch, generate with its compiled static cache", None, generate_static),
        Variant("compiled loop", "PyTorch, the step compiled with CUDA graphs", None, compiled_loop),
        Variant("graph loop", "PyTorch, not compiled, in the loop of ours", None, graph_loop),
        Variant("compiled graph loop", "PyTorch, compiled, in the loop of ours", None, compiled_graph_loop),
        Variant(
            "Triton twins",
            "modules on kernels written in Triton, in the loop of ours",
            twin_modules.swap_modules,
            graph_loop,
        ),
        Variant("ours, eager", "our modules, generate", JOINED, generate),
        Variant("ours, generate", "our modules, generate that replays its steps", REPLAYED, generate_static),
        Variant("ours, compiled", "our modules, generate with its compiled static cache", JOINED, generate_static),
        Variant("ours, separate", "our modules, each product of its own, in the same loop", swap_modules, graph_loop),
        Variant("ours", "our modules in the loop of examples/decoding.py", JOINED, graph_loop),
    )
}
