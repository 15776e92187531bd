"""The steps of `generate` over a static cache, where the user asks for it: replays of one CUDA graph for each.

For a static cache, `generate` asks the model for what runs a step, by `get_compiled_call`, and transformers' is
`torch.compile`. Compiled code has to see at each token that nothing has changed, which takes the host near a
millisecond while the GPU waits, and swapped modules leave it little to fuse. `swap_modules(model, replay=True)` puts a
`StepCompiler` there, by a contract: **each step of a kind launches the same work on the same memory, and nobody changes
the model within one call.** Steps are of a kind if their arguments have the same shapes and types, and their cache the
same layers.

The first half is checked in one step of each kind of each call (step_checks.py), and before each replay it is seen that
modules and tensors are the same objects at the same addresses, of the same shapes and types. Weights that are updated
in place are read as they are. A step for which that does not hold runs launch by launch, and a line is logged. What
else a callback changes within a call (hooks, attributes, settings, functions) is not seen. A graph is for one call, so
that whatever is changed between two calls is.

Kinds of steps that cannot be replayed, and calls with a `compile_config` of their own, get what the model's class
gives; `reason` tells why, as the report of the swap and the log do.
"""

import functools
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import is_
from typing import Any

import torch
from torch import nn

from ninetoothed.runtime.private import count_dispatch_modes
from ninetoothed.runtime.workspace import lending, zeros_to_lend

from ..modules.overrides import are_overridden
from ..modules.replacements import REPLACEMENTS
from . import step_masks
from .attention_interface import LENGTHS
from .names import CACHES, cache_in
from .step_caches import StepCache, memory_of, unlike_static
from .step_checks import VALUES, checked, pinned

NAME = "get_compiled_call"
# What the output of a step may hold: its next one overwrites all tensors but those of the cache.
OUTPUTS = ("logits", *CACHES)
GIVEN = {torch.Tensor, type(None), *VALUES}
# The kind of device that has graphs.
GRAPHED = "cuda"
# So many steps of a new kind run without a graph: kernels are compiled and loaded in them. The last one is checked, and
# so is the first of each later call.
UNCAPTURED = 3
# A call has few kinds of steps, one after another; where it has more, each step is another.
KINDS = 8
# PyTorch captures one graph at a time.
_CAPTURING = threading.Lock()
_LOG = logging.getLogger(__name__)


def attributes(model: nn.Module) -> Iterator[tuple[nn.Module, str, Callable]]:
    """Find what makes the masks of steps and what runs them, for all that generates in a model and has none set."""
    for each in filter(_runs_on_ours, model.modules()):
        if not hasattr(each, step_masks.NAME):
            yield each, step_masks.NAME, step_masks.create_masks_for_generate
        if hasattr(type(each), NAME) and NAME not in vars(each):
            yield each, NAME, StepCompiler(each)


def _runs_on_ours(model: Any) -> bool:
    """Tell whether a causal language model was swapped: whether it has as many of our modules as layers."""
    if not hasattr(type(model), "prepare_inputs_for_generation"):
        return False
    layers = getattr(model.config.get_text_config(decoder=True), "num_hidden_layers", 0)
    return 0 < layers <= sum(isinstance(each, REPLACEMENTS) for each in model.modules())


class StepCompiler:
    """Give `generate` what runs the steps of one call; a copy is of the model's copy.

    seen: how many steps of each kind have run. reason: why steps of the last call were not replayed, or "".
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.seen: Counter[tuple] = Counter()
        self.reason = ""

    def __reduce__(self) -> tuple:
        return StepCompiler, (self.model,)

    def __call__(self, compile_config: Any) -> Callable:
        compiled = functools.partial(getattr(type(self.model), NAME), self.model, compile_config)
        self.reason = ""
        own = "it has a compile_config of its own" if compile_config is not None else ""
        return compiled() if self.tell(own or unsuitable(self.model)) else Steps(self, compiled)

    def tell(self, reason: str) -> str:
        """Keep and log why steps are not replayed, if there is a reason, and return it."""
        if reason and reason != self.reason:
            self.reason = reason
            _LOG.info("%s: steps of generate are not replayed: %s", type(self.model).__name__, reason)
        return reason


class Steps:
    """Run the steps of one call of `generate`; `compiled` gives what runs any that cannot be replayed.

    kind, held, cache: what one step has in common with the next, where a graph reads its arguments (None for those that
    are no tensors), and its cache. reason: why steps of this kind cannot be replayed, "" if they can, None before one
    was checked. begun: how many kinds there were.
    """

    def __init__(self, compiler: StepCompiler, compiled: Callable[[], Callable]) -> None:
        self.compiler, self.compiled = compiler, compiled
        self.kind: tuple = ()
        self.held: list[torch.Tensor | None] = []
        self.cache: Any = None
        self.graph: tuple[Any, Callable[[], None], Callable[[], bool]] | None = None
        self.reason: str | None = None
        self.begun = 0

    def __call__(self, **given: Any) -> Any:
        # Arguments may be in dictionaries, as masks by the kind of a layer are.
        given = {name: dict(each) if type(each) is dict else each for name, each in given.items()}
        holders = (given, *(each for each in given.values() if type(each) is dict))
        places = [
            (each, name) for each in holders for name in each if name not in CACHES and type(each[name]) is not dict
        ]
        arguments = [(name, holder[name]) for holder, name in places]
        reason = _unlike_a_step(given, arguments) or self._meet(cache_in(given), (*given, *arguments))
        if self.compiler.tell(reason):
            return self.compiled()(**given)
        for (holder, name), held in zip(places, self.held):
            if held is not None:
                holder[name] = held.copy_(holder[name])
        output = self._run(functools.partial(self.cache.run, functools.partial(self.compiler.model, **given)))
        self.cache.advance()
        return output

    def _meet(self, cache: Any, arguments: Sequence[Any]) -> str:
        """Look what kind of step this is, and begin anew where it is another; give the reason if it is not replayed."""
        before = self.cache
        if before is None or before.cache is not cache or not all(map(is_, memory_of(cache), before.memory)):
            if reason := unlike_static(cache):
                return reason
            self.kind, self.cache = (), StepCache.of(cache)
        kind = (self.cache.kind, *map(_kind_of, arguments))
        if kind != self.kind:
            self.kind, self.graph, self.reason, self.begun = kind, None, None, self.begun + 1
            self.held = [_held(each[1]) for each in arguments if type(each) is tuple]
        if self.begun > KINDS:  # Beams are put in order by new tensors after each step.
            return "its arguments, or the tensors of its cache, are others in each step"
        return self.reason or ""

    def _run(self, step: Callable[[], Any]) -> Any:
        compiler = self.compiler
        if self.graph is not None:
            output, replay, is_unchanged = self.graph
            if is_unchanged():
                replay()
                return type(output)(**output)  # The next step overwrites its logits.
            compiler.tell("modules or weights were exchanged between two steps: one runs launch by launch")
            self.graph = None
            return step()
        compiler.seen[self.kind] += 1
        if compiler.seen[self.kind] >= UNCAPTURED and self.reason is None:
            output, reason = checked(step, compiler.model, (self.cache.cache, *self.cache.cache.layers))
            self.reason = compiler.tell(reason or _kept(output))
            return output
        if self.reason is not None:
            try:
                self.graph = *capture(step, compiler.model.device), pinned(compiler.model)
                return self._run(step)
            except RuntimeError as error:  # whatever CUDA does not capture
                self.reason = compiler.tell(f"it cannot be captured: {str(error).partition(chr(10))[0]}")
        return step()


def capture(step: Callable[[], Any], device: torch.device) -> tuple[Any, Callable[[], None]]:
    """Capture a step, whose launches are lent zeros; gives what its output will be, and what runs it."""
    graph, zeros = torch.cuda.CUDAGraph(), zeros_to_lend(device)
    # PyTorch would share one stream for captures among all GPUs, and stay on it where a step cannot be captured.
    stream, before = torch.cuda.Stream(device), torch.cuda.stream(torch.cuda.current_stream(device))
    with _CAPTURING, torch.cuda.device(device), before, lending(zeros):
        # Other threads may allocate meanwhile.
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            output = step()
    graph.zeros = zeros  # type: ignore[attr-defined]  # They live as long as it.
    return output, graph.replay


def unsuitable(model: Any) -> str:
    """Give the reason why no step of a model can be replayed as things are; "" if there is none."""
    devices = {each.device for each in (*model.parameters(), *model.buffers())}
    if len(devices) != 1 or devices.pop().type != GRAPHED:
        return "it is not on one GPU"
    if are_overridden(*model.parameters()) or count_dispatch_modes():
        return "its weights, or a mode, see the calls of PyTorch's functions"
    return "autocast is on" if torch.is_autocast_enabled("cuda") else ""


def _unlike_a_step(given: dict[str, Any], arguments: Iterable[tuple[str, Any]]) -> str:
    """Give the reason why a call is no step of one token of each sequence; "" if it is one."""
    tokens = given.get("input_ids")
    if torch.is_grad_enabled():
        return "gradients are recorded"
    if type(tokens) is not torch.Tensor or tokens.shape[1:] != (1,):
        return "it is given other inputs than one token of each sequence"
    others = (f"its argument {name} is a {type(each).__name__}" for name, each in arguments if type(each) not in GIVEN)
    return next(others, "")


def _kind_of(argument: Any) -> Any:
    """Describe an argument, a name and its value, as far as steps of a kind have it in common."""
    name, value = argument if type(argument) is tuple else (argument, None)
    if isinstance(value, torch.Tensor):
        return name, value.dtype, value.shape, value.stride(), hasattr(value, LENGTHS)
    return name, type(value), value


def _held(given: Any) -> torch.Tensor | None:
    """Make the tensor from which a graph reads an argument; a mask whose keys are counted stays one."""
    held = given.clone() if isinstance(given, torch.Tensor) else None
    if hasattr(given, LENGTHS):
        setattr(held, LENGTHS, None)
    return held


def _kept(output: Any) -> str:
    """Give the reason why the next step may not overwrite what an output holds; "" if it may."""
    names = output if isinstance(output, dict) else [f"a {type(output).__name__}"]
    found = next((name for name in names if name not in OUTPUTS), "")
    return found and f"it gives {found}, which the next one would overwrite"
