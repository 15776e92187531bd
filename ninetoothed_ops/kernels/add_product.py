"""high + low = high_before + low_before + mat1 @ mat2, for sums of products that halves must not round in between.

A sum is kept as two halves: `high` is the sum rounded to its type, `low` what that lost. Together they have twice the
bits of one (16 of bfloat16), in the memory of the result and as much again; at the end, `high` is the result.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

from . import mm
from .parameters import flags


def arrangement(mat1, mat2, high_before, low_before, high, low, is_first, is_last):
    arranged = [mm.arrangement(mat1, mat2, each) for each in (high_before, low_before, high, low)]
    (mat1_arranged, mat2_arranged, _), tiles = arranged[0], [tile for _, _, tile in arranged]

    return mat1_arranged, mat2_arranged, *tiles, is_first, is_last


def application(mat1, mat2, high_before, low_before, high, low, is_first, is_last):
    total = ntl.zeros(high.shape, dtype=ntl.float32)
    mm.application(mat1, mat2, total)

    if not is_first:
        # One after the other: both at once would take as many registers as the product.
        total += ntl.cast(high_before, ntl.float32)
        total += ntl.cast(low_before, ntl.float32)

    rounded = ntl.cast(ntl.cast(total, high.dtype), ntl.float32)
    high = rounded
    if not is_last:
        # Of an infinite sum nothing is lost; the difference would be NaN.
        low = ntl.where(total == rounded, 0.0, total - rounded)


@functools.cache
def make():
    """The kernel `(mat1, mat2, high_before, low_before, high, low, is_first, is_last)` for matrices.

    The sum may be written where it is read. Of the first product nothing is read, and of the last `low` is not written.
    """
    tensors = (*(Tensor(2) for _ in range(6)), *flags(2))

    return ninetoothed.make(arrangement, application, tensors, kernel_name="add_product")
