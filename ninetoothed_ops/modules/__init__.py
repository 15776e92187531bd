"""Modules that run on NineToothed's operators, and the swap that puts them into a model."""

from .activations import NTGELU, NTActivation
from .attention import NTAttention
from .conv2d import NTConv2d
from .decoder_layer import NTDecoderLayer
from .gated_mlp import NTGatedMLP
from .layer_norm import NTLayerNorm
from .linear import NTConv1D, NTLinear
from .quantisation import PassedByWarning
from .rms_norm import NTRMSNorm
from .rotary_module import NTRotary
from .silu import NTSiLU
from .swap import SwapError, SwapReport, swap_modules

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
    "PassedByWarning",
    "SwapError",
    "SwapReport",
    "swap_modules",
]
