"""What watches calls, or takes their place: classes of tensors, modes, hooks of saved tensors, the profiler.

Each function takes a call and one of its two functions, and gives the cases of a behaviour; `seen` gives names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.graph import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_map

from docs.behaviour_calls import Call
from docs.behaviour_outcomes import Cases, Outcome, clones, gradients, of, tensors_of


class Inheriting(torch.Tensor):
    """Computes nothing itself."""


class Counting(torch.Tensor):
    """Counts the functions that it is asked for, and computes them as PyTorch does."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        return super().__torch_function__(function, types, args, kwargs or {})


class Wrapping(torch.Tensor):
    """Holds another tensor, and is asked by the dispatcher alone, as sharded tensors are."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: torch.Tensor, requires_grad: bool = False) -> torch.Tensor:
        options = {"strides": held.stride(), "dtype": held.dtype, "device": held.device}
        return torch.Tensor._make_wrapper_subclass(cls, held.shape, **options, requires_grad=requires_grad)

    def __init__(self, held: torch.Tensor, requires_grad: bool = False) -> None:
        self.held = held

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        unwrapped, kwargs = tree_map(_held, (args, kwargs or {}))
        found = function(*unwrapped, **kwargs)
        wrapped = tree_map(lambda value: cls(value) if type(value) is torch.Tensor else value, found)
        return return_and_correct_aliasing(function, args, kwargs, wrapped)


class Quantised(torch.Tensor):
    """A weight in int8 with a scale a row, as torchao's: it knows `linear`, and how it is dequantised."""

    @staticmethod
    def __new__(cls, values: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        return torch.Tensor._make_wrapper_subclass(cls, values.shape, dtype=scales.dtype, device=values.device)

    def __init__(self, values: torch.Tensor, scales: torch.Tensor) -> None:
        self.values, self.scales = values, scales

    @classmethod
    def of(cls, weight: torch.Tensor) -> Quantised:
        """Quantise a weight."""
        scales = weight.abs().amax(-1, keepdim=True) / 127
        return cls((weight / scales).round().to(torch.int8), scales)

    def dequantised(self) -> torch.Tensor:
        return self.values * self.scales

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        if function is functional.linear:
            args = tuple(each.dequantised() if isinstance(each, cls) else each for each in args)
            return function(*args, **kwargs)
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        raise NotImplementedError(f"Quantised does not know {function}")


def classes(call: Call, function: Callable) -> Cases:
    """A class of tensors in each place: results, their class, and gradients."""

    def run(make: Callable, place: int) -> Outcome:
        tensors: list[Any] = list(call.recorded())
        before = tensors[place]
        tensors[place] = make(before.detach())
        if before.requires_grad:
            tensors[place].requires_grad_()
        results, grads = gradients(function, tensors)
        outcome = of([_held(_plain(each)) for each in (*results, *grads)], with_values=not call.is_random)
        return Outcome(f"{[type(each).__name__ for each in results]} {outcome.text}", outcome.values)

    makers = {"inheriting": lambda x: x.as_subclass(Inheriting), "counting": lambda x: x.as_subclass(Counting)}
    makers["wrapping"] = Wrapping
    return {
        f"{kind}, {name}": lambda make=make, i=i: run(make, i)
        for kind, make in makers.items()
        for i, name in enumerate(call.names)
    }


def quantised(call: Call, function: Callable) -> Cases:
    """A quantised weight in each place of two dimensions: a class of torchao's kind, and PyTorch's own."""

    def run(make: Callable, place: int) -> Outcome:
        tensors = clones(call.tensors)
        tensors[place] = make(tensors[place])
        return of(function(*tensors), with_values=not call.is_random)

    def by_pytorch(x: torch.Tensor) -> torch.Tensor:
        return torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)

    return {
        f"{kind}, {name}": lambda make=make, i=i: run(make, i)
        for kind, make in (("as torchao's", Quantised.of), ("qint8", by_pytorch))
        for i, name in enumerate(call.names)
        if call.tensors[i].is_floating_point() and (call.tensors[i].ndim > 1 or kind == "qint8")
    }


class Zeroing(TorchDispatchMode):
    """Gives zeros in the place of what operators compute, and writes their names down."""

    def __init__(self, is_zeroed: bool = True) -> None:
        super().__init__()
        self.names: list[str] = []
        self.is_zeroed = is_zeroed

    def __torch_dispatch__(self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        self.names.append(function.name().removesuffix(".default"))
        found = function(*args, **(kwargs or {}))
        return tree_map(_zeroed, found) if self.is_zeroed else found


class Asking(TorchFunctionMode):
    """Gives zeros in the place of what functions compute."""

    def __torch_function__(self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        return tree_map(_zeroed, function(*args, **(kwargs or {})))


def modes(call: Call, function: Callable) -> Cases:
    """Modes that put zeros in the place of what is computed: whether they see all that a result comes from."""

    def run(mode: type) -> Outcome:
        tensors = clones(call.tensors)
        with mode():
            results = function(*tensors)
        return of(results)

    def recorded() -> Outcome:
        tensors = list(call.recorded())
        results = [each for each in tensors_of(function(*tensors)) if each.requires_grad]
        leaves = [each for each in tensors if each.requires_grad]
        with Zeroing():
            grads = torch.autograd.grad(results, leaves, list(map(torch.ones_like, results)), allow_unused=True)
        return of(grads)

    return {"TorchDispatchMode": lambda: run(Zeroing), "backward": recorded, "TorchFunctionMode": lambda: run(Asking)}


def hooks(call: Call, function: Callable) -> Cases:
    """Gradients where saved tensors are put elsewhere meanwhile, and what is packed but never unpacked."""

    def run(hooks: Any) -> Outcome:
        with hooks:
            results, grads = gradients(function, list(call.recorded()))
        return of([*results, *grads], with_values=not call.is_random)

    def elsewhere() -> Outcome:
        return run(saved_tensors_hooks(lambda x: x.detach().numpy().copy(), torch.from_numpy))

    return {
        "elsewhere": elsewhere,
        "save_on_cpu": lambda: run(save_on_cpu()),
        "disabled": lambda: run(disable_saved_tensors_hooks("no hooks here")),
    }


def profiler(call: Call, function: Callable) -> Cases:
    """Whether the profiler tells of a call with its shapes, of its backward, and our names that a mode sees."""

    def run() -> Outcome:
        forward, backward, *_ = seen(call, function)
        tensors = list(call.recorded())
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profile:
            gradients(function, tensors)
        shapes = {tuple(shape) for event in profile.events() for shape in event.input_shapes}
        keys = {event.key for event in profile.events()}
        is_backward = any("autograd::engine::evaluate_function" in key for key in keys)
        own = {name for name in (*forward, *backward) if name.startswith("ninetoothed::")}
        return Outcome(
            f"shapes {tuple(tensors[0].shape) in shapes}, backward {is_backward}, unnamed {sorted(own - keys)}"
        )

    return {"a training step": run}


def seen(call: Call, function: Callable) -> tuple[list[str], list[str], list[str], int]:
    """Name what a TorchDispatchMode sees, forward and backward, and nodes of the graph; count what is saved."""
    packed: list[torch.Tensor] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        packed.append(tensor)
        return tensor

    tensors = list(call.recorded())
    with Zeroing(is_zeroed=False) as forward, saved_tensors_hooks(pack, lambda tensor: tensor):
        results = [each for each in tensors_of(function(*tensors)) if each.requires_grad]
    nodes = [type(each.grad_fn).__name__ for each in results]
    leaves = [each for each in tensors if each.requires_grad]
    with Zeroing(is_zeroed=False) as backward:
        torch.autograd.grad(results, leaves, list(map(torch.ones_like, results)), allow_unused=True)
    return forward.names, backward.names, nodes, len({id(each) for each in packed})


def _zeroed(value: Any) -> Any:
    return torch.zeros_like(value) if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def _held(value: Any) -> Any:
    return value.held if isinstance(value, Wrapping) else value


def _plain(value: Any) -> Any:
    return value.as_subclass(torch.Tensor) if isinstance(value, (Inheriting, Counting)) else value
