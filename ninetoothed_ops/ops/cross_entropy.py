"""`cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, ...) -> Tensor`, as PyTorch's.

It reduces what `cross_entropy_of_rows` gives: the loss of each row, and what its gradient needs, two numbers a row.
`cross_entropy_backward` is the gradient of the inputs. Those of targets and weights, and of gradients, are written out
in PyTorch's own operations. Beyond PyTorch's arguments, `z_loss` times the square of the logarithm of the sum of
exponentials is added to each loss, and with a `softcap` inputs become softcap * tanh(input / softcap).
"""

import math
from typing import Any

import torch
from torch.nn import functional

from ninetoothed.errors import ArgumentError

from ..kernels import cross_entropy as kernels, cross_entropy_backward as gradient_kernels
from ..registration import of_file
from . import readers
from .checks import FLOATS, refuse
from .dtensors import is_dtensor
from .layout import is_channels_last, same_shape
from .rows import wide
from .written_losses import losses_of, numbers, second_gradients

# By the names of PyTorch, the numbers of its operators.
REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}
_NONE, _MEAN, _SUM = REDUCTIONS.values()


def allocate(
    self, target, weight=None, reduction=_MEAN, ignore_index=-100, label_smoothing=0.0, z_loss=0.0, softcap=None
):
    _check(self, target, weight, reduction, ignore_index, label_smoothing, z_loss, softcap)
    shape = _shape_of_rows(self) if reduction == _NONE else ()

    return self.new_empty(shape, dtype=_result_type(self, target))


def launch(
    output, self, target, weight=None, reduction=_MEAN, ignore_index=-100, label_smoothing=0.0, z_loss=0.0, softcap=None
):
    arguments = self, target, weight, ignore_index, label_smoothing, z_loss, softcap
    found = allocate_of_rows(*arguments)
    launch_of_rows(found, *arguments)
    output.copy_(reduced(found[0], target, weight, reduction, ignore_index))


def recorded(
    self, target, weight=None, reduction=_MEAN, ignore_index=-100, label_smoothing=0.0, z_loss=0.0, softcap=None
):
    _check(self, target, weight, reduction, ignore_index, label_smoothing, z_loss, softcap)
    losses, _, _ = operator_of_rows(self, target, weight, ignore_index, label_smoothing, z_loss, softcap)

    return reduced(losses, target, weight, reduction, ignore_index).to(_result_type(self, target))


def _result_type(self, target) -> torch.dtype:
    return torch.promote_types(self.dtype, target.dtype) if target.is_floating_point() else self.dtype


def _check(self, target, weight, reduction, ignore_index, label_smoothing, z_loss, softcap) -> None:
    """Raise what PyTorch raises for arguments that do not fit together."""
    check_options("cross_entropy", z_loss, softcap)
    is_soft, of_rows = target.is_floating_point(), _shape_of_rows(self)
    shape = self.shape if is_soft else of_rows
    are_typed = self.dtype in FLOATS and (not is_soft or ignore_index < 0 and wide(self) is wide(target))
    fits = self.ndim > 0 and same_shape(target.shape, shape) and self.device == target.device
    if not (
        fits
        and are_typed
        and is_soft | (target.dtype in (torch.int64, torch.uint8))
        and reduction in REDUCTIONS.values()
        and 0 <= label_smoothing <= 1
        and weights_fit(weight, self, self.shape[min(1, self.ndim - 1)])
    ):
        named = {number: name for name, number in REDUCTIONS.items()}.get(reduction, reduction)
        options = {"ignore_index": ignore_index, "reduction": named, "label_smoothing": label_smoothing}
        refuse("cross_entropy", functional.cross_entropy, self, target, weight=weight, **options)


def check_options(name, z_loss, softcap) -> None:
    """Check the options that PyTorch has not."""
    if not (0.0 <= z_loss < float("inf") and (softcap is None or 0.0 < softcap < float("inf"))):
        raise ArgumentError(
            f"ninetoothed::{name} takes a z_loss of 0 or more, and a finite softcap above zero or None, but got "
            f"z_loss={z_loss}, softcap={softcap}"
        )


def weights_fit(weight, self, classes) -> bool:
    """Tell whether there is a weight for each class, in a type in which rows can be computed, or none."""
    if weight is None:
        return True
    fits = weight.ndim == 1 and same_shape(weight.shape, (classes,)) and weight.device == self.device

    return fits and weight.dtype in FLOATS and wide(weight) is wide(self)


def reduced(losses, target, weight, reduction, ignore_index) -> torch.Tensor:
    """Reduce losses of rows as PyTorch does: a mean is by the weights of the targets, or the rows of probabilities."""
    if reduction == _NONE:
        return losses
    if reduction == _SUM:
        return losses.sum()

    return losses.sum() / total_of(target, weight, ignore_index, losses)


def total_of(target, weight, ignore_index, losses) -> torch.Tensor:
    """Add up what the losses of rows count in their mean."""
    if target.is_floating_point():
        return losses.new_full((), losses.numel())
    is_kept = target != ignore_index
    if weight is None:
        return is_kept.sum()

    return torch.where(is_kept, weight[target.long().clamp(0, weight.shape[0] - 1)].to(losses.dtype), 0).sum()


def _shape_of_rows(self) -> tuple:
    return (*self.shape[:1], *self.shape[2:]) if self.ndim > 1 else ()


def allocate_of_rows(self, target, weight, ignore_index, label_smoothing, z_loss, softcap):
    return tuple(self.new_empty(_shape_of_rows(self), dtype=wide(self)) for _ in range(3))


def launch_of_rows(outputs, self, target, weight, ignore_index, label_smoothing, z_loss, softcap):
    check_classes(target, self.shape[min(1, self.ndim - 1)], ignore_index)
    rows = as_rows(self)
    classes, results = rows.shape[-1], [each.view(-1) for each in outputs]
    weight, flags = given(weight, label_smoothing, softcap, z_loss, classes, self)
    keep, spread, softcap, z_loss = numbers(label_smoothing, classes, softcap, z_loss)
    if target.is_floating_point():
        kernel = kernels.make_of_probabilities(rows.ndim, kernels.chunk_of(classes))
        is_weighted, _, is_capped, is_squared = flags
        others = is_weighted, is_capped, is_squared
        kernel(rows, as_rows(target), weight, keep, spread, softcap, z_loss, *results, *others)
        return
    total = spread_over(weight, spread, classes, flags)
    kernel = kernels.make(rows.ndim, kernels.chunk_of(classes))
    kernel(rows, as_vector(target), weight, ignore_index, keep, spread, total, softcap, z_loss, *results, *flags)


def check_classes(target, classes, ignore_index) -> None:
    """Raise PyTorch's error for a target that is no class; a GPU would have to be waited for, and gives NaN."""
    if target.is_floating_point() or target.device.type != "cpu":
        return
    is_wrong = ((target < 0) | (target >= classes)) & (target != ignore_index)
    if is_wrong.any():
        raise IndexError(f"Target {target[is_wrong][0].item()} is out of bounds.")


def as_rows(tensor: torch.Tensor) -> torch.Tensor:
    """View inputs with the classes last, in two dimensions or three."""
    if tensor.ndim < 3:
        return tensor if tensor.ndim == 2 else tensor[None]

    return tensor.reshape(*tensor.shape[:2], math.prod(tensor.shape[2:])).transpose(1, 2)


def as_vector(target: torch.Tensor) -> torch.Tensor:
    """Classes as the kernels take them."""
    return target.reshape(-1).to(torch.int64)


def given(weight, label_smoothing, softcap, z_loss, classes, self) -> tuple[torch.Tensor, tuple[bool, ...]]:
    """Return weights, not read where there are none, and tell what is given: weights, a spread, a softcap, a z_loss."""
    flags = weight is not None, label_smoothing > 0, softcap is not None, z_loss > 0

    return self.new_empty(classes) if weight is None else weight, flags


def spread_over(weight, spread, classes, flags) -> torch.Tensor | float:
    """Add up the shares that all classes have in a row."""
    is_weighted, is_smoothed, *_ = flags

    return spread * weight.sum(dtype=wide(weight)) if is_weighted and is_smoothed else spread * classes


def setup_context_of_rows(ctx, inputs, output):
    *tensors, ignore_index, label_smoothing, z_loss, softcap = inputs
    ctx.options = ignore_index, label_smoothing, z_loss, softcap
    ctx.mark_non_differentiable(*output[1:])
    ctx.save_for_backward(*tensors, *output[1:])


def backward_of_rows(ctx, grad, *_):
    self, target, weight, lse, mass = ctx.saved_tensors
    to_self, to_target, to_weight, *_ = ctx.needs_input_grad
    of_self = gradient(grad, self, target, weight, lse, mass, *ctx.options) if to_self else None
    of_others = [None, None]
    for place, is_needed in enumerate((to_target, to_weight)):
        if is_needed:
            others = [target, weight]

            def formula(value, others=others, place=place):
                given = *others[:place], value, *others[place + 1 :]
                return losses_of(self, *given, *ctx.options)

            (of_others[place],) = torch.func.vjp(formula, others[place])[1](grad)

    return of_self, *of_others, *(None,) * 4


def allocate_gradient(grad, self, target, weight, lse, mass, ignore_index, label_smoothing, z_loss, softcap):
    is_dense = self.ndim < 3 or is_channels_last(self)

    return torch.empty_like(self, memory_format=torch.preserve_format if is_dense else torch.contiguous_format)


def launch_gradient(
    input_grad, grad, self, target, weight, lse, mass, ignore_index, label_smoothing, z_loss, softcap
):  # fmt: skip
    rows, grad_rows = as_rows(self), as_rows(input_grad)
    classes, of_rows = rows.shape[-1], [each.reshape(-1) for each in (grad, lse, mass)]
    weight, flags = given(weight, label_smoothing, softcap, z_loss, classes, self)
    keep, spread, softcap, z_loss = numbers(label_smoothing, classes, softcap, z_loss)
    grad, *kept = of_rows
    if target.is_floating_point():
        kernel = gradient_kernels.make_of_probabilities(rows.ndim, kernels.chunk_of(classes))
        is_weighted, _, is_capped, is_squared = flags
        others = is_weighted, is_capped, is_squared
        kernel(grad, rows, as_rows(target), weight, keep, spread, softcap, z_loss, *kept, grad_rows, *others)
        return
    kernel = gradient_kernels.make(rows.ndim, kernels.chunk_of(classes))
    named = as_vector(target), weight, ignore_index, keep, spread, softcap, z_loss
    kernel(grad, rows, *named, *kept, 0, classes, grad_rows, *flags)


def setup_context_gradient(ctx, inputs, output):
    grad, self, target, weight, _, _, *ctx.options = inputs
    ctx.save_for_backward(grad, self, target, weight)


def backward_gradient(ctx, grad_of_grad):
    grad, self, target, weight = ctx.saved_tensors
    found = second_gradients(losses_of, (self, target, weight), ctx.options, grad, [grad_of_grad], [True])
    of_grad, of_self, of_target, of_weight = found

    return of_grad, of_self, of_target, of_weight, *(None,) * 6


operator = of_file(
    "cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100, "
    "float label_smoothing=0.0, float z_loss=0.0, float? softcap=None) -> Tensor",
    globals(),
    autocast={"cuda": torch.float32, "cpu": torch.float32}.get,
)
operator_of_rows = of_file(
    "cross_entropy_of_rows(Tensor self, Tensor target, Tensor? weight, SymInt ignore_index, float label_smoothing, "
    "float z_loss, float? softcap) -> (Tensor, Tensor, Tensor)",
    globals(),
    "_of_rows",
    recorded=None,
)
gradient = of_file(
    "cross_entropy_backward(Tensor grad, Tensor self, Tensor target, Tensor? weight, Tensor lse, Tensor mass, "
    "SymInt ignore_index, float label_smoothing, float z_loss, float? softcap) -> Tensor",
    globals(),
    "_gradient",
    recorded=None,
)


@readers.by_annotations()
def cross_entropy(
    input: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    z_loss: float = 0.0,
    softcap: float | None = None,
) -> torch.Tensor:
    """`log(sum(exp(input))) - input[target]` along the classes, which are dimension 1 (0 of a vector), reduced.

    `z_loss` times the square of that logarithm is added to each loss; with a `softcap`, above zero, the logits are
    softcap * tanh(input / softcap). Neither applies to rows whose target is `ignore_index`. The other arguments and
    errors are those of `torch.nn.functional.cross_entropy`.
    """
    if size_average is not None or reduce is not None:
        reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
    are_tensors = type(input) in readers.PLAIN and type(target) in readers.PLAIN
    are_read = type(weight) in readers.PLAIN_OR_NONE and type(ignore_index) is int and type(label_smoothing) is float
    if not (are_tensors and are_read and reduction in REDUCTIONS):
        named: dict[str, Any] = {"ignore_index": ignore_index, "reduction": reduction}
        named["label_smoothing"] = label_smoothing
        if z_loss == 0.0 and softcap is None and readers.are_overridden(input, target, weight):
            return functional.cross_entropy(input, target, weight, **named)
        if reduction not in REDUCTIONS:
            return functional.cross_entropy(input, target, weight, **named)  # which raises
        given = {"weight": weight, "ignore_index": ignore_index, "label_smoothing": label_smoothing}
        read = readers.read("cross_entropy", functional.cross_entropy, input=input, target=target, **given)
        input, target, weight, ignore_index, label_smoothing = read
    if type(z_loss) is not float or softcap is not None:
        z_loss, softcap = readers.read("cross_entropy", None, z_loss=z_loss, softcap=softcap)

    options = REDUCTIONS[reduction], ignore_index, label_smoothing, z_loss, softcap
    if not is_dtensor(input):
        return operator(input, target, weight, *options)
    is_class_sharded = any(each.is_shard(min(1, input.ndim - 1)) for each in input.placements)  # type: ignore[attr-defined]
    if is_class_sharded and z_loss == 0.0 and softcap is None:
        # Within `loss_parallel`, PyTorch's moves two numbers a row, and not the row.
        named = {"ignore_index": ignore_index, "reduction": reduction, "label_smoothing": label_smoothing}
        return functional.cross_entropy(input, target, weight, **named)
    # The mean is of rows that other processes have, too: PyTorch reduces.
    return recorded(input, target, weight, *options)
