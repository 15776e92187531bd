"""The steps of `generate` over a static cache: replays of one CUDA graph in the place of compiled code.

For a static cache, `generate` asks the model for what runs a step, by `get_compiled_call`, and transformers' is
`torch.compile`. Compiled code has to see at each token that nothing has changed, which takes the host near a
millisecond while the GPU waits, and swapped modules leave it little to fuse. The one here runs the model as it is: the
first step launch by launch, a later one into a graph, which all others replay. A graph is for one call of `generate`,
so that whatever is changed between two calls is seen. Weights that are exchanged within one are seen, too, and so are
other attributes, hooks, functions and settings (step_state.py); a list, dictionary or object that is changed in place
within one is not.

Whether each step is the same launches is seen from one that runs (step_watch.py), for any swapped decoder. Others, and
calls with a `compile_config` of their own, get what the model's class gives; `reason` tells why, as the report of the
swap and the log do.
"""

import functools
import logging
import sys
import threading
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from ninetoothed.runtime.private import count_dispatch_modes
from ninetoothed.runtime.workspace import lending, zeros_to_lend

from ..modules.overrides import are_overridden
from ..modules.swap import REPLACEMENTS
from . import step_masks
from .attention_interface import LENGTHS
from .step_caches import StepCache, memory_of, unlike_static
from .step_state import Weights, are_same
from .step_watch import VALUES, Verdict, watched

NAME = "get_compiled_call"
CACHE = "past_key_values"
# Arguments, each by its name, or by that of a dictionary and its key there.
Leaves = list[tuple[tuple[str, ...], Any]]
# What the output of a step may hold: its next one overwrites all tensors but those of the cache.
OUTPUTS = ("logits", CACHE)
# So many steps of a new kind run without a graph: kernels are compiled and loaded in them. The last of them is watched.
# So does the first of each call.
UNCAPTURED = 3
# A call has few kinds of steps, one after another; where it has more, each step is another.
KINDS = 8
# A verdict lists what all modules hold: so many are kept, of the kinds that were met last.
VERDICTS = 32
# PyTorch captures one graph at a time.
_CAPTURING = threading.Lock()
_LOG = logging.getLogger(__name__)


def attributes(model: nn.Module) -> Iterator[tuple[nn.Module, str, Callable]]:
    """Find what makes the masks of steps and what runs them, for all that generates in a model and has none set."""
    yield from step_masks.attributes(model)
    for each in model.modules():
        if hasattr(type(each), NAME) and NAME not in vars(each) and _runs_on_ours(each):
            yield each, NAME, StepCompiler(each)


def _runs_on_ours(model: Any) -> bool:
    """Tell whether a causal language model was swapped: whether it has as many of our modules as layers."""
    layers = getattr(model.config.get_text_config(decoder=True), "num_hidden_layers", 0)
    ours = sum(isinstance(each, REPLACEMENTS) for each in model.modules())
    return hasattr(type(model), "prepare_inputs_for_generation") and 0 < layers <= ours


class StepCompiler:
    """Give `generate` what runs the steps of one call; a copy is of the model's copy.

    seen: how many steps of each kind have run. verdicts: of each kind, what was seen when one was watched. reason: why
    steps of the last call were not replayed, or "". zeros: those that calls which have ended were lent, by GPU.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.seen: Counter[tuple] = Counter()
        self.verdicts: dict[tuple, Verdict] = {}
        self.reason = ""
        self.zeros: defaultdict[torch.device, list[torch.Tensor]] = defaultdict(list)

    def __reduce__(self) -> tuple:
        return StepCompiler, (self.model,)

    def __call__(self, compile_config: Any) -> Callable:
        compiled = functools.partial(getattr(type(self.model), NAME), self.model, compile_config)
        self.reason = ""
        reason = "it has a compile_config of its own" if compile_config is not None else unsuitable(self.model)
        if reason:
            self.tell(reason)
            return compiled()
        return Steps(self, compiled)

    def tell(self, reason: str) -> None:
        """Keep and log why steps are not replayed."""
        if reason != self.reason:
            self.reason = reason
            _LOG.info("%s: steps of generate are not replayed: %s", type(self.model).__name__, reason)

    def zeros_for(self, steps: "Steps") -> torch.Tensor:
        """Find zeros for the graph of one call, and take them back at its end."""
        kept = self.zeros[self.model.device]
        try:
            zeros = kept.pop()
        except IndexError:  # Another thread may have taken the last ones.
            zeros = zeros_to_lend(self.model.device)
        weakref.finalize(steps, kept.append, zeros)
        return zeros


class Steps:
    """Run the steps of one call of `generate`; `compiled` gives what runs any that cannot be replayed.

    kind, given, cache: what one step has in common with the next, its arguments, where a graph reads them, and its
    cache. verdict: what was seen of this kind, if that still holds of the modules. has_begun: whether one of this kind
    has run. begun: how many kinds there were.
    """

    def __init__(self, compiler: StepCompiler, compiled: Callable[[], Callable]) -> None:
        self.compiler, self.compiled = compiler, compiled
        self.kind: tuple = ()
        self.given: dict[tuple[str, ...], torch.Tensor] = {}
        self.cache: StepCache | None = None
        self.graph: StepGraph | None = None
        self.verdict: Verdict | None = None
        self.has_begun, self.begun = False, 0

    def __call__(self, **given: Any) -> Any:
        leaves = list(_leaves(given))
        reason = _unlike_a_step(given, leaves) or self._meet(given.get(CACHE), leaves)
        if reason:
            self.compiler.tell(reason)
            return self.compiled()(**given)
        for path, each in leaves:
            if path in self.given:
                self.given[path].copy_(each)
        output = self._run(functools.partial(self.compiler.model, **_replaced(given, self.given)))
        self.cache.advance()  # type: ignore[union-attr]
        return output

    def _meet(self, cache: Any, leaves: "Leaves") -> str:
        """Look what kind of step this is, and begin anew where it is another; give the reason if it is not replayed."""
        before = self.cache
        if before is None or before.cache is not cache or not are_same(memory_of(cache), before.memory):
            reason = unlike_static(cache)
            if reason:
                return reason
            self.kind, self.cache = (), StepCache.of(cache)
        kind = (self.cache.kind, *map(_kind_of, leaves))  # type: ignore[union-attr]
        if kind != self.kind:
            self.kind, self.graph, self.has_begun = kind, None, False
            self.begun += 1
            self.given = {path: _held(each) for path, each in leaves if isinstance(each, torch.Tensor)}
            found = self.compiler.verdicts.pop(kind, None)
            if found is not None:
                self.compiler.verdicts[kind] = found  # It is the last that was met.
            self.verdict = found if found is not None and found.state.holds() else None
        return "" if self.verdict is None else self.verdict.reason

    def _run(self, model: Callable[[], Any]) -> Any:
        compiler, kind = self.compiler, self.kind
        step = functools.partial(self.cache.run, model)  # type: ignore[union-attr]
        if self.graph is not None:
            output = self._replayed(self.graph)
            if output is not None:
                return output
        elif self.verdict is not None and not self.verdict.state.holds():
            self._forget()
        compiler.seen[kind] += 1
        if self.begun > KINDS:  # Beams are put in order by new tensors after each step.
            compiler.tell("its arguments, or the tensors of its cache, are others in each step")
            return step()
        if compiler.seen[kind] < UNCAPTURED:
            return step()
        if self.verdict is None:
            return self._watched(step)
        if not self.has_begun:
            self.has_begun = True
            return step()
        try:
            self.graph = StepGraph(*capture(step, compiler.zeros_for(self)), Weights.of(compiler.model))
        except RuntimeError as error:  # whatever CUDA does not capture
            verdict = replace(self.verdict, reason=f"it cannot be captured: {str(error).partition(chr(10))[0]}")
            # Memory may be there again for the next call.
            self._decide(verdict, is_kept=not isinstance(error, torch.OutOfMemoryError))
            return step()
        return self.graph.run()

    def _watched(self, step: Callable[[], Any]) -> Any:
        profiled = sys.getprofile() is not None
        reason = "a profiler sees the calls of Python" if profiled else unsuitable(self.compiler.model)
        if reason:
            self.compiler.tell(reason)
            return step()
        cache: Any = self.cache
        output, verdict = watched(step, self.compiler.model, (cache.cache, *cache.cache.layers))
        self._decide(replace(verdict, reason=verdict.reason or _kept(output)))
        self.has_begun = True
        return output

    def _decide(self, verdict: Verdict, *, is_kept: bool = True) -> None:
        """Remember, for later calls too if it is kept, whether steps of this kind can be replayed, and why not."""
        self.verdict = verdict
        if is_kept:
            verdicts = self.compiler.verdicts
            verdicts[self.kind] = verdict
            for kind in list(verdicts)[:-VERDICTS]:
                verdicts.pop(kind, None)  # Another thread may have.
        if verdict.reason:
            self.compiler.tell(verdict.reason)

    def _replayed(self, graph: "StepGraph") -> Any:
        """Replay a graph; give None if weights were exchanged since it was captured, or a step might do something else.

        That is looked for while the GPU runs, and the step is to run anew if so: what was written to the cache is
        written again. Where a window has dropped a token meanwhile, it cannot be, and is looked for before.
        """
        cache, state = self.cache, self.verdict.state  # type: ignore[union-attr]
        output = graph.run() if cache.can_repeat else None  # type: ignore[union-attr]
        if graph.weights.are_same() and state.holds():
            return graph.run() if output is None else output
        if output is not None:
            cache.take_back()  # type: ignore[union-attr]
        self._forget(is_same=state.holds())
        return None

    def _forget(self, *, is_same: bool = False) -> None:
        """Let the next step run without a graph; and watch it, unless all but the weights is the same."""
        self.graph, self.has_begun = None, False
        self.verdict = self.verdict if is_same else None
        self.begun += 1


@dataclass(frozen=True)
class StepGraph:
    """One step as a graph."""

    output: Any
    replay: Callable[[], None]
    weights: Weights

    def run(self) -> Any:
        """Run the step; the next one overwrites its logits."""
        self.replay()
        return type(self.output)(**self.output)


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


def unsuitable(model: Any) -> str:
    """Give the reason why no step of a model can be replayed as things are; "" if there is none."""
    if not _is_on_one_gpu(model):
        return "it is not on one GPU"
    if are_overridden(*model.parameters()) or count_dispatch_modes():
        return "its weights, or a mode, see the calls of PyTorch's functions"
    return "autocast is on" if torch.is_autocast_enabled("cuda") else ""


def _is_on_one_gpu(model: nn.Module) -> bool:
    devices = {each.device for each in (*model.parameters(), *model.buffers())}
    return len(devices) == 1 and devices.pop().type == "cuda"


def _unlike_a_step(given: dict[str, Any], leaves: Leaves) -> str:
    """Give the reason why a call is no step of one token of each sequence; "" if it is one."""
    tokens = given.get("input_ids")
    if torch.is_grad_enabled():
        return "gradients are recorded"
    if type(tokens) is not torch.Tensor or tokens.shape[1:] != (1,):
        return "it is given other inputs than one token of each sequence"
    for path, value in leaves:
        if value is not None and type(value) is not torch.Tensor and not isinstance(value, VALUES):
            return f"its argument {path[0]} is a {type(value).__name__}"
    return ""


def _leaves(given: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """List arguments but the cache, and those in dictionaries, as masks by the kind of a layer are."""
    for name, value in given.items():
        if type(value) is dict:
            yield from (((name, key), each) for key, each in value.items())
        elif name != CACHE:
            yield (name,), value


def _replaced(given: dict[str, Any], held: dict[tuple[str, ...], torch.Tensor]) -> dict[str, Any]:
    """Put held tensors in the place of those given."""
    found = {name: dict(value) if type(value) is dict else value for name, value in given.items()}
    for path, each in held.items():
        (found if len(path) == 1 else found[path[0]])[path[-1]] = each
    return found


def _kind_of(leaf: tuple[tuple[str, ...], Any]) -> tuple:
    path, value = leaf
    if isinstance(value, torch.Tensor):
        return path, value.dtype, value.shape, value.stride(), hasattr(value, LENGTHS)
    return path, type(value), value


def _held(given: torch.Tensor) -> torch.Tensor:
    """Make the tensor from which a graph reads an argument; a mask whose keys are counted stays one."""
    held = given.clone()
    if hasattr(given, LENGTHS):
        setattr(held, LENGTHS, None)
    return held


def _kept(output: Any) -> str:
    """Give the reason why the next step may not overwrite what an output holds; "" if it may."""
    names = list(output) if isinstance(output, dict) else [f"a {type(output).__name__}"]
    found = [name for name in names if name not in OUTPUTS]
    return f"it gives {found[0]}, which the next one would overwrite" if found else ""
