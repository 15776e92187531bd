"""NineToothed: a language for GPU kernels in which no one writes pointers or masks.

A kernel is an *arrangement* (meta-operations on symbolic tensors that cut and align the arguments into tiles) and an
*application* (what is done with one group of tiles, as if serial); `make` integrates the two.
"""

import importlib

from ninetoothed import language
from ninetoothed.dtypes import (
    bfloat16,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from ninetoothed.errors import (
    ApplicationError,
    ArgumentError,
    ArgumentTypeError,
    ArrangementError,
    AssemblerError,
    CompilationError,
    EmptyKernelWarning,
    ExecutionError,
    NineToothedError,
    RaceError,
    ResourceError,
    SizeError,
    UnsupportedError,
)
from ninetoothed.evaluate import eval, subs
from ninetoothed.make import Kernel, jit, make, tune
from ninetoothed.symbol import Symbol, block_size
from ninetoothed.tensor import Tensor

__all__ = [
    "ApplicationError",
    "ArgumentError",
    "ArgumentTypeError",
    "ArrangementError",
    "AssemblerError",
    "CompilationError",
    "EmptyKernelWarning",
    "ExecutionError",
    "Kernel",
    "NineToothedError",
    "RaceError",
    "ResourceError",
    "SizeError",
    "Symbol",
    "Tensor",
    "UnsupportedError",
    "__version__",
    "bfloat16",
    "block_size",
    "eval",
    "float16",
    "float32",
    "float64",
    "int16",
    "int32",
    "int64",
    "int8",
    "jit",
    "language",
    "make",
    "subs",
    "tune",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
]


class _NotOfferedYet(UnsupportedError, AttributeError):
    """A name of the language that this version lacks; an AttributeError too, so that `hasattr` tells."""


def _version():
    """Return the version that is installed; of a clone that is only on the path, "0+unknown"."""
    from importlib import metadata

    try:
        return metadata.version("ninetoothed")
    except metadata.PackageNotFoundError:
        return "0+unknown"


def __getattr__(name):
    if name == "__version__":
        return _version()
    if name in ("build", "debugging", "visualization"):
        try:
            importlib.import_module(f"ninetoothed.{name}")
        except UnsupportedError as error:
            raise _NotOfferedYet(str(error)) from None
    raise AttributeError(f"module 'ninetoothed' has no attribute {name!r}")
