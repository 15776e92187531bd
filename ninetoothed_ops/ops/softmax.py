"""`softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor`, as `torch.softmax`.

And `softmax_backward(Tensor grad, Tensor output, int dim, ScalarType input_dtype) -> Tensor`, its gradient.
"""

import torch

from ninetoothed.runtime import private
from ninetoothed.runtime.jagged import JaggedParts

from ..kernels import long_rows, softmax as kernels, softmax_backward as gradient_kernels
from ..nested import longest_of
from ..registration import of_file
from . import readers, softmax_jagged
from .checks import FLOATS, NUMBERS, alike, refuse
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
    self, output = _rows(dim, self, output)
    make = kernels.make if output.shape[-1] <= long_rows.LONGEST else long_rows.make_softmax
    make(output.ndim)(self, output)


def _rows(dim, *tensors):
    """View tensors with the dimension `dim` last, and as few others as may be."""
    if tensors[0].ndim == 0:
        tensors = tuple(each.unsqueeze(0) for each in tensors)
    if dim not in (-1, tensors[0].ndim - 1):
        tensors = tuple(each.movedim(dim, -1) for each in tensors)

    return coalesce(tensors, kept=1)


def setup_context(ctx, inputs, output):
    input, ctx.dim, _ = inputs
    ctx.input_dtype = input.dtype
    ctx.save_for_backward(output)


def backward(ctx, grad):
    return gradient(grad, *ctx.saved_tensors, ctx.dim, ctx.input_dtype), None, None


def namesake_of_gradient(grad, output, dim, input_dtype):
    return (output * (grad - (grad * output).sum(dim, keepdim=True))).to(input_dtype)


def allocate_gradient(grad, output, dim, input_dtype):
    ndim = max(output.ndim, 1)
    fits = grad.shape == output.shape and alike(grad, output)
    if not (fits and -ndim <= dim < ndim and input_dtype in FLOATS):
        refuse("softmax_backward", namesake_of_gradient, grad, output, dim, input_dtype)

    return torch.empty_like(output, dtype=input_dtype, memory_format=torch.contiguous_format)


def launch_gradient(input_grad, grad, output, dim, input_dtype):
    tensors = _rows(dim, grad, output, input_grad)
    is_long = tensors[0].shape[-1] > long_rows.LONGEST
    make = long_rows.make_softmax_backward if is_long else gradient_kernels.make
    make(tensors[0].ndim)(*tensors)


def setup_context_gradient(ctx, inputs, output):
    *tensors, ctx.dim, _ = inputs
    ctx.save_for_backward(*tensors)


def backward_gradient(ctx, grad_of_grad):
    grad, output = ctx.saved_tensors
    to_grad, to_output, *_ = ctx.needs_input_grad
    grad_of_grad = grad_of_grad.to(output.dtype)
    of_grad = gradient(grad_of_grad, output, ctx.dim, output.dtype) if to_grad else None

    return of_grad, _gradient_of_output(grad_of_grad, grad, output, ctx.dim) if to_output else None, None, None


def _gradient_of_output(grad_of_grad, grad, output, dim):
    def total(tensor):
        return tensor.sum(dim, keepdim=True)

    return grad_of_grad * (grad - total(grad * output)) - grad * total(grad_of_grad * output)


def of_nested(self, dim, dtype=None):
    """Compute softmax of a nested tensor: along the jagged dimension by a kernel of its own, else on the values."""
    ndim = self.dim()
    along = dim + ndim if dim < 0 else dim
    if not private.is_jagged(self) or not 0 < along < ndim:
        return torch.softmax(self, dim, dtype)
    parts = JaggedParts.of(self)
    if along != parts.dim:
        return parts.nest(operator(parts.values, along - 1, dtype))
    entries = parts.offsets, parts.lengths, longest_of("softmax", parts)
    return parts.nest(softmax_jagged.operator(parts.values, *entries, along - 1, dtype))


operator = of_file(
    "softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    globals(),
    autocast={"cuda": torch.float32}.get,
    nested=of_nested,
)
gradient = of_file(
    "softmax_backward(Tensor grad, Tensor output, int dim, ScalarType input_dtype) -> Tensor", globals(), "_gradient"
)


@readers.by_annotations()
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
        return readers.call(operator, "softmax", torch.softmax, input, dim, dtype)

    return operator(input, dim, dtype)
