"""The same backend in Gluon, Triton's language below Triton: kernels whose products overlap with what lies between."""

from ninetoothed.backends.triton.gluon.kernel import print_kernel

__all__ = ["print_kernel"]
