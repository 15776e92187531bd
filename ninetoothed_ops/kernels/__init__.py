"""The ten kernels, in the language alone: each file has its formula, its arrangement and its application.

`make(...)` of each gives the kernel, made once for the same options and kept.
"""

from . import add, addmm, bmm, conv2d, mm, rms_norm, rope, sdpa, silu, softmax

__all__ = ["add", "addmm", "bmm", "conv2d", "mm", "rms_norm", "rope", "sdpa", "silu", "softmax"]
