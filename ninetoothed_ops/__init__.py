"""Operators and modules for PyTorch, written in NineToothed.

Importing this registers `torch.ops.ninetoothed.{add, addmm, bmm, conv2d, layer_norm, linear, mm, rms_norm, rope, sdpa,
silu, softmax}`. The functions of these names take the arguments of PyTorch's. `add_rms_norm`, `rope_into_cache` and
`swiglu` are one launch each for what are several operators of PyTorch's. `register` makes an operator of a kernel of
your own; `swap_modules` puts modules that run on the operators into a model.
"""

from .modules import (
    NTAttention,
    NTConv2d,
    NTDecoderLayer,
    NTGatedMLP,
    NTLayerNorm,
    NTLinear,
    NTRMSNorm,
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
    "NTAttention",
    "NTConv2d",
    "NTDecoderLayer",
    "NTGatedMLP",
    "NTLayerNorm",
    "NTLinear",
    "NTRMSNorm",
    "NTSiLU",
    "SwapError",
    "SwapReport",
    "add",
    "add_rms_norm",
    "addmm",
    "bmm",
    "conv2d",
    "layer_norm",
    "linear",
    "mm",
    "register",
    "rms_norm",
    "rope",
    "rope_into_cache",
    "sdpa",
    "silu",
    "softmax",
    "swap_modules",
    "swiglu",
]
