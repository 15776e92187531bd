"""`embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, ...) -> Tensor`.

As `torch.embedding`. `embedding_backward` is the gradient of the weight, the same in each run.
"""

import torch
from torch.nn import functional

from ninetoothed.errors import UnsupportedError

from ..kernels import embedding as kernels, embedding_backward as gradient_kernels
from ..registration import of_file
from . import readers
from .checks import FLOATS, refuse


def allocate(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    if sparse:
        raise UnsupportedError(
            "ninetoothed::embedding has no sparse gradient; pass sparse=False, or call torch.nn.functional.embedding"
        )
    _check(weight, indices, padding_idx, scale_grad_by_freq)

    return weight.new_empty((*indices.shape, weight.shape[1]))


def _check(weight, indices, padding_idx, scale_grad_by_freq) -> None:
    are_typed = weight.dtype in FLOATS and indices.dtype in (torch.int64, torch.int32)
    if not (are_typed and weight.ndim == 2 and weight.device == indices.device):
        refuse("embedding", torch.embedding, weight, indices, padding_idx, scale_grad_by_freq)


def launch(output, weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    if not indices.is_cuda and indices.numel() and not 0 <= indices.min() <= indices.max() < weight.shape[0]:
        torch.embedding(weight, indices)  # which raises
    kernels.make()(indices.reshape(-1), weight, output.view(-1, weight.shape[1]))


def setup_context(ctx, inputs, output):
    weight, indices, *ctx.options, _ = inputs
    ctx.rows = weight.shape[0]
    ctx.save_for_backward(indices)


def backward(ctx, grad):
    return gradient(grad, *ctx.saved_tensors, ctx.rows, *ctx.options), None, None, None, None


def allocate_gradient(grad, indices, rows, padding_idx, scale_grad_by_freq):
    if not (grad.dtype in FLOATS and grad.shape[:-1] == indices.shape and grad.device == indices.device):
        raise RuntimeError(
            f"ninetoothed::embedding_backward expects a grad ({', '.join(map(str, indices.shape))}, columns) for its "
            f"indices, but got {list(grad.shape)} {grad.dtype}"
        )

    return grad.new_empty((rows, grad.shape[-1]))


def launch_gradient(output, grad, indices, rows, padding_idx, scale_grad_by_freq):
    taken, order = indices.reshape(-1).sort(stable=True)
    numbers = torch.arange(rows, dtype=taken.dtype, device=taken.device)
    starts, ends = (torch.searchsorted(taken, numbers, right=is_right) for is_right in (False, True))
    if padding_idx >= 0:
        ends[padding_idx] = starts[padding_idx]
    gradient_kernels.make()(order, starts, ends, grad.reshape(-1, grad.shape[-1]), output, scale_grad_by_freq)


def setup_context_gradient(ctx, inputs, output):
    _, indices, _, *ctx.options = inputs
    ctx.save_for_backward(indices)


def backward_gradient(ctx, grad_of_grad):
    (indices,), (padding_idx, is_mean) = ctx.saved_tensors, ctx.options
    found = operator(grad_of_grad, indices, padding_idx)
    if padding_idx >= 0:
        found = found.masked_fill((indices == padding_idx)[..., None], 0)
    if is_mean:
        counts = torch.zeros(grad_of_grad.shape[0], dtype=torch.int64, device=indices.device)
        counts = counts.index_add(0, indices.reshape(-1), torch.ones_like(indices, dtype=torch.int64).reshape(-1))
        found = found / counts[indices][..., None]

    return found, None, None, None, None


operator = of_file(
    "embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, "
    "bool sparse=False) -> Tensor",
    globals(),
)
gradient = of_file(
    "embedding_backward(Tensor grad, Tensor indices, SymInt rows, SymInt padding_idx, bool scale_grad_by_freq) "
    "-> Tensor",
    globals(),
    "_gradient",
)


@readers.by_annotations()
def embedding(
    input: torch.Tensor,
    weight: torch.Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> torch.Tensor:
    """`weight[input]`: rows of a table, by their numbers.

    The gradient adds up what a row gets in the order of its tokens, in float32 for halves, and is the same in each run.
    A number that the table does not have raises an error on the CPU, and gives NaN on a GPU. `max_norm` is PyTorch's
    own, and `sparse` raises `UnsupportedError`. The arguments and errors are otherwise those of
    `torch.nn.functional.embedding`.
    """
    if not (type(input) in readers.PLAIN and type(weight) in readers.PLAIN):
        if readers.are_overridden(input, weight):
            return functional.embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
        given = input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse
        read = readers.read("embedding", functional.embedding, *given)
        input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse = read
    rows = weight.shape[0]
    if padding_idx is not None and not -rows <= padding_idx < rows:
        return functional.embedding(input, weight, padding_idx)  # which raises
    if max_norm is not None:
        with torch.no_grad():
            torch.embedding_renorm_(weight, input.contiguous(), max_norm, norm_type)
    place = -1 if padding_idx is None else padding_idx % rows

    return operator(weight, input, place, scale_grad_by_freq, sparse)
