"""The steps of `generate` over a static cache: replays of one CUDA graph in the place of compiled code.

For a static cache, `generate` asks the model for what runs a step, by `get_compiled_call`, and transformers' is
`torch.compile`. Compiled code has to see at each token that nothing has changed, which takes the host near a
millisecond while the GPU waits, and swapped modules leave it little to fuse. The one here runs the model as it is: the
first step launch by launch, a later one into a graph, which all others replay. A graph is for one call of `generate`,
so that whatever is changed between two calls is seen; hooks and weights that are exchanged within one are not.

Only models are captured whose modules are all known to do the same at each step. Those that are not, other inputs than
those of a token, and calls with a `compile_config` of their own get what the model's class gives.
"""

import functools
import operator
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import cache_utils

from ninetoothed.runtime.private import has_global_hook, runs_forward_alone
from ninetoothed.runtime.workspace import lending, zeros_to_lend

from ..modules.caches import are_own
from ..modules.overrides import are_overridden
from . import step_masks
from .recognition import same_throughout

NAME = "get_compiled_call"
# Of a step: what differs from one to the next, and what has to be so.
INPUTS = ("input_ids", "position_ids", "attention_mask")
OPTIONS = {"use_cache": True, "logits_to_keep": 1, "return_dict": True}
# So many steps of new sizes, and the first of each call, run without a graph: kernels are compiled and loaded in them.
UNCAPTURED = 3
# PyTorch captures one graph at a time.
_CAPTURING = threading.Lock()
# Modules that compute with tensors alone: those of these packages, and those with the forwards of these classes.
PACKAGES = ("torch.nn.modules.", "ninetoothed_ops.modules.", "transformers.activations")
CLASSES = tuple(
    f"llama.modeling_llama.Llama{name}" for name in ("ForCausalLM", "Model", "DecoderLayer", "MLP", "RotaryEmbedding")
)


def attributes(model: nn.Module) -> Iterator[tuple[nn.Module, str, Callable]]:
    """Find what makes the masks of steps and what runs them, for all that generates in a model and has none set."""
    yield from step_masks.attributes(model)
    for each in step_masks.generators_of(model):
        if hasattr(each, NAME) and NAME not in vars(each):
            yield each, NAME, StepCompiler(each)


class StepCompiler:
    """Give `generate` what runs the steps of one call; a copy is of the model's copy.

    seen: how many steps of each kind of inputs ran without a graph. zeros: those that calls which have ended were lent.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.seen: Counter[tuple] = Counter()
        self.zeros: list[torch.Tensor] = []

    def __reduce__(self) -> tuple:
        return StepCompiler, (self.model,)

    def __call__(self, compile_config: Any) -> Callable:
        compiled = functools.partial(getattr(type(self.model), NAME), self.model, compile_config)
        is_asked = compile_config is not None
        return compiled() if is_asked or not is_capturable(self.model) else Steps(self, compiled)

    def zeros_for(self, steps: "Steps") -> torch.Tensor:
        """Find zeros for the graph of one call, and take them back at its end."""
        try:
            zeros = self.zeros.pop()
        except IndexError:  # Another thread may have taken the last ones.
            zeros = zeros_to_lend(self.model.device)
        weakref.finalize(steps, self.zeros.append, zeros)
        return zeros


@dataclass(frozen=True)
class StepGraph:
    """One step as a graph."""

    output: Any
    replay: Callable[[], None]

    def run(self) -> Any:
        """Run the step; the next one overwrites its logits."""
        self.replay()
        return type(self.output)(**self.output)


class Steps:
    """Run the steps of one call of `generate`; `compiled` gives what runs any that is no plain one.

    held: the inputs of a step, where the graph reads them. memory: what it reads and writes of the cache.
    """

    def __init__(self, compiler: StepCompiler, compiled: Callable[[], Callable]) -> None:
        self.compiler, self.compiled = compiler, compiled
        self.held: tuple[torch.Tensor, ...] = ()
        self.memory: tuple[torch.Tensor, ...] = ()
        self.graph: StepGraph | None = None

    def __call__(self, **given: Any) -> Any:
        memory = memory_of(given)
        if memory is None:
            return self.compiled()(**given)
        # Beams are put in order by new tensors after each step: no step of theirs is captured.
        is_new = self._hold(tuple(given[name] for name in INPUTS)) or not _are_same(memory, self.memory)
        self.memory = memory
        given |= zip(INPUTS, self.held)
        if is_new or self.graph is None:
            kind = tuple((each.dtype, each.shape, each.stride()) for each in (*self.held, memory[0]))
            seen, model = self.compiler.seen, self.compiler.model
            seen[kind] += 1
            if is_new or seen[kind] <= UNCAPTURED:
                self.graph = None
                return model(**given)
            self.graph = StepGraph(*capture(functools.partial(model, **given), self.compiler.zeros_for(self)))
        return self.graph.run()

    def _hold(self, inputs: tuple[torch.Tensor, ...]) -> bool:
        """Put the inputs of a step where a graph reads them; tells whether they lie elsewhere than before."""
        is_new = not self.held or any(a.shape != b.shape or a.dtype != b.dtype for a, b in zip(inputs, self.held))
        if is_new:
            self.held = tuple(each.clone() for each in inputs)
        else:
            for held, given in zip(self.held, inputs):
                held.copy_(given)
        return is_new


def capture(step: Callable[[], Any], zeros: torch.Tensor) -> tuple[Any, Callable[[], None]]:
    """Capture a step, whose launches are lent zeros; gives what its output will be, and what runs it."""
    graph, device = torch.cuda.CUDAGraph(), zeros.device
    # PyTorch would share one stream for captures among all GPUs, and stay on it where a step cannot be captured.
    stream, before = torch.cuda.Stream(device), torch.cuda.stream(torch.cuda.current_stream(device))
    with _CAPTURING, torch.cuda.device(device), before, lending(zeros):
        # Other threads may allocate meanwhile.
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            output = step()
    return output, graph.replay


def memory_of(given: dict[str, Any]) -> tuple[torch.Tensor, ...] | None:
    """Find the tensors of a static cache of transformers that the step of one token reads and writes; None if other."""
    cache = given.get("past_key_values")
    if (
        torch.is_grad_enabled()
        or type(cache) is not cache_utils.StaticCache
        or given.keys() != {*INPUTS, *OPTIONS, "past_key_values"}
    ):
        return None
    if any(given[name] != value for name, value in OPTIONS.items()) or given["input_ids"].shape[1:] != (1,):
        return None
    if any(type(given[name]) is not torch.Tensor for name in INPUTS) or given["attention_mask"].ndim != 4:
        return None
    layers: Any = cache.layers
    if any(type(layer) is not cache_utils.StaticLayer or not layer.is_initialized for layer in layers):
        return None
    if not all(are_own(cache_utils, cache, cache_utils.StaticLayer, layer) for layer in layers):
        return None
    return tuple(each for layer in layers for each in (layer.keys, layer.values, layer.cumulative_length))


def is_capturable(model: Any) -> bool:
    """Tell whether each step of a model is the same launches, on one GPU, and nothing watches its modules."""
    if has_global_hook() or are_overridden(*model.parameters()) or torch.is_autocast_enabled("cuda"):
        return False
    if model.config.output_attentions or model.config.output_hidden_states or not _is_on_one_gpu(model):
        return False
    modules = list(model.modules())
    return all(map(_runs_alone, modules)) and all(map(_is_known, set(map(type, modules))))


def _is_on_one_gpu(model: nn.Module) -> bool:
    devices = {each.device for each in (*model.parameters(), *model.buffers())}
    return len(devices) == 1 and devices.pop().type == "cuda"


def _runs_alone(module: nn.Module) -> bool:
    """Tell whether calling a module runs its forward, as in every other step, and nothing else."""
    # Of some kinds the frequencies change when a sequence becomes longer, at which the host has to look.
    changes = module.training or getattr(module, "rope_type", "default") in ("dynamic", "longrope")
    return not changes and runs_forward_alone(module)


def _is_known(cls: type[nn.Module]) -> bool:
    """Tell whether modules of a class compute with tensors alone."""
    return cls.__module__.startswith(PACKAGES) or same_throughout(cls.forward, *CLASSES)


def _are_same(first: tuple[torch.Tensor, ...], second: tuple[torch.Tensor, ...]) -> bool:
    return len(first) == len(second) and all(map(operator.is_, first, second))
