"""Operators and modules for PyTorch, written in NineToothed.

Importing this registers `torch.ops.ninetoothed.{add, addmm, bmm, conv2d, gelu, layer_norm, linear, mm, rms_norm, rope,
sdpa, silu, softmax}`. The functions of these names take the arguments of PyTorch's. `add_rms_norm`, `gated`,
`rope_into_cache` and `swiglu` are one launch each for what are several operators of PyTorch's. `register` makes an
operator of a kernel of your own; `swap_modules` puts modules that run on the operators into a model, and
`register_attention` lets models of transformers ask for our attention by name.
"""

import ninetoothed

if not hasattr(ninetoothed, "distribution"):  # which tells more
    raise ImportError(
        f"ninetoothed_ops is of the distribution `ninetoothed-torch`, and {ninetoothed.__file__} is the original"
        " implementation's (`ninetoothed`): `pip uninstall ninetoothed`, and install `ninetoothed-torch` anew"
    )

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
