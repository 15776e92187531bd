"""The table of modules that a swap puts in, and the rules that choose one of them."""

from collections.abc import Callable

from torch import nn

from . import activations, attention, conv2d, layer_norm, linear, rms_norm
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
    Substitute,
)
KINDS = linear, conv2d, rms_norm, layer_norm, activations, attention
RULES: tuple[Rule, ...] = tuple(each.replacement for each in KINDS)
