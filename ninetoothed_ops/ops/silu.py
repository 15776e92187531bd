"""`silu(Tensor self) -> Tensor`, as `torch.nn.functional.silu`."""

import torch
from torch.nn import functional

from ..kernels import silu as kernels
from ..registration import register
from . import readers
from .checks import FLOATS, refuse
from .layout import coalesce, empty_elementwise


def allocate(self):
    if self.dtype not in FLOATS:
        refuse("silu", functional.silu, self)

    return empty_elementwise((self,), self.shape, self.dtype, self.device)


def launch(output, self):
    self, output = coalesce((self, output))
    kernels.make(output.ndim)(self, output)


operator = register("ninetoothed::silu(Tensor self) -> Tensor", allocate, launch, replay=True)

_READERS = {"input": readers.tensor}


def silu(input: torch.Tensor, inplace: bool = False) -> torch.Tensor:
    """`input * sigmoid(input)`, element by element; `inplace` writes it to `input`.

    The arguments and errors are those of `torch.nn.functional.silu`.
    """
    if not isinstance(input, torch.Tensor):
        (input,) = readers.read("silu", functional.silu, _READERS, input)
    output = operator(input)

    return input.copy_(output) if inplace else output
