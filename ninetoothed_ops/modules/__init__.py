"""Modules that run on NineToothed's operators, and the swap that puts them into a model."""

from .activations import NTGELU, NTActivation, NTSiLU
from .attention import NTAttention
from .batch_norm import NTBatchNorm1d, NTBatchNorm2d, NTBatchNorm3d
from .conv2d import NTConv2d
from .decoder_layer import NTDecoderLayer
from .dropout import NTDropout
from .embedding import NTEmbedding
from .gated_mlp import NTGatedMLP
from .group_norm import NTGroupNorm
from .layer_norm import NTLayerNorm
from .linear import NTConv1D, NTLinear
from .losses import NTJSDLoss, NTKLDivLoss
from .quantisation import PassedByWarning as PassedByWarning
from .rms_norm import NTRMSNorm
from .rotary_module import NTRotary
from .swap import SwapError, SwapReport, swap_modules

__all__ = ["NTGELU", "NTActivation", "NTAttention", "NTConv1D", "NTConv2d", "NTDecoderLayer", "NTGatedMLP"]
__all__ += ["NTLayerNorm", "NTLinear", "NTRMSNorm", "NTRotary", "NTSiLU", "SwapError", "SwapReport", "swap_modules"]
__all__ += ["NTBatchNorm1d", "NTBatchNorm2d", "NTBatchNorm3d", "NTDropout", "NTEmbedding", "NTGroupNorm"]
__all__ += ["NTJSDLoss", "NTKLDivLoss"]
