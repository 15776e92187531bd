"""The random applications once more: as emitted Triton text, in Triton's interpreter."""

import warnings
from collections.abc import Iterator
from unittest import mock

import numpy as np
import torch

from tests.ninetoothed.backends import interpreted

from . import applications
from .parts import Case

APART = 10**6  # Other programs than those of `applications`.
FLOATS = (torch.float16, torch.float32, torch.float64)  # The interpreter has no constants of bfloat16.


def cases(seed: int) -> Iterator[Case]:
    """Check some calls of one program."""
    from triton.runtime.interpreter import InterpreterBuilder

    # Of NaN and a number Triton's compiler takes the number, its interpreter NaN.
    alike = {
        "create_minnumf": lambda self, lhs, rhs: self.binary_op(lhs, rhs, np.fmin),
        "create_maxnumf": lambda self, lhs, rhs: self.binary_op(lhs, rhs, np.fmax),
    }
    with warnings.catch_warnings(), mock.patch.multiple(InterpreterBuilder, **alike):
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of NaN and infinities.
        types = (FLOATS, applications.INTEGERS)
        yield from applications.cases(seed + APART, interpreted.interpret, types)
