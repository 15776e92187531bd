"""The Triton backend: a program as the readable text of a Triton kernel. It imports nothing of Triton."""

from ninetoothed.backends.triton.context import Options
from ninetoothed.backends.triton.kernel import Emitted, KernelArgument, emit
from ninetoothed.passes.fix_up import Buffer

__all__ = ["Emitted", "KernelArgument", "Options", "Buffer", "emit"]
