"""Phases: a transposed convolution with a stride as several without one.

Along one dimension, pixel h of the images meets those weights r for which h + padding - r * dilation is a multiple of
the stride. For pixels that are a stride apart these are the same weights, equally far from each other.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Phase:
    """The pixels `pixels` of a dimension: the gradient's `grads`, padded, convolved with the weights `weights`.

    There are no weights where those pixels meet none.
    """

    pixels: slice
    weights: slice
    grads: slice
    padding: tuple[int, int]
    dilation: int

    @property
    def is_empty(self) -> bool:
        """Tell whether the pixels meet no element of the gradient."""
        return self.weights.start == self.weights.stop or self.grads.start >= self.grads.stop


def phases(size: int, grads: int, weights: int, stride: int, padding: int, dilation: int) -> Iterator[Phase]:
    """Yield the phases of a dimension of `size` pixels, of which `grads` elements of the gradient are computed."""
    apart = stride // math.gcd(stride, dilation)
    step = apart * dilation // stride
    for first in range(min(stride, size)):
        count = len(range(first, size, stride))
        own = [r for r in range(weights) if (first + padding - r * dilation) % stride == 0]
        if not own:
            yield Phase(slice(first, None, stride), slice(0, 0), slice(0, 0), (0, 0), 1)
            continue
        # The last of its weights is the first of the mirrored ones: where it meets the gradient for the first pixel.
        start = (first + padding - own[-1] * dilation) // stride
        end = start + count + (len(own) - 1) * step
        yield Phase(
            slice(first, None, stride),
            slice(own[0], own[-1] + 1, apart),
            slice(max(start, 0), min(end, grads)),
            (max(-start, 0), max(end - grads, 0)),
            step,
        )
