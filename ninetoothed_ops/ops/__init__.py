"""The operators `torch.ops.ninetoothed.*` and functions with PyTorch's arguments: importing this registers them."""

from .add import add
from .add_rms_norm import add_rms_norm
from .addmm import addmm
from .bmm import bmm
from .conv2d import conv2d
from .gated import gated
from .gelu import gelu
from .layer_norm import layer_norm
from .linear import linear
from .mm import mm
from .rms_norm import rms_norm
from .rope import rope
from .rope_into_cache import rope_into_cache
from .sdpa import sdpa
from .silu import silu
from .softmax import softmax
from .swiglu import swiglu

__all__ = [
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
    "rms_norm",
    "rope",
    "rope_into_cache",
    "sdpa",
    "silu",
    "softmax",
    "swiglu",
]
