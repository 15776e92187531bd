"""Remember the state in Python that steps of a model depend on, and tell whether it has changed.

That is asked for at each replay of a step, while the GPU runs: so identities are compared, in few calls. A list,
dictionary or object of a user's that is changed in place stays the same one, and the change is not seen.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import is_, itemgetter
from types import CodeType, MappingProxyType, ModuleType
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedConfig
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from ninetoothed.runtime.private import count_dispatch_modes, has_global_hook, matmul_precision

MODELS = "transformers.models."
# Whose functions choose what a step launches.
CALLERS = ("transformers.", "ninetoothed_ops.", "torch.nn.")
# Attributes of a module that hold its weights, and those that hold all else that a call of it follows from.
WEIGHTS = ("_parameters", "_buffers")
CONTAINERS = ("_modules", "_forward_hooks", "_forward_pre_hooks")
# Code as it was called, with its globals.
Called = Mapping[CodeType, dict[str, Any]]


@dataclass(frozen=True)
class Names:
    """Names in dictionaries, and what stood there."""

    holders: Sequence[Mapping[str, Any]]
    readers: Sequence[Callable[[Mapping[str, Any]], tuple]]
    values: list[tuple]

    @classmethod
    def of(cls, holders: Sequence[Mapping[str, Any]], names: Sequence[Iterable[str]]) -> "Names":
        given = [(holder, tuple(each)) for holder, each in zip(holders, names, strict=True)]
        found = [(holder, each * 2 if len(each) == 1 else each) for holder, each in given if each]
        readers = [itemgetter(*each) for _, each in found]  # It gives a tuple of two names or more.
        holders = [holder for holder, _ in found]
        return cls(holders, readers, [read(holder) for read, holder in zip(readers, holders)])

    def read(self) -> list[tuple]:
        return [read(holder) for read, holder in zip(self.readers, self.holders)]

    def are_same(self) -> bool:
        """Tell whether something equal stands there; identity is looked at first."""
        return self.read() == self.values


def _guarded(comparison: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Make a comparison False where it raises: names may be gone, and arrays are neither equal nor not."""

    @functools.wraps(comparison)
    def compare(remembered: Any) -> bool:
        try:
            return comparison(remembered)
        except Exception:  # A user's `__eq__` may raise anything.
            return False

    return compare


@dataclass(frozen=True)
class StepState:
    """The modules of a model, their attributes, hooks and configuration, functions by name, and PyTorch's modes.

    types, classes: those of the modules, and what all classes had by which names. attributes: what the modules' own
    attributes held. sizes: how many names modules and classes had. containers: dictionaries, and what they held.
    called: what functions called by name. numbers: tensors on the host, and what they held.
    """

    modules: list[nn.Module]
    types: list[type]
    classes: Names
    attributes: Names
    sizes: list[int]
    containers: tuple[list[dict], list[dict]]
    called: Names
    settings: tuple
    numbers: Sequence[tuple[torch.Tensor, torch.Tensor]]

    @classmethod
    def of(
        cls,
        model: Any,
        objects: Iterable[Any] = (),
        called: Called = MappingProxyType({}),
        numbers: Sequence[tuple[torch.Tensor, torch.Tensor]] = (),
    ) -> "StepState":
        modules = list(model.modules())
        classes = list({each: vars(each) for one in (*modules, *objects) for each in type(one).__mro__}.values())
        own: list[Any] = list(map(vars, modules))
        bookkeeping = vars(nn.Module()).keys() - {"training"}
        configs = [model.config, *(each for each in vars(model.config).values() if isinstance(each, PreTrainedConfig))]
        containers = [*(each[name] for each in own for name in CONTAINERS), *map(vars, configs)]
        return cls(
            modules,
            list(map(type, modules)),
            Names.of(classes, classes),
            Names.of(own, [[name for name in each if name not in bookkeeping] for each in own]),
            list(map(len, (*own, *classes))),
            (containers, list(map(dict, containers))),
            _called_by_name(called),
            _settings(),
            numbers,
        )

    @_guarded
    def holds(self) -> bool:
        """Tell whether everything is as it was."""
        return (
            self.containers[0] == self.containers[1]
            and list(map(type, self.modules)) == self.types
            and list(map(len, chain(self.attributes.holders, self.classes.holders))) == self.sizes
            and self.attributes.are_same()
            and self.classes.are_same()
            and self.called.are_same()
            and self.settings == _settings()
            and all(torch.equal(*each) for each in self.numbers)
        )


def _settings() -> tuple:
    """List modes and settings of PyTorch by which the same code launches something else, and functions of attention."""
    return (
        has_global_hook(),
        count_dispatch_modes(),
        torch.is_autocast_enabled("cuda"),
        matmul_precision(),
        torch.are_deterministic_algorithms_enabled(),
        dict(ALL_ATTENTION_FUNCTIONS),
        dict(ALL_MASK_ATTENTION_FUNCTIONS),
    )


def _called_by_name(called: Called) -> Names:
    """Find the functions that code called by name: where each stands, in its file or in a module that it names."""
    found: dict[int, tuple[Mapping[str, Any], dict[str, None]]] = {}
    callers = ((code, file) for code, file in called.items() if name_of(code, file).startswith(CALLERS))
    for holder, name in (place for caller in callers for place in _read_by(*caller)):
        found.setdefault(id(holder), (holder, {}))[1][name] = None
    return Names.of([holder for holder, _ in found.values()], [names for _, names in found.values()])


def _read_by(code: CodeType, file: dict[str, Any]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """List where code finds functions; in the file of a model all that it names, settings too."""
    holders: list[Mapping[str, Any]] = [file]
    is_models = name_of(code, file).startswith(MODELS)
    for holder in holders:  # It grows.
        for name in code.co_names:
            value = holder.get(name)
            if isinstance(value, ModuleType):
                if not any(vars(value) is each for each in holders):
                    holders.append(vars(value))
            elif callable(value) or (is_models and holder is file and name in file):
                yield holder, name


def name_of(code: CodeType, file: dict[str, Any]) -> str:
    """Give the name of the file of a function: of a forward with other globals, `__spec__` alone has it."""
    return file.get("__name__") or getattr(file.get("__spec__"), "name", "") or code.co_filename


@dataclass(frozen=True)
class Weights:
    """The tensors that a model holds, and where they lay when a graph that reads them was captured.

    owners: the dictionaries of its parameters and buffers. attributes: tensors that are neither.
    """

    owners: Sequence[Mapping[str, torch.Tensor | None]]
    attributes: Names
    tensors: list[torch.Tensor]
    addresses: list[int]
    # Keeps the memory, which a graph may read once more.
    memory: list[torch.Tensor]

    @classmethod
    def of(cls, model: nn.Module) -> "Weights":
        own = list(map(vars, model.modules()))
        owners = [each[name] for each in own for name in WEIGHTS if each[name]]
        attributes = Names.of(own, [[name for name in each if isinstance(each[name], torch.Tensor)] for each in own])
        tensors = _held_by(owners, attributes)
        addresses, memory = [each.data_ptr() for each in tensors], [each.detach() for each in tensors]
        return cls(owners, attributes, tensors, addresses, memory)

    @_guarded
    def are_same(self) -> bool:
        """Tell whether nothing was exchanged or moved since."""
        found = _held_by(self.owners, self.attributes)
        return are_same(found, self.tensors) and [each.data_ptr() for each in found] == self.addresses


def _held_by(owners: Sequence[Mapping[str, Any]], attributes: Names) -> list[Any]:
    owned = (each for owner in owners for each in owner.values() if each is not None)
    return [*owned, *chain.from_iterable(attributes.read())]


def are_same(first: list[Any], second: list[Any]) -> bool:
    return len(first) == len(second) and all(map(is_, first, second))
