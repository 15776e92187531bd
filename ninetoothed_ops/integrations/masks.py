"""Tell what the attention of a family reads: masks of truth values or of numbers that it adds, and what else."""

import dis
import functools
import inspect
import sys
from typing import Any

import torch
from transformers import PreTrainedModel

REGISTRY = "ALL_ATTENTION_FUNCTIONS"
MASK = "attention_mask"
# What classes of models say of where they may run.
SDPA, BACKENDS = "_supports_sdpa", "_supports_attention_backend"
# How the names of families' own attention functions end, a parameter of theirs that says what masks say, too, and one
# that changes results in any family, whether its function names it or not.
EAGER, WINDOW, OF_HEADS = "eager_attention_forward", "sliding_window", "head_mask"


@torch.compiler.assume_constant_result
def reads_numbers(config: type) -> bool:
    """Tell whether models of a config want the masks of "eager": numbers, and one wherever causality is meant.

    They do if transformers never runs them on "sdpa", unless they run on other backends and hand their masks on as
    they are, as attention with sinks does.
    """
    return _reads_numbers(config)


@functools.cache
def _reads_numbers(config: type) -> bool:
    file = sys.modules.get(config.__module__.replace("configuration_", "modeling_"))
    classes = [each for each in vars(file).values() if isinstance(each, type)] if file else []
    known: list[Any] = [each for each in classes if issubclass(each, PreTrainedModel) and each is not PreTrainedModel]
    # A part of a model may say that it has the whole's config: then its name tells.
    models = [each for each in known if each.config_class is config] or [
        each for each in known if each.__name__.startswith(config.__name__.removesuffix("Config"))
    ]
    if not models and config.__base__ is not None:  # A user's own config is of the family that it derives from.
        return _reads_numbers(config.__base__)
    if not models or any(getattr(each, SDPA, True) for each in models):
        return False
    looking = [code for each in classes if REGISTRY in (code := _forward(each)).co_names]
    return not (any(getattr(each, BACKENDS, False) for each in models) and all(map(_hands_on, looking)))


@torch.compiler.assume_constant_result
def own_parameters(attention: type) -> tuple[str, ...]:
    """Name what the attention functions beside a class of attention compute with."""
    return _own_parameters(attention)


@functools.cache
def _own_parameters(attention: type) -> tuple[str, ...]:
    names = inspect.unwrap(attention.forward).__globals__ if hasattr(attention, "forward") else {}
    functions = [each for name, each in names.items() if name.endswith(EAGER)]
    named = {name for each in functions for name in inspect.signature(each).parameters}
    return tuple(sorted(named - {WINDOW} | {OF_HEADS}))


def _forward(cls: type) -> Any:
    """Find the code of a class's forward; that of nothing if it has none."""
    return getattr(inspect.unwrap(getattr(cls, "forward", _reads_numbers)), "__code__", reads_numbers.__code__)


def _hands_on(code: Any) -> bool:
    """Tell whether a forward does nothing with its mask but hand it on once."""
    found = [each for each in dis.get_instructions(code) if "FAST" in each.opname]
    names = [name for each in found for name in (each.argval if isinstance(each.argval, tuple) else (each.argval,))]
    return names.count(MASK) == 1
