"""`softmax_jagged`: softmax along the jagged dimension of packed values, each entry by itself; and its gradient.

`softmax` calls it for nested tensors. Entry b is `lengths[b]` of the values along `dim` from `offsets[b]` on, or those
up to the next entry without `lengths`; the longest has `longest`.
"""

import torch

from ninetoothed.errors import ArgumentError
from ninetoothed.runtime.jagged import JaggedParts

from ..kernels import softmax_jagged as kernels
from ..registration import of_file
from .checks import FLOATS, NUMBERS, alike
from .entries import places_of


def allocate(self, offsets, lengths, longest, dim, dtype=None):
    result = self.dtype if dtype is None else dtype
    if not (0 <= dim < self.ndim and self.dtype in NUMBERS and result in FLOATS):
        raise ArgumentError(
            f"ninetoothed::softmax_jagged takes a dimension from 0 to {self.ndim - 1} and a floating type, but got "
            f"{dim} and {result}; call ninetoothed::softmax with a nested tensor"
        )

    return torch.empty_like(self, dtype=result, memory_format=torch.contiguous_format)


def launch(output, self, offsets, lengths, longest, dim, dtype=None):
    if output.numel() == 0:
        return
    is_widened = output.dtype is torch.float32 and self.dtype in (torch.float16, torch.bfloat16)
    if self.dtype is not output.dtype and not is_widened:
        self = self.to(output.dtype)  # As PyTorch does, for any type but halves.
    _run(kernels.make, (self, output), offsets, lengths, longest, dim)


def _run(make, tensors, offsets, lengths, longest, dim):
    """Run a kernel on (before, rows, after) of each tensor; the last is the result, of which nothing is left empty."""
    if lengths is not None:
        tensors[-1].zero_()
    columns = tensors[-1].shape[dim + 1 :].numel()
    parts = [
        JaggedParts(
            each.reshape(each.shape[:dim].numel(), each.shape[dim], columns), offsets, lengths, 2, longest=longest
        )
        for each in tensors
    ]
    make(min(kernels.COLUMNS, 1 << (columns - 1).bit_length()))(*parts)


def setup_context(ctx, inputs, output):
    input, offsets, lengths, ctx.longest, ctx.dim, _ = inputs
    ctx.input_dtype = input.dtype
    ctx.save_for_backward(output, offsets, lengths)


def backward(ctx, grad):
    return gradient(grad, *ctx.saved_tensors, ctx.longest, ctx.dim, ctx.input_dtype), *(None,) * 5


def allocate_gradient(grad, output, offsets, lengths, longest, dim, input_dtype):
    if not (grad.shape == output.shape and alike(grad, output) and input_dtype in FLOATS):
        raise ArgumentError(
            "ninetoothed::softmax_jagged_backward takes a grad like the output, "
            f"{list(output.shape)} of {output.dtype}, but got {list(grad.shape)} of {grad.dtype}; give it what "
            "autograd gives"
        )

    return torch.empty_like(output, dtype=input_dtype, memory_format=torch.contiguous_format)


def launch_gradient(input_grad, grad, output, offsets, lengths, longest, dim, input_dtype):
    if output.numel():
        _run(kernels.make_backward, (grad, output, input_grad), offsets, lengths, longest, dim)


def setup_context_gradient(ctx, inputs, output):
    *tensors, _, ctx.dim, _ = inputs
    ctx.save_for_backward(*tensors)


def backward_gradient(ctx, grad_of_grad):
    """Compute it in PyTorch's operations, of which sums over entries are written out."""
    grad, output, offsets, lengths = ctx.saved_tensors
    entry, _, is_inside = places_of(offsets, lengths, output.shape[ctx.dim])
    shape = [-1 if dim == ctx.dim else 1 for dim in range(output.ndim)]

    def total(tensor):
        inside = tensor.where(is_inside.view(shape), 0)
        sums = torch.zeros_like(inside.narrow(ctx.dim, 0, 1)).repeat_interleave(offsets.shape[0] - 1, ctx.dim)
        return sums.index_add(ctx.dim, entry, inside).index_select(ctx.dim, entry)

    grad_of_grad = grad_of_grad.to(output.dtype)
    of_grad = output * (grad_of_grad - total(grad_of_grad * output))
    of_output = grad_of_grad * (grad - total(grad * output)) - grad * total(grad_of_grad * output)

    return of_grad, of_output, *(None,) * 5


operator = of_file(
    "softmax_jagged(Tensor self, Tensor offsets, Tensor? lengths, SymInt longest, int dim, ScalarType? dtype=None) "
    "-> Tensor",
    globals(),
    autocast={"cuda": torch.float32}.get,
)
gradient = of_file(
    "softmax_jagged_backward(Tensor grad, Tensor output, Tensor offsets, Tensor? lengths, SymInt longest, int dim, "
    "ScalarType input_dtype) -> Tensor",
    globals(),
    "_gradient",
)
