"""Watch a step of a model, to know whether each other one is the same launches.

What a step launches follows from its arguments, from what Python's objects hold, and from what is read of the device.
So a step that reads nothing of the device, leaves objects as it found them, and runs the code of `PACKAGES` alone, does
the same launches whenever its arguments are of the same kind. No family is asked for: each model shows it by one step.
"""

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedConfig
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from ninetoothed.runtime.private import TorchDispatchMode, has_global_hook, modes_see_operations

# Whose code does in a step what its arguments and objects say, and is known to write nothing else.
PACKAGES = frozenset({"torch", "transformers", "ninetoothed", "ninetoothed_ops", "triton"}) | sys.stdlib_module_names
# What `collections.namedtuple`, `dataclasses` and our call cache write.
GENERATED = ("namedtuple_", "<string>", "<fast path>")
MODELS = "transformers.models."
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
    while frame is not None and not _name(frame.f_code, frame.f_globals).startswith(MODELS):
        frame = frame.f_back
    return f" ({frame.f_globals['__name__']}, line {frame.f_lineno})" if frame is not None else ""


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
    """Why steps like one that was watched cannot be replayed, or "", as long as no model was patched or switched.

    modules: what the modules were. names: what the functions of models called by which names, in which file.
    """

    reason: str
    modules: list[tuple]
    names: list[tuple[dict[str, Any], str, Any]]

    def holds(self, modules: list[tuple]) -> bool:
        """Tell whether it holds of modules, as `modules_of` gives them."""
        return self.modules == modules and all(file.get(name) is value for file, name, value in self.names)


def modules_of(model: Any) -> list[tuple]:
    """List what the modules of a model are, their hooks and modes, its configuration, and functions of attention."""
    configs = [model.config, *(each for each in vars(model.config).values() if isinstance(each, PreTrainedConfig))]
    registered = dict(ALL_ATTENTION_FUNCTIONS), dict(ALL_MASK_ATTENTION_FUNCTIONS)
    found: list[tuple] = [(has_global_hook(), *registered, *(dict(vars(each)) for each in configs))]
    for each in model.modules():
        own = vars(each)
        hooks = (*own["_forward_hooks"].values(), *own["_forward_pre_hooks"].values())
        found.append((type(each), type(each).forward, own.get("forward"), own["training"], hooks))
    return found


def watched(step: Callable[[], Any], model: nn.Module, objects: Iterable[Any]) -> tuple[Any, Verdict]:
    """Run a step; give its output, and whether another one is the same launches.

    objects: those that a step reads, beside the modules.
    """
    if not modes_see_operations:
        return step(), Verdict("this PyTorch does not show what operators it calls", modules_of(model), [])
    called: dict[CodeType, dict[str, Any]] = {}
    roots = (*model.modules(), *objects)
    before, device = held(roots), next(model.parameters()).device
    with Operators(device, is_training=any(each.training for each in model.modules())) as operators, calls(called):
        output = step()
    reason = operators.reason or _of_others(called) or _change(before, held(roots))
    of_models = ((code, file) for code, file in called.items() if _name(code, file).startswith(MODELS))
    names = [(file, name, file[name]) for code, file in of_models for name in code.co_names if name in file]
    return output, Verdict(reason, modules_of(model), names)


def _of_others(called: dict[CodeType, dict[str, Any]]) -> str:
    """Name a function that was called and is of none of `PACKAGES`, if there is one."""
    for code, file in called.items():
        name = _name(code, file)
        if name.partition(".")[0] not in PACKAGES and not name.startswith(GENERATED):
            return f"{code.co_name} of {name} is called, which may do more than launch"
    return ""


def _name(code: CodeType, file: dict[str, Any]) -> str:
    return file.get("__name__") or code.co_filename


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
