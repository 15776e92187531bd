"""Watch a step of a model, to know whether each other one is the same launches.

What a step launches follows from its arguments, from what Python's objects hold, and from what is read of the device.
So a step that reads nothing of the device, leaves objects as it found them, and runs the code of `PACKAGES` alone, does
the same launches whenever its arguments are of the same kind. No family is asked for: each model shows it by one step.
"""

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from types import CodeType
from typing import Any

import torch
from torch import nn

from ninetoothed.runtime.private import TorchDispatchMode, modes_see_operations

from .step_state import MODELS, StepState, name_of

# Whose code does in a step what its arguments and objects say, and is known to write nothing else.
PACKAGES = {"torch", "numpy", "transformers", "ninetoothed", "ninetoothed_ops", "triton"} | sys.stdlib_module_names
# What `collections.namedtuple`, `dataclasses` and our call cache write.
GENERATED = ("namedtuple_", "<string>", "<fast path>")
# Operators that a graph cannot hold.
READS = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)
COPIES = ("aten::_to_copy", "aten::copy_")
# Values that count by themselves; of all else that an object holds, it counts which it is.
VALUES = (bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.Size)


class Operators(TorchDispatchMode):
    """Look at the operators of a step for what a graph could not do again; `reason` names the first such one."""

    def __init__(self, device: torch.device, *, is_training: bool) -> None:
        super().__init__()
        self.device, self.is_training = device, is_training
        self.reason = ""
        # Tensors on the host that the step did not make, with what they held; and those that it made.
        self.numbers: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self.made: dict[int, torch.Tensor] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        for each in self._elsewhere((*args, *(kwargs or {}).values())):
            if id(each) not in self.made and id(each) not in self.numbers:
                self.numbers[id(each)] = each, each.clone()
        result = func(*args, **(kwargs or {}))
        self.made.update((id(each), each) for each in self._elsewhere((result,)))
        self.reason = self.reason or self._reason(func, args, result)
        return result

    def _elsewhere(self, values: Iterable[Any]) -> Iterator[torch.Tensor]:
        """List tensors on the host, if the model is not there: what is read of them is part of a launch."""
        flat = chain.from_iterable(each if isinstance(each, (list, tuple)) else (each,) for each in values)
        return (each for each in flat if isinstance(each, torch.Tensor) and each.is_cpu and each.device != self.device)

    @property
    def change(self) -> str:
        """Give the reason why a step that changes what tensors on the host hold cannot be replayed."""
        is_same = all(torch.equal(*each) for each in self.numbers.values())
        return "" if is_same else "a step changes a tensor on the host"

    def _reason(self, func: Any, args: tuple, result: Any) -> str:
        if any(tag in func.tags for tag in READS) and not _gathers(func, args):
            return f"{func} reads what a tensor holds{_place()}"
        if torch.Tag.nondeterministic_seeded in func.tags and self.is_training:
            return f"{func} may draw random numbers{_place()}, as a module of it is in training mode"
        if func is torch.ops.aten.lift_fresh.default and result.device == self.device:
            return f"a tensor is made of numbers in Python{_place()}"
        between = [each for each in (*args[:2], result) if isinstance(each, torch.Tensor)]
        if func.name() in COPIES and len({each.device for each in between}) > 1:
            return f"{func} copies from one device to another{_place()}"
        return ""


def _gathers(func: Any, args: tuple) -> bool:
    """Tell whether an operator indexes by places alone: truth values would have to be counted."""
    masks = (torch.bool, torch.uint8)
    return func is torch.ops.aten.index.Tensor and not any(each is not None and each.dtype in masks for each in args[1])


def _place() -> str:
    """Name the line of the model's code that calls an operator."""
    frame: Any = sys._getframe()
    while frame is not None and not name_of(frame.f_code, frame.f_globals).startswith(MODELS):
        frame = frame.f_back
    return f" ({name_of(frame.f_code, frame.f_globals)}, line {frame.f_lineno})" if frame is not None else ""


@contextlib.contextmanager
def calls(found: dict[CodeType, dict[str, Any]]) -> Iterator[None]:
    """Collect the functions in Python that this thread calls: the code of each, and its globals."""

    def see(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            found.setdefault(frame.f_code, frame.f_globals)

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        yield
    finally:
        sys.setprofile(before)


@dataclass(frozen=True)
class Verdict:
    """Why steps like one that was watched cannot be replayed, or "", as long as the state is what it was."""

    reason: str
    state: StepState


def watched(step: Callable[[], Any], model: nn.Module, objects: Iterable[Any]) -> tuple[Any, Verdict]:
    """Run a step; give its output, and whether another one is the same launches.

    objects: those that a step reads, beside the modules.
    """
    if not modes_see_operations:
        return step(), Verdict("this PyTorch does not show what operators it calls", StepState.of(model))
    called: dict[CodeType, dict[str, Any]] = {}
    roots = (*model.modules(), *objects)
    before, device = held(roots), next(model.parameters()).device
    with Operators(device, is_training=any(each.training for each in model.modules())) as operators, calls(called):
        output = step()
    reason = operators.reason or _of_others(called) or _change(before, held(roots)) or operators.change
    return output, Verdict(reason, StepState.of(model, objects, called, tuple(operators.numbers.values())))


def _of_others(called: dict[CodeType, dict[str, Any]]) -> str:
    """Name a function that was called and is of none of `PACKAGES`, if there is one."""
    for code, file in called.items():
        name = name_of(code, file)
        if name.partition(".")[0] not in PACKAGES and not name.startswith(GENERATED):
            return f"{code.co_name} of {name} is called, which may do more than launch"
    return ""


def held(objects: Iterable[Any]) -> dict[tuple[int, str], tuple[Any, list]]:
    """List what each attribute of objects holds, with the object."""
    rows = ((each, name, value) for each in objects for name, value in vars(each).items())
    return {(id(each), name): (each, list(_flat(value))) for each, name, value in rows}


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value
        value = value.values()
    elif not isinstance(value, (list, tuple, set, frozenset)):
        yield value
        return
    for each in value:
        yield from _flat(each)


def _change(before: dict[tuple[int, str], tuple[Any, list]], after: dict[tuple[int, str], tuple[Any, list]]) -> str:
    for key, (owner, _) in (before | after).items():
        old, new = before.get(key, (None, []))[1], after.get(key, (None, []))[1]
        if key not in before or key not in after or len(old) != len(new) or not all(map(_is_same, old, new)):
            return f"a step changes {key[1]} of {type(owner).__name__}"
    return ""


def _is_same(old: Any, new: Any) -> bool:
    return old is new or (type(old) is type(new) and isinstance(old, VALUES) and old == new)
