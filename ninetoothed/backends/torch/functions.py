"""The functions of `ir.Apply` by name: (programs, operation) -> the result, or the results where there are several."""

from __future__ import annotations

from ninetoothed.backends.torch.elementwise import ELEMENTWISE, Function
from ninetoothed.backends.torch.philox import RANDOM
from ninetoothed.backends.torch.pointers import POINTERS
from ninetoothed.backends.torch.products import dot
from ninetoothed.backends.torch.reductions import REDUCTIONS
from ninetoothed.backends.torch.shapes import SHAPES

FUNCTIONS: dict[str, Function] = {**ELEMENTWISE, **SHAPES, **REDUCTIONS, **POINTERS, **RANDOM, "dot": dot}
