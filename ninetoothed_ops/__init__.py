"""Operators and modules for PyTorch, written in NineToothed.

Importing this registers `torch.ops.ninetoothed.{add, addmm, bmm, conv2d, gelu, layer_norm, linear, mm, rms_norm, rope,
sdpa, silu, softmax}`. The functions of these names take the arguments of PyTorch's. `add_rms_norm`, `gated`,
`rope_into_cache` and `swiglu` are one launch each for what are several operators of PyTorch's. `register` makes an
operator of a kernel of your own; `swap_modules` puts modules that run on the operators into a model, and
`register_attention` lets models of transformers ask for our attention by name.
"""

try:
    from ninetoothed import gradient_arrangement as _ours  # noqa: F401 - the original has none
except ImportError:
    raise ImportError(
        "the package ninetoothed that is imported here is not the one of `ninetoothed-torch` but the original"
        " implementation's (distribution `ninetoothed`): `pip uninstall ninetoothed ninetoothed-torch`, then install"
        " the one that you want"
    ) from None

from .integrations import register_attention
from .modules import (
    NTGELU,
    NTActivation,
    NTAttention,
    NTConv1D,
    NTConv2d,
    NTDecoderLayer,
    NTGatedMLP,
    NTLayerNorm,
    NTLinear,
    NTRMSNorm,
    NTRotary,
    NTSiLU,
    SwapError,
    SwapReport,
    swap_modules,
)
from .ops import (
    add,
    add_rms_norm,
    addmm,
    bmm,
    conv2d,
    gated,
    gelu,
    layer_norm,
    linear,
    mm,
    rms_norm,
    rope,
    rope_into_cache,
    sdpa,
    silu,
    softmax,
    swiglu,
)
from .registration import register

__all__ = [
    "NTGELU",
    "NTActivation",
    "NTAttention",
    "NTConv1D",
    "NTConv2d",
    "NTDecoderLayer",
    "NTGatedMLP",
    "NTLayerNorm",
    "NTLinear",
    "NTRMSNorm",
    "NTRotary",
    "NTSiLU",
    "SwapError",
    "SwapReport",
    "add",
    "add_rms_norm",
    "addmm",
    "bmm",
    "conv2d",
    "gated",
    "gelu",
    "layer_norm",
    "linear",
    "mm",
    "register",
    "register_attention",
    "rms_norm",
    "rope",
    "rope_into_cache",
    "sdpa",
    "silu",
    "softmax",
    "swap_modules",
    "swiglu",
]
