"""`dropout(Tensor input, float p=0.5, bool train=True) -> Tensor`, as `torch.dropout`.

It draws a seed and calls `dropout_of_seed`, which is linear, and its own gradient: of a call a number is kept, and no
mask.
"""

import torch
from torch.nn import functional

from ..kernels import dropout as kernels
from ..registration import of_file
from . import readers
from .checks import FLOATS, refuse
from .dtensors import is_dtensor
from .layout import is_contiguous
from .sdpa import new_seed


def allocate(input, p=0.5, train=True):
    _check(input, p, train)

    return torch.empty_like(input)


def launch(output, input, p=0.5, train=True):
    if train and p > 0:
        launch_of_seed(output, input, new_seed(input), p)
    else:
        output.copy_(input)


def recorded(input, p=0.5, train=True):
    """Compute the same by an operator that has a gradient."""
    _check(input, p, train)

    return operator_of_seed(input, new_seed(input), p) if train and p > 0 else input.clone()


def _check(input, p, train) -> None:
    if input.dtype not in FLOATS or not 0 <= p <= 1:
        refuse("dropout", torch.dropout, input, p, train)


def allocate_of_seed(input, seed, p):
    return torch.empty_like(input)


def launch_of_seed(output, input, seed, p):
    given = seed, p, 1 / (1 - p) if p < 1 else 0.0
    if is_contiguous(input) and is_contiguous(output):
        kernels.make_of_vectors()(input.view(-1), *given, output.view(-1))
    else:
        kernels.make(output.ndim)(input, *given, output)


def backward_of_seed(ctx, grad):
    (_, seed), (p,) = ctx.saved_tensors, ctx.options

    return operator_of_seed(grad, seed, p), None, None


def setup_context_of_seed(ctx, inputs, output):
    _, seed, p = inputs
    ctx.options = (p,)
    ctx.save_for_backward(None, seed)


operator = of_file(
    "dropout(Tensor input, float p=0.5, bool train=True) -> Tensor",
    globals(),
    tags=(torch.Tag.nondeterministic_seeded,),
)
operator_of_seed = of_file(
    "dropout_of_seed(Tensor input, Tensor seed, float p) -> Tensor", globals(), "_of_seed", recorded=None
)


@readers.by_annotations()
def dropout(input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
    """`input / (1 - p)`, with zeros in the place of elements that are chosen by chance, each with a probability of `p`.

    The arguments and errors are those of `torch.nn.functional.dropout`, as is what is drawn from: the default generator
    of the device, which `torch.manual_seed` sets, and of which a CUDA graph draws anew in each replay.
    """
    if not (type(input) in readers.PLAIN and type(p) is float and type(training) is bool):
        if readers.are_overridden(input) or is_dtensor(input):  # Of each part, PyTorch draws other numbers.
            return functional.dropout(input, p, training, inplace)
        input, p, training = readers.read("dropout", functional.dropout, input, p, training)
    if not 0 <= p <= 1:
        return functional.dropout(input, p, training, inplace)  # which raises
    if p == 0 or not training:
        return input

    return dropout_in_place(input, p) if inplace else operator(input, p)


def dropout_in_place(input: torch.Tensor, p: float) -> torch.Tensor:
    """Write dropout to its input, of which its gradient needs nothing."""
    return input.copy_(operator(input, p))
