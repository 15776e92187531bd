"""The operators `torch.ops.ninetoothed.*` and functions with PyTorch's arguments: importing this registers them."""

from .activation import gelu, silu
from .add import add
from .add_rms_norm import add_rms_norm
from .addmm import addmm
from .batch_norm import batch_norm
from .conv2d import conv2d
from .cross_entropy import cross_entropy
from .dropout import dropout
from .embedding import embedding
from .gated import gated, swiglu
from .group_norm import group_norm
from .jsd import jsd
from .kl_div import kl_div
from .layer_norm import layer_norm
from .linear import linear
from .linear_cross_entropy import linear_cross_entropy
from .mm import bmm, mm
from .rms_norm import rms_norm
from .rope import rope
from .rope_into_cache import rope_into_cache
from .sdpa import sdpa
from .softmax import softmax

__all__ = ["add", "add_rms_norm", "addmm", "bmm", "conv2d", "cross_entropy", "gated", "gelu", "layer_norm", "linear"]
__all__ += ["linear_cross_entropy", "mm", "rms_norm", "rope", "rope_into_cache", "sdpa", "silu", "softmax", "swiglu"]
__all__ += ["batch_norm", "dropout", "embedding", "group_norm", "jsd", "kl_div"]
