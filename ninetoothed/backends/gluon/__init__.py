"""The Gluon backend: kernels whose products overlap with what lies between, in Triton's language below Triton."""

from ninetoothed.backends.gluon.kernel import print_kernel

__all__ = ["print_kernel"]
