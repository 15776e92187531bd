"""The random applications once more: as emitted Triton text, in Triton's interpreter."""

import warnings
from collections.abc import Iterator
from unittest import mock

import numpy as np
import torch

from ninetoothed.backends.torch.rounding import fma
from tests.ninetoothed.backends import interpreted

from . import applications
from .parts import Case

APART = 10**6  # Other programs than those of `applications`.
FLOATS = (torch.float16, torch.float32, torch.float64)  # The interpreter has no constants of bfloat16.


def cases(seed: int) -> Iterator[Case]:
    """Check some calls of one program."""
    with warnings.catch_warnings(), alike():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of NaN and infinities.
        types = (FLOATS, applications.INTEGERS)
        yield from applications.cases(seed + APART, interpreted.interpret, types)


def alike():
    """Let the interpreter do what GPUs do: of NaN and a number they take the number, and `fma` rounds once."""
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    def once(self, x, y, z):
        return TensorHandle(fma(*(torch.from_numpy(each.data) for each in (x, y, z))).numpy(), x.dtype.scalar)

    return mock.patch.multiple(
        InterpreterBuilder,
        create_minnumf=lambda self, lhs, rhs: self.binary_op(lhs, rhs, np.fmin),
        create_maxnumf=lambda self, lhs, rhs: self.binary_op(lhs, rhs, np.fmax),
        create_fma=once,
    )
