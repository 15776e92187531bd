"""The kernels, in the language alone: each file has its formula, its arrangement and its application.

`make(...)` of each gives the kernel, made once for the same options and kept.
"""

from . import add, add_rms_norm, addmm, bmm, conv2d, mm, rms_norm, rope, sdpa, silu, silu_backward, softmax, swiglu

__all__ = [
    "add",
    "add_rms_norm",
    "addmm",
    "bmm",
    "conv2d",
    "mm",
    "rms_norm",
    "rope",
    "sdpa",
    "silu",
    "silu_backward",
    "softmax",
    "swiglu",
]
