"""Watch a step of a model, to know whether each other one is the same launches.

What a step launches follows from its arguments, from what Python's objects hold, and from what is read of the device.
So a step that reads nothing of the device, leaves objects as it found them, and runs the code of `PACKAGES` alone, does
the same launches whenever its arguments are of the same kind. No family is asked for: each model shows it by one step.
"""

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import nn

from ninetoothed.runtime.private import TorchDispatchMode, modes_see_operations

# Whose code does in a step what its arguments and objects say, and is known to write nothing else.
PACKAGES = frozenset({"torch", "transformers", "ninetoothed", "ninetoothed_ops", "triton"}) | sys.stdlib_module_names
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

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.reason = self.reason or self._reason(func, args, result)
        return result

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
    while frame is not None and not frame.f_globals.get("__name__", "").startswith("transformers.models."):
        frame = frame.f_back
    return f" ({frame.f_globals['__name__']}, line {frame.f_lineno})" if frame is not None else ""


@contextlib.contextmanager
def functions_of_others(found: list[str]) -> Iterator[None]:
    """Collect the functions in Python that this thread calls and that are of none of `PACKAGES`."""

    def see(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            name = frame.f_globals.get("__name__") or frame.f_code.co_filename
            if name.partition(".")[0] not in PACKAGES and not name.startswith(GENERATED):
                found.append(f"{frame.f_code.co_name} of {name}")

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        yield
    finally:
        sys.setprofile(before)


def watched(step: Callable[[], Any], model: nn.Module, objects: Iterable[Any], *, whole: bool) -> tuple[Any, str]:
    """Run a step; give its output, and the reason why another may not be the same launches, or "".

    objects: those that a step reads, beside the modules. whole: false if this was seen of the model, and only functions
    may have been patched since.
    """
    others: list[str] = []
    if not modes_see_operations:
        return step(), "this PyTorch does not show what operators it calls"
    if not whole:
        with functions_of_others(others):
            return step(), _of_others(others)
    roots = (*model.modules(), *objects)
    before = held(roots)
    device = next(model.parameters()).device
    with Operators(device, is_training=any(each.training for each in model.modules())) as operators:
        with functions_of_others(others):
            output = step()
    return output, operators.reason or _of_others(others) or _change(before, held(roots))


def _of_others(functions: list[str]) -> str:
    return f"{functions[0]} is called, which may do more than launch" if functions else ""


def fingerprint(model: nn.Module) -> int:
    """Hash what the modules of a model are and hold, such that any change shows."""
    rows = held(model.modules())
    return hash(tuple((id(type(owner)), name, *map(_key, values)) for (_, name), (owner, values) in rows.items()))


def _key(value: Any) -> Any:
    return value if isinstance(value, VALUES) else id(value)


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
