"""output = input * sigmoid(input)."""

from functools import partial

from . import activation

make = partial(activation.make, "silu")
