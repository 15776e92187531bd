"""output[i] = sum of parts[part, i] over all parts, in one order."""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, block_size

# As many parts are read at once.
PARTS = 16


def repeat(parts, output, SIZE=block_size(lower_bound=32, upper_bound=128)):
    """Arrange what gives each part the same vector, whose gradient is the sum over the parts."""
    parts = parts.tile((PARTS, SIZE))

    return parts, output.tile((SIZE,)).unsqueeze(0).expand((parts.shape[0], -1))


def application(parts, output):
    total = ntl.zeros(parts.dtype.shape, dtype=parts.dtype.dtype)

    for i in range(parts.shape[0]):
        total += parts[i]

    output = ntl.sum(total, axis=0)


@functools.cache
def make():
    """The kernel `(parts, output)` for a matrix and a vector."""
    arrangement = ninetoothed.gradient_arrangement(repeat, of="output")

    return ninetoothed.make(arrangement, application, (Tensor(2), Tensor(1)), kernel_name="sum_of_parts")
