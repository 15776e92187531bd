"""`softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor`, as `torch.softmax`."""

import torch

from ..kernels import long_rows, softmax as kernels
from ..registration import register
from . import readers, softmax_backward
from .checks import FLOATS, NUMBERS, refuse
from .layout import coalesce


def allocate(self, dim, dtype=None):
    ndim = max(self.ndim, 1)
    result = self.dtype if dtype is None else dtype
    if not (-ndim <= dim < ndim and self.dtype in NUMBERS and result in FLOATS):
        refuse("softmax", torch.softmax, self, dim, dtype=dtype, dtypes=NUMBERS)

    return torch.empty_like(self, dtype=result, memory_format=torch.contiguous_format)


def launch(output, self, dim, dtype=None):
    is_widened = output.dtype is torch.float32 and self.dtype in (torch.float16, torch.bfloat16)
    if self.dtype is not output.dtype and not is_widened:
        # The kernel computes halves in float32 as it is; any other type is converted first, as PyTorch does.
        self = self.to(output.dtype)
    if output.ndim == 0:
        self, output = self.unsqueeze(0), output.unsqueeze(0)

    if dim not in (-1, output.ndim - 1):
        self, output = self.movedim(dim, -1), output.movedim(dim, -1)

    self, output = coalesce((self, output), kept=1)
    make = kernels.make if output.shape[-1] <= long_rows.LONGEST else long_rows.make_softmax
    make(output.ndim)(self, output)


def setup_context(ctx, inputs, output):
    input, ctx.dim, _ = inputs
    ctx.input_dtype = input.dtype
    ctx.save_for_backward(output)


def backward(ctx, grad):
    return softmax_backward.operator(grad, *ctx.saved_tensors, ctx.dim, ctx.input_dtype), None, None


operator = register(
    "ninetoothed::softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    allocate,
    launch,
    backward=backward,
    setup_context=setup_context,
    replay=True,
    autocast={"cuda": torch.float32}.get,
)

_READERS = {"input": readers.tensor, "dim": readers.integer, "dtype": readers.optional(readers.scalar_type)}


def softmax(
    input: torch.Tensor,
    dim: int = ...,  # type: ignore[assignment]  # required, and may be named `axis`
    dtype: torch.dtype | None = None,
    *,
    axis: int | None = None,
    _stacklevel: int = 3,
) -> torch.Tensor:
    """Exponentials that add up to 1 along `dim`, computed on `input` converted to `dtype` where that is given.

    The arguments and errors are those of `torch.softmax`, without `out`; `dim` is required, and may be named `axis`, as
    there. `_stacklevel`, of `torch.nn.functional.softmax`, tells nothing.
    """
    if dim is ...:
        if axis is None:
            refuse("softmax", torch.softmax, input)
        dim, axis = axis, None
    if axis is not None:
        refuse("softmax", torch.softmax, input, dim, axis=axis)
    is_type = dtype is None or isinstance(dtype, torch.dtype)
    if not (type(input) in readers.PLAIN and type(dim) is int and is_type):
        if readers.are_overridden(input):
            return torch.softmax(input, dim, dtype)
        input, dim, dtype = readers.read("softmax", torch.softmax, _READERS, input, dim, dtype)

    return operator(input, dim, dtype)
