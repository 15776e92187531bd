"""The table of modules that a swap puts in, and the rules that choose one of them."""

import functools
from collections.abc import Callable, Iterable
from typing import Any

from torch import nn

from ninetoothed.errors import ArgumentError

from . import (
    activations,
    attention,
    batch_norm,
    conv2d,
    dropout,
    embedding,
    group_norm,
    layer_norm,
    linear,
    losses,
    rms_norm,
)
from .substitute import Substitute

# What to put in a module's place, perhaps with the reason why it is not more than a part; or why it is left alone.
Verdict = type[nn.Module] | tuple[type[nn.Module], str] | str | None
Rule = Callable[[nn.Module], Verdict]

REPLACEMENTS = (
    linear.NTLinear,
    conv2d.NTConv2d,
    rms_norm.NTRMSNorm,
    layer_norm.NTLayerNorm,
    activations.NTSiLU,
    activations.NTActivation,
    losses.NTKLDivLoss,
    batch_norm.NTBatchNorm1d,
    batch_norm.NTBatchNorm2d,
    batch_norm.NTBatchNorm3d,
    group_norm.NTGroupNorm,
    embedding.NTEmbedding,
    dropout.NTDropout,
    Substitute,
)
KINDS = linear, conv2d, rms_norm, layer_norm, activations, losses, attention
RULES: tuple[Rule, ...] = tuple(each.replacement for each in KINDS)

# Swapped where they are named, alone: dropout draws other numbers than PyTorch's, and the others may be no faster.
ON_REQUEST: dict[type[nn.Module], Rule] = {
    nn.BatchNorm1d: batch_norm.replacement,
    nn.BatchNorm2d: batch_norm.replacement,
    nn.BatchNorm3d: batch_norm.replacement,
    nn.GroupNorm: group_norm.replacement,
    nn.Embedding: embedding.replacement,
    nn.Dropout: dropout.replacement,
}


def requested(classes: Iterable[type[nn.Module]]) -> tuple[Rule, ...]:
    """Give the rules for classes that are swapped on request; `ArgumentError` for any other."""
    named: Any = tuple(classes) if isinstance(classes, Iterable) and not isinstance(classes, type) else (classes,)
    unknown = [each for each in named if not isinstance(each, type) or each not in ON_REQUEST]
    if unknown:
        offered = ", ".join(f"nn.{each.__name__}" for each in ON_REQUEST)
        found = getattr(unknown[0], "__name__", repr(unknown[0]))
        raise ArgumentError(f"swap_modules: also has {found}, which is not swapped on request; name some of {offered}.")

    return tuple(functools.partial(_of_class, cls) for cls in named)


def _of_class(cls: type[nn.Module], module: nn.Module) -> Verdict:
    return ON_REQUEST[cls](module) if isinstance(module, cls) else None
