"""Operators and modules for PyTorch, written in NineToothed.

Importing this registers `torch.ops.ninetoothed.{add, addmm, batch_norm, bmm, conv2d, cross_entropy, dropout,
embedding, gelu, group_norm, kl_div, layer_norm, linear, mm, rms_norm, rope, sdpa, silu, softmax}`. The functions of
these names take the arguments of PyTorch's. `add_rms_norm`,
`gated`, `rope_into_cache` and `swiglu` are one launch each for what are several operators of PyTorch's, and
`linear_cross_entropy` is a loss without logits. `register` makes an operator of a kernel of your own; `swap_modules`
puts modules that run on the operators into a model, and `register_attention` lets models of transformers ask for our
attention by name. `aoti_compile_and_package` and `aoti_load_package` are AOTInductor's, with kernels in the package.
"""

import importlib

import ninetoothed

if not hasattr(ninetoothed, "distribution"):  # which tells more
    raise ImportError(
        f"ninetoothed_ops is of the distribution `ninetoothed-torch`, and {ninetoothed.__file__} is the original"
        " implementation's (`ninetoothed`): `pip uninstall ninetoothed`, and install `ninetoothed-torch` anew"
    )

from . import (
    batching,  # noqa: F401 - registers a rule for each operator, of which modules and ops have all
    modules,
    ops,
)
from .integrations import register_attention
from .modules import *  # noqa: F403
from .ops import *  # noqa: F403
from .ops.after_import import after_import
from .packages import aoti_compile_and_package, aoti_load_package
from .registration import register

__all__ = ["aoti_compile_and_package", "aoti_load_package", "register", "register_attention"]
__all__ += modules.__all__
__all__ += ops.__all__

after_import("torch.utils.flop_counter", lambda: importlib.import_module("ninetoothed_ops.ops.flops"))
after_import("torch.distributed.tensor", lambda: importlib.import_module("ninetoothed_ops.sharding"))
