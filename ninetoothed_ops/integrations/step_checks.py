"""Check the contract of replayed steps: each of a kind launches the same work on the same memory.

What a step launches follows from its arguments, from what Python's objects hold, and from what is read of the device.
`checked` runs one step and looks for what a replay would not do again; no family is asked for, each model shows it.
What `pinned` returns tells before each replay whether modules and weights are those that the graph was captured with.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter, is_
from typing import Any

import torch
from torch import nn

from ninetoothed.runtime.private import TorchDispatchMode, modes_see_operations

# Operators that a graph cannot hold.
READS = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
COPIES = ("aten::_to_copy", "aten::copy_")
# Values that count by themselves; of all else that an object holds, it counts which it is.
VALUES = (bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.Size)


class Operators(TorchDispatchMode):
    """Look at the operators of a step for what a graph could not do again; `reason` names the first such one.

    made: the tensors elsewhere than the model, such as numbers on the host, that the step has made.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.device, self.reason = next(model.parameters()).device, ""
        self.is_training = any(each.training for each in model.modules())
        self.made: dict[int, torch.Tensor] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        given = self._elsewhere((args, kwargs or {}))
        result = func(*args, **(kwargs or {}))
        self.made.update(self._elsewhere(result))
        reason = self._reason(func, args, result, given.keys() <= self.made.keys())
        if reason and not self.reason:
            self.reason = f"{func} {reason}{_place()}"
        return result

    def _elsewhere(self, values: Any) -> dict[int, torch.Tensor]:
        tensors = (each for each in _flat(values) if isinstance(each, torch.Tensor))
        return {id(each): each for each in tensors if each.device != self.device}

    def _reason(self, func: Any, args: tuple, result: Any, is_own: bool) -> str:
        if not READS.isdisjoint(func.tags) and not _gathers(func, args):
            return "reads what a tensor holds"
        if func.name() in COPIES and len({each.device for each in (*args[:2], result) if hasattr(each, "device")}) > 1:
            return "copies from one device to another"
        if func is torch.ops.aten.lift_fresh.default and result.device == self.device:
            return "makes a tensor of numbers in Python"
        if torch.Tag.nondeterministic_seeded in func.tags and self.is_training:
            return "may draw random numbers, as a module is in training mode,"
        return "" if is_own else "reads a tensor on the host"


def _gathers(func: Any, args: tuple) -> bool:
    """Tell whether an operator indexes by places alone: truth values would have to be counted."""
    masks = (torch.bool, torch.uint8)
    return func is torch.ops.aten.index.Tensor and not any(each is not None and each.dtype in masks for each in args[1])


def _place() -> str:
    """Name the line of the model's code that calls an operator."""
    frame: Any = sys._getframe()
    while frame is not None and not frame.f_globals.get("__name__", "").startswith("transformers.models."):
        frame = frame.f_back
    return f" ({frame.f_globals['__name__']}, line {frame.f_lineno})" if frame is not None else ""


def checked(step: Callable[[], Any], model: nn.Module, objects: Iterable[Any]) -> tuple[Any, str]:
    """Run a step; give its output, and the reason why another one is not the same launches, or "".

    objects: those that a step reads, beside the modules.
    """
    if not modes_see_operations:
        return step(), "this PyTorch does not show what operators it calls"
    roots = (*model.modules(), *objects)
    before = _held(roots)
    with Operators(model) as operators:
        output = step()
    after = _held(roots)
    changed = [key for key in before | after if not _are_same(before.get(key), after.get(key))]
    change = f"a step changes {changed[0][1]} of {type(changed[0][0]).__name__}" if changed else ""
    return output, operators.reason or change


def _held(objects: Iterable[Any]) -> dict[tuple[Any, str], list]:
    """List what each attribute of objects holds."""
    return {(each, name): list(_flat(value)) for each in objects for name, value in vars(each).items()}


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value
        value = value.values()
    elif not isinstance(value, (list, tuple, set, frozenset)):
        yield value
        return
    for each in value:
        yield from _flat(each)


def _are_same(first: list | None, second: list | None) -> bool:
    if first is None or second is None or len(first) != len(second):
        return False
    return all(a is b or (type(a) is type(b) and isinstance(a, VALUES) and a == b) for a, b in zip(first, second))


def pinned(model: nn.Module) -> Callable[[], bool]:
    """Return a function that tells whether a model has the modules and tensors of now, of these addresses and shapes.

    It takes 50 us for 16 layers.
    """
    own = [vars(each) for each in model.modules()]
    owners = [each[name] for each in own for name in ("_modules", "_parameters", "_buffers")]
    places = [(owner, name) for owner in owners for name in owner]
    places += [(each, name) for each in own for name, value in each.items() if isinstance(value, torch.Tensor)]
    # The dictionaries, and the names in them.
    holders, names = [each for each, _ in places], [name for _, name in places]
    held = [*map(dict.get, holders, names)]
    tensors = [each for each in held if isinstance(each, torch.Tensor)]
    layout = _layout(tensors)
    return lambda: all(map(is_, map(dict.get, holders, names), held)) and _layout(tensors) == layout


def _layout(tensors: Sequence[torch.Tensor]) -> list[Any]:
    return [*map(torch.Tensor.data_ptr, tensors), *map(attrgetter("dtype", "shape"), tensors)]
