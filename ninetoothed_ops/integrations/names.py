"""The names of transformers that the integration stands on: they are asked for one by one, whatever the version.

Without those of `NEEDED`, attention cannot be registered, or masks mean something else: UnsupportedError. Without one
of the others something stays as transformers does it, and the logger `ninetoothed` says what.
"""

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import transformers

from ninetoothed.errors import UnsupportedError
from ninetoothed.runtime import missing

# Those of docs/installing.md.
TESTED = "transformers>=5.17,<5.25"
_MASK = ("q_length", "q_offset", "kv_offset")
# The argument that is a cache: the first since transformers 5.24, where the other is its old name.
CACHES = ("cache", "past_key_values")
# With the parameters that functions must have: the masks of 5.0 are made of others.
NEEDED: dict[str, tuple[str, ...]] = {
    "transformers.AttentionInterface": (),
    "transformers.PreTrainedConfig._attn_implementation": (),
    "transformers.PreTrainedModel._supports_attention_backend": (),
    "transformers.PreTrainedModel._supports_sdpa": (),
    "transformers.masking_utils.AttentionMaskInterface": (),
    "transformers.masking_utils.eager_mask": _MASK,
    "transformers.masking_utils.sdpa_mask": _MASK,
}
_STEPS = "steps of `generate` run as transformers runs them, and are not replayed"
_WRAPPED = "forwards that it wraps are not recognised"
OF_STEPS = {
    "transformers.cache_utils.StaticCache": _STEPS,
    "transformers.cache_utils.StaticLayer": _STEPS,
    "transformers.cache_utils.StaticSlidingWindowLayer": _STEPS,
    "transformers.masking_utils.ALL_MASK_ATTENTION_FUNCTIONS": _STEPS,
    "transformers.masking_utils.create_masks_for_generate": _STEPS,
}
OTHERS = {
    "transformers.activations": "its activations are left alone",
    "transformers.cache_utils.DynamicLayer": "the first keys of a cache are written by its `update`",
    "transformers.integrations.sdpa_attention": "attention of its files is left alone",
    "transformers.modeling_layers": _WRAPPED,
    "transformers.pytorch_utils.Conv1D": "its Conv1D is left alone",
    "transformers.utils.deprecation": _WRAPPED,
    "transformers.utils.output_capturing._active_collector": "attention weights that a model asks for are not refused",
}


def check(caller: str) -> None:
    """Raise UnsupportedError where transformers lacks a name that is needed; log the others that it lacks."""
    lacking = [name for name, parameters in NEEDED.items() if not _has(name, parameters)]
    if lacking:
        raise UnsupportedError(
            f"{caller}: transformers {transformers.__version__} has no {', '.join(map(_written, lacking))}; those that "
            f'were tested have: pip install "{TESTED}".'
        )
    for name, instead in missing.of(OF_STEPS | OTHERS).items():
        missing.tell(f"this transformers has no {name}: {instead}")


def has_steps() -> bool:
    """Tell whether transformers has all by which steps of `generate` are made and replayed."""
    return not missing.of(OF_STEPS)


def cache_in(given: Mapping[str, Any]) -> Any:
    """Find the cache among the arguments of a call, by whichever of its names; None if there is none."""
    return next((given[name] for name in CACHES if given.get(name) is not None), None)


def module(name: str) -> ModuleType:
    """Import a module of transformers; an empty one, of no file, where it has none."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return _empty(name)


@functools.cache
def _empty(name: str) -> ModuleType:
    return ModuleType(name)


def _has(name: str, parameters: tuple[str, ...]) -> bool:
    if not missing.has(name):
        return False
    return not parameters or inspect.signature(pkgutil.resolve_name(name)).parameters.keys() >= set(parameters)


def _written(name: str) -> str:
    parameters = NEEDED[name]
    return f"{name}({', '.join(parameters)})" if parameters else name
