"""NineToothed: a language for GPU kernels in which no one writes pointers or masks.

A kernel is an *arrangement*, meta-operations on symbolic tensors that cut and align the arguments into tiles, and an
*application*, serial code for one group of tiles. `make` integrates the two.
"""

from typing import TYPE_CHECKING

from ninetoothed import arrange, debugging, distribution, dtype, language, not_offered
from ninetoothed.arrangement.evaluate import eval, subs
from ninetoothed.arrangement.gradient import gradient_arrangement
from ninetoothed.arrangement.symbol import Symbol, block_size
from ninetoothed.arrangement.tensor import Tensor
from ninetoothed.build import build, load, recording
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
    AliasingWarning,
    ApplicationError,
    ArgumentError,
    ArgumentTypeError,
    ArrangementError,
    ArrangementTypeError,
    CompilationError,
    EmptyKernelWarning,
    ExecutionError,
    FusionError,
    GradientError,
    HelperAssignmentWarning,
    LoadError,
    LoopVariableWarning,
    LostGradientWarning,
    NineToothedError,
    RaceError,
    RaceWarning,
    ReorderedParametersWarning,
    ResourceError,
    SizeError,
    UnsupportedError,
    VerificationError,
    VerificationWarning,
)
from ninetoothed.fusion import fuse
from ninetoothed.make import Kernel, jit, make, tune
from ninetoothed.verification import verify

__all__ = [
    "AliasingWarning",
    "ApplicationError",
    "ArgumentError",
    "ArgumentTypeError",
    "ArrangementError",
    "ArrangementTypeError",
    "CompilationError",
    "EmptyKernelWarning",
    "ExecutionError",
    "FusionError",
    "GradientError",
    "HelperAssignmentWarning",
    "Kernel",
    "LoadError",
    "LoopVariableWarning",
    "LostGradientWarning",
    "NineToothedError",
    "RaceError",
    "RaceWarning",
    "ReorderedParametersWarning",
    "ResourceError",
    "SizeError",
    "Symbol",
    "Tensor",
    "UnsupportedError",
    "VerificationError",
    "VerificationWarning",
    "__version__",
    "arrange",
    "bfloat16",
    "block_size",
    "build",
    "debugging",
    "dtype",
    "eval",
    "float16",
    "float32",
    "float64",
    "fuse",
    "gradient_arrangement",
    "int16",
    "int32",
    "int64",
    "int8",
    "jit",
    "language",
    "load",
    "make",
    "recording",
    "subs",
    "tune",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "verify",
]


def _tensor_html(tensor: Tensor) -> str:
    """Draw a tensor for a notebook; pictures are a room below tensors."""
    from ninetoothed.visualization.notebook import tensor_html

    return tensor_html(tensor)


Tensor._repr_html_ = _tensor_html  # notebooks look for it
distribution.warn_of_the_original()
not_offered.tell_of_imports()


if TYPE_CHECKING:
    __version__: str
else:  # To a type checker, a module with `__getattr__` would have any name.

    def __getattr__(name: str) -> str:
        if name == "__version__":
            return distribution.version() or "0+unknown"
        if (found := not_offered.error(name)) is not None:
            raise found
        hint = f"; it is `ninetoothed.arrange.{name}`" if name in arrange.__all__ else ""
        raise AttributeError(f"module 'ninetoothed' has no attribute {name!r}{hint}")
