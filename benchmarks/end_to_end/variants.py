"""The ways to generate tokens that are compared.

Each `prepare(model, inputs, count)` gives `run(at_first)`, which generates `count` tokens of each sequence, greedily,
calls `at_first()` once the first is there, and returns them all, `(batch, count)` on the CPU.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from examples.decoding import Decoder


@dataclass(frozen=True)
class Variant:
    """A way to generate: its name in tables, what it is, and the options with which modules are swapped, if any."""

    name: str
    description: str
    swap: dict[str, bool] | None
    prepare: Callable[[Any, dict[str, torch.Tensor], int], Callable[[Callable[[], None]], torch.Tensor]]


class _First:
    """Calls a function at the first token that `generate` has chosen, and never stops it."""

    def __init__(self, at_first):
        self.at_first = at_first

    def __call__(self, tokens, scores, **_):
        if self.at_first is not None:
            self.at_first()
            self.at_first = None
        return torch.zeros(len(tokens), dtype=torch.bool, device=tokens.device)


def generate(model, inputs, count, **options):
    """`model.generate` of transformers."""

    def run(at_first):
        tokens = model.generate(
            **inputs,
            max_new_tokens=count,
            min_new_tokens=count,
            do_sample=False,
            pad_token_id=0,
            stopping_criteria=[_First(at_first)],
            **options,
        )
        return tokens[:, inputs["input_ids"].shape[1] :].cpu()

    return run


def generate_static(model, inputs, count):
    """`model.generate` with a static cache; on a GPU transformers compiles the model for it, with CUDA graphs."""
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
    def run(at_first):
        cache.reset()
        positions = torch.arange(length, device=ids.device)[None]
        tokens = step(ids, positions)
        positions = positions[:, -1:] + 1
        made = [tokens]
        at_first()
        for _ in range(count - 1):
            # What a graph gave is overwritten when it runs again.
            tokens = compiled(tokens, positions).clone()
            made.append(tokens)
            positions += 1
        return torch.cat(made, 1).cpu()

    return run


def graph_loop(model, inputs, count):
    """The loop of `examples/decoding.py`: one CUDA graph a step."""
    batch, length = inputs["input_ids"].shape
    return Loop(Decoder(model, batch, length + count), inputs, count)


def compiled_graph_loop(model, inputs, count):
    """The same loop around a step that Inductor compiled, once for the whole cache."""
    batch, length = inputs["input_ids"].shape
    forward = torch.compile(model, dynamic=False)
    return Loop(Decoder(model, batch, length + count, window=length + count, forward=forward), inputs, count)


class Loop:
    """A run of a decoder, which is there for others to look into."""

    def __init__(self, decoder, inputs, count):
        self.decoder, self.inputs, self.count = decoder, inputs, count

    def __call__(self, at_first):
        stream = self.decoder.stream(self.inputs, self.count)
        made = [next(stream)]
        at_first()
        made.extend(stream)
        return torch.stack(made, 1)


VARIANTS = {
    variant.name: variant
    for variant in (
        Variant("eager", "PyTorch, generate", None, generate),
        Variant("generate", "PyTorch, generate with its compiled static cache", None, generate_static),
        Variant("compiled loop", "PyTorch, the step compiled with CUDA graphs", None, compiled_loop),
        Variant("graph loop", "PyTorch, not compiled, in the loop of ours", None, graph_loop),
        Variant("compiled graph loop", "PyTorch, compiled, in the loop of ours", None, compiled_graph_loop),
        Variant("ours, eager", "our modules, generate", {}, generate),
        Variant(
            "ours, generate", "our modules, generate with its compiled static cache", {"join": True}, generate_static
        ),
        Variant("ours, separate", "our modules, each product of its own, in the same loop", {}, graph_loop),
        Variant("ours", "our modules in the loop of examples/decoding.py", {"join": True}, graph_loop),
    )
}
