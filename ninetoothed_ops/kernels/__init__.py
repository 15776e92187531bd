"""The kernels, in the language alone: each file has its formula, its arrangement and its application.

`make(...)` of each gives the kernel, made once for the same options and kept.
"""

from . import (
    add,
    add_rms_norm,
    addmm,
    bmm,
    column_sums,
    conv2d,
    conv2d_backward_input,
    conv2d_backward_weight,
    mm,
    rms_norm,
    rms_norm_backward,
    rms_norm_weight_backward,
    rope,
    rope_backward,
    rope_into_cache,
    sdpa,
    silu,
    silu_backward,
    softmax,
    softmax_backward,
    swiglu,
    swiglu_backward,
)

__all__ = [
    "add",
    "add_rms_norm",
    "addmm",
    "bmm",
    "column_sums",
    "conv2d",
    "conv2d_backward_input",
    "conv2d_backward_weight",
    "mm",
    "rms_norm",
    "rms_norm_backward",
    "rms_norm_weight_backward",
    "rope",
    "rope_backward",
    "rope_into_cache",
    "sdpa",
    "silu",
    "silu_backward",
    "softmax",
    "softmax_backward",
    "swiglu",
    "swiglu_backward",
]
