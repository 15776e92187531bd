"""The Triton backend: a program as the readable text of a Triton kernel. It imports nothing of Triton."""

from ninetoothed.backends.triton.kernel import Emitted, KernelArgument, emit, print_kernel

__all__ = ["Emitted", "KernelArgument", "emit", "print_kernel"]
