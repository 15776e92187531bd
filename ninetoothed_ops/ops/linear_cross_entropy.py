"""`linear_cross_entropy(Tensor input, Tensor weight, Tensor target, Tensor? bias=None, ...) -> Tensor`.

The cross-entropy of `input @ weight^T + bias` without its logits: see `blocks_of_logits`. Where a gradient will be
needed, `linear_cross_entropy_with_gradients` computes it beside the loss, for a gradient of 1, and the backward scales
it. What cannot be done so is done in two steps: `linear_cross_entropy_of_rows` keeps two numbers a row, and
`linear_cross_entropy_backward` computes the logits once more.
"""

import torch
from torch.nn import functional

from ninetoothed.errors import ArgumentError
from ninetoothed.runtime import private, private_dispatch

from ..kernels import scaled
from ..registration import of_file
from . import readers
from .blocks_of_logits import Begun, Operands, begin, gradients, loss_and_gradients, losses
from .checks import alike, check_product, check_supported
from .cross_entropy import (
    REDUCTIONS,
    check_classes,
    check_options,
    reduced,
    total_of,
    weights_fit,
)
from .dtensors import is_dtensor
from .layout import same_shape
from .linear import rows_of
from .rows import empty_where, wide
from .written_losses import losses_of, second_gradients

MEMORY = ("block", "least")
_NONE, _MEAN, _SUM = REDUCTIONS.values()


def allocate(
    input, weight, target, bias=None, class_weight=None, reduction=_MEAN, ignore_index=-100, label_smoothing=0.0,
    z_loss=0.0, softcap=None, memory="block",
):  # fmt: skip
    _check(input, weight, target, bias, class_weight, reduction, label_smoothing, z_loss, softcap, memory)

    return input.new_empty(input.shape[:-1] if reduction == _NONE else (), dtype=wide(input))


def launch(
    output, input, weight, target, bias=None, class_weight=None, reduction=_MEAN, ignore_index=-100,
    label_smoothing=0.0, z_loss=0.0, softcap=None, memory="block",
):  # fmt: skip
    arguments = input, weight, target, bias, class_weight, ignore_index, label_smoothing, z_loss, softcap
    found = allocate_of_rows(*arguments)
    launch_of_rows(found, *arguments)
    output.copy_(reduced(found[0], target, class_weight, reduction, ignore_index))


def recorded(
    input, weight, target, bias=None, class_weight=None, reduction=_MEAN, ignore_index=-100, label_smoothing=0.0,
    z_loss=0.0, softcap=None, memory="block",
):  # fmt: skip
    tensors, options = (input, weight, target, bias, class_weight), (ignore_index, label_smoothing, z_loss, softcap)
    return _recorded(_are_unseen(*tensors), *tensors, reduction, options, memory)


def _are_unseen(*tensors) -> bool:
    """Tell whether nobody would see what operators are called: a GPU need not wait for their dispatch."""
    given = [each for each in tensors if each is not None]
    has_kernels = tensors[0].is_cuda or tensors[0].is_cpu
    is_seen = private.is_profiled() or not all(is_ours() for is_ours in _ours)

    return has_kernels and not is_seen and private.is_plain(*given)


def _recorded(are_unseen, input, weight, target, bias, class_weight, reduction, options, memory):
    ignore_index, label_smoothing, z_loss, softcap = options
    _check(input, weight, target, bias, class_weight, reduction, label_smoothing, z_loss, softcap, memory)
    arguments = input, weight, target, bias, class_weight
    if reduction == _MEAN and is_dtensor(input):
        # A process has some of the rows, and sums of parts can be added up.
        total = _recorded(are_unseen, *arguments, _SUM, options, memory)
        return total / total_of(target, class_weight, ignore_index, total)
    # What is scaled in a backward must be known before: of float16, whose small numbers would be lost, it is not, nor
    # under transforms, which may ask for gradients of gradients.
    is_transformed = private.has_transforms() or private.may_have_tangents()
    is_apart = memory == "least" or reduction == _NONE or input.dtype is torch.float16 or is_transformed
    if is_apart or class_weight is not None and class_weight.requires_grad:
        found, _, _ = operator_of_rows(*arguments, *options)
        return reduced(found, target, class_weight, reduction, ignore_index)
    needed = [each is not None and each.requires_grad for each in (input, weight, bias)]

    return (_at_once if are_unseen else with_gradients)(*arguments, reduction, *options, needed)[0]


def _check(input, weight, target, bias, class_weight, reduction, label_smoothing, z_loss, softcap, memory) -> None:
    name = "linear_cross_entropy"
    check_supported(name, (input, weight, bias, class_weight))
    check_options(name, z_loss, softcap)
    fits = input.ndim > 0 and weight.ndim == 2 and same_shape(input.shape[-1:], weight.shape[1:])
    fits = fits and same_shape(target.shape, input.shape[:-1]) and target.dtype in (torch.int64, torch.uint8)
    fits = fits and (bias is None or same_shape(bias.shape, weight.shape[:1]) and alike(input, bias))
    if not (fits and alike(input, weight) and target.device == input.device):
        bias_of = "" if bias is None else f" and a bias like {list(bias.shape)} {bias.dtype}"
        raise ArgumentError(
            f"ninetoothed::{name} takes an input (..., depth), a weight (classes, depth), a bias (classes,) or None, "
            f"all of one type, and a target (...) of int64 or uint8 that names classes, on one device, but got "
            f"{list(input.shape)} {input.dtype}, {list(weight.shape)} {weight.dtype}{bias_of} on {input.device}, and "
            f"{list(target.shape)} {target.dtype} on {target.device}; for probabilities call cross_entropy of logits"
        )
    if not weights_fit(class_weight, input, weight.shape[0]):
        raise ArgumentError(
            f"ninetoothed::{name} takes a class_weight ({weight.shape[0]},) of a floating type on {input.device}, but "
            f"got {list(class_weight.shape)} {class_weight.dtype} on {class_weight.device}"
        )
    if not (reduction in REDUCTIONS.values() and 0 <= label_smoothing <= 1 and memory in MEMORY):
        raise ArgumentError(
            f"ninetoothed::{name} takes a reduction of {', '.join(REDUCTIONS)}, a label_smoothing from 0 to 1 and a "
            f"memory of {' or '.join(MEMORY)}, but got {reduction}, {label_smoothing} and {memory!r}"
        )
    check_product(name, input)


def _operands(input, weight, target, bias, class_weight, *options) -> Operands:
    return Operands(rows_of(input), weight, bias, target, class_weight, *options)


def allocate_of_rows(input, weight, target, bias, class_weight, ignore_index, label_smoothing, z_loss, softcap):
    return tuple(input.new_empty(input.shape[:-1], dtype=wide(input)) for _ in range(3))


def launch_of_rows(outputs, input, weight, target, bias, class_weight, ignore_index, *options):
    check_classes(target, weight.shape[0], ignore_index)
    given = _operands(input, weight, target, bias, class_weight, ignore_index, *options)
    losses(given, *(each.view(-1) for each in outputs))


def setup_context_of_rows(ctx, inputs, output):
    *tensors, ignore_index, label_smoothing, z_loss, softcap = inputs
    ctx.options = ignore_index, label_smoothing, z_loss, softcap
    ctx.mark_non_differentiable(*output[1:])
    ctx.save_for_backward(*tensors, *output[1:])


def backward_of_rows(ctx, grad, *_):
    input, weight, target, bias, class_weight, lse, mass = ctx.saved_tensors
    to_input, to_weight, _, to_bias, to_classes, *_ = ctx.needs_input_grad
    needed = [to_input, to_weight, bool(to_bias)]
    found = gradient(grad, input, weight, target, bias, class_weight, lse, mass, *ctx.options, needed)
    of_input, of_weight, of_bias = (each if is_needed else None for each, is_needed in zip(found, needed))
    of_classes = None
    if to_classes:

        def formula(value):
            return _written_out(input, weight, bias, target, value, *ctx.options)

        (of_classes,) = torch.func.vjp(formula, class_weight)[1](grad)

    return of_input, of_weight, None, of_bias, of_classes, *(None,) * 4


def _written_out(input, weight, bias, target, class_weight, *options) -> torch.Tensor:
    """Write out the losses of rows in PyTorch's operations, logits and all."""
    input, weight, bias = (None if each is None else each.to(wide(input)) for each in (input, weight, bias))
    logits = functional.linear(rows_of(input), weight, bias)

    return losses_of(logits, target.reshape(-1), class_weight, *options).view(target.shape)


def allocate_gradient(
    grad, input, weight, target, bias, class_weight, lse, mass, ignore_index, label_smoothing, z_loss, softcap, needed
):
    return empty_where(needed, input, weight, bias)


def launch_gradient(outputs, grad, input, weight, target, bias, class_weight, lse, mass, *others):
    *options, needed = others
    given, of_rows = _operands(input, weight, target, bias, class_weight, *options), (grad, lse, mass)
    of_input, of_weight, of_bias = outputs
    found = rows_of(of_input) if needed[0] else of_input, of_weight, of_bias
    grad, lse, mass = (each.reshape(-1) for each in of_rows)
    gradients(given, grad, lse, mass, found, needed)


def setup_context_gradient(ctx, inputs, output):
    grad, input, weight, target, bias, class_weight, _, _, *options = inputs
    *ctx.options, ctx.needed = options
    ctx.save_for_backward(grad, input, weight, target, bias, class_weight)


def backward_gradient(ctx, *grads):
    grad, input, weight, target, bias, class_weight = ctx.saved_tensors
    tensors = input, weight, bias, target, class_weight
    found = second_gradients(_written_out, tensors, ctx.options, grad, grads, ctx.needed)
    of_grad, of_input, of_weight, of_bias, _, of_classes = found

    return of_grad, of_input, of_weight, None, of_bias, of_classes, *(None,) * 7


def allocate_with_gradients(input, weight, target, bias, class_weight, reduction, *options):
    *_, needed = options

    return input.new_empty((), dtype=wide(input)), *empty_where(needed, input, weight, bias)


def launch_with_gradients(outputs, *args):
    _finish(_begin(*args), outputs, *args)


def _begin(input, weight, target, bias, class_weight, reduction, ignore_index, *options) -> Begun:
    check_classes(target, weight.shape[0], ignore_index)
    *rest, needed = options

    return begin(_operands(input, weight, target, bias, class_weight, ignore_index, *rest), needed)


def _finish(begun, outputs, input, weight, target, bias, class_weight, reduction, *options):
    (loss, of_input, *others), needed = outputs, options[-1]
    found = rows_of(of_input) if needed[0] else of_input, *others
    loss_and_gradients(begun, reduction == _MEAN, loss, found, needed)


def setup_context_with_gradients(ctx, inputs, output):
    *tensors, ctx.reduction, ignore_index, label_smoothing, z_loss, softcap, ctx.needed = inputs
    ctx.options, found = (ignore_index, label_smoothing, z_loss, softcap), output[1:]
    ctx.mark_non_differentiable(*found)
    # Else autograd makes zeros as large as the weight, for outputs that get no gradient.
    ctx.set_materialize_grads(False)
    # Given away by the first backward, which scales them in place. Compilers see no memory of others in a context.
    is_plain = all(type(each) in readers.PLAIN and not each.is_meta for each in (*output, *tensors[:2]))
    ctx.found = found if is_plain else None
    ctx.save_for_backward(*tensors, *(() if is_plain else found))


def backward_with_gradients(ctx, grad, *_):
    if grad is None:
        return (None,) * 11
    saved = ctx.saved_tensors if ctx.found is None else ()
    kept, tensors = saved[5:] or ctx.found, saved[:5]
    if kept is None or torch.is_grad_enabled():
        found = _once_more(tensors or ctx.saved_tensors, ctx, grad)
    elif saved or private.may_have_tangents() or private.count_dispatch_modes():
        found = [(each * grad).to(each.dtype) for each in kept]
    else:
        found, ctx.found = kept, None
        for each, is_needed in zip(found, ctx.needed):
            if is_needed:
                scaled.make()(each.view(-1), grad)
    of_input, of_weight, of_bias = (each if is_needed else None for each, is_needed in zip(found, ctx.needed))

    return of_input, of_weight, None, of_bias, None, *(None,) * 6


def _once_more(tensors, ctx, grad):
    """Compute gradients, which have gradients, by what is slower: a second backward may ask, or one of a backward."""
    input, weight, target, bias, class_weight = tensors
    with torch.no_grad():
        losses, lse, mass = operator_of_rows(*tensors, *ctx.options)
    if ctx.reduction == _MEAN:
        grad = grad / total_of(target, class_weight, ctx.options[0], losses)

    return gradient(
        grad.expand(losses.shape), input, weight, target, bias, class_weight, lse, mass, *ctx.options, ctx.needed
    )


autocast = torch.get_autocast_dtype
_TENSORS = "Tensor input, Tensor weight, Tensor target, Tensor? bias, Tensor? class_weight"
_OPTIONS = "SymInt ignore_index, float label_smoothing, float z_loss, float? softcap"
operator = of_file(
    "linear_cross_entropy(Tensor input, Tensor weight, Tensor target, Tensor? bias=None, Tensor? class_weight=None, "
    "int reduction=1, SymInt ignore_index=-100, float label_smoothing=0.0, float z_loss=0.0, float? softcap=None, "
    "str memory='block') -> Tensor",
    globals(),
)
operator_of_rows = of_file(
    f"linear_cross_entropy_of_rows({_TENSORS}, {_OPTIONS}) -> (Tensor, Tensor, Tensor)",
    globals(),
    "_of_rows",
    recorded=None,
)
gradient = of_file(
    "linear_cross_entropy_backward(Tensor grad, Tensor input, Tensor weight, Tensor target, Tensor? bias, "
    f"Tensor? class_weight, Tensor lse, Tensor mass, {_OPTIONS}, bool[3] needed) -> (Tensor, Tensor, Tensor)",
    globals(),
    "_gradient",
    recorded=None,
    autocast=None,
)
with_gradients = of_file(
    f"linear_cross_entropy_with_gradients({_TENSORS}, int reduction, {_OPTIONS}, bool[3] needed) "
    "-> (Tensor, Tensor, Tensor, Tensor)",
    globals(),
    "_with_gradients",
    recorded=None,
)


class _AtOnce(private.FunctionOfOneLevel):
    """`with_gradients` of plain tensors, past the dispatcher: the first product is launched before all else."""

    @staticmethod
    def forward(ctx, *args):
        begun = _begin(*args)
        outputs = allocate_with_gradients(*args)
        _finish(begun, outputs, *args)
        setup_context_with_gradients(ctx, args, outputs)
        return outputs

    @staticmethod
    def backward(ctx, *grads):
        return backward_with_gradients(ctx, *grads)


_ours = [
    private_dispatch.has_ours_alone(f"ninetoothed::{name}", private_dispatch.PLAIN)
    for name in ("linear_cross_entropy", "linear_cross_entropy_with_gradients")
]
# Graphs show the operator's name.
_at_once = type("linear_cross_entropy_with_gradients_default", (_AtOnce,), {}).apply  # type: ignore[attr-defined]


def _may_be_direct() -> bool:
    """Tell whether nothing but the arguments of a call asks for the dispatcher, and gradients are recorded."""
    # Dynamo takes the first for True, and traces no more than the operator.
    is_traced = torch.compiler.is_dynamo_compiling() or private_dispatch.tracing_state() is not None

    return not (is_traced or private.count_function_modes()) and torch.is_grad_enabled()


@readers.by_annotations()
def linear_cross_entropy(
    input: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    bias: torch.Tensor | None = None,
    class_weight: torch.Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    softcap: float | None = None,
    memory: str = "block",
) -> torch.Tensor:
    """`cross_entropy(input @ weight.T + bias, target)`, with no more than a block of the logits in memory.

    input: (..., depth); weight: (classes, depth); target: (...), of int64, which names classes; bias: (classes,). The
    options are those of `cross_entropy`, whose `weight` is here `class_weight`.
    The loss of halves is of float32.

    memory: "block" for three products in all, with the gradients computed beside the loss, and blocks of logits of a
    GiB at most; where there are several, a weight's gradient in halves takes as much memory again, and is rounded once.
    Logits of which blocks would not save a fifth of the memory are not cut.
    "least" for a fourth product in the backward and a quarter of a GiB. float16 and the reduction "none" have the
    fourth product too.
    """
    are_tensors = type(input) in readers.PLAIN and type(weight) in readers.PLAIN and type(target) in readers.PLAIN
    are_tensors = are_tensors and type(bias) in readers.PLAIN_OR_NONE and type(class_weight) in readers.PLAIN_OR_NONE
    are_numbers = type(ignore_index) is int and type(label_smoothing) is type(z_loss) is float
    if are_tensors and are_numbers and (softcap is None or type(softcap) is float) and type(memory) is str:
        if reduction in REDUCTIONS:
            tensors = input, weight, target, bias, class_weight
            options = ignore_index, label_smoothing, z_loss, softcap
            if _may_be_direct() and private.any_requires_grad(*tensors) and _are_unseen(*tensors):
                return _recorded(True, *tensors, REDUCTIONS[reduction], options, memory)
            return operator(*tensors, REDUCTIONS[reduction], *options, memory)
    named = {"input": input, "weight": weight, "target": target, "bias": bias, "class_weight": class_weight}
    numbers = {"ignore_index": ignore_index, "reduction": reduction, "label_smoothing": label_smoothing}
    read = readers.read("linear_cross_entropy", None, **named, **numbers, z_loss=z_loss, softcap=softcap, memory=memory)
    *given, ignore_index, reduction, label_smoothing, z_loss, softcap, memory = read
    if reduction not in REDUCTIONS:
        raise ArgumentError(
            f"ninetoothed::linear_cross_entropy takes a reduction of {', '.join(REDUCTIONS)}, but got {reduction!r}"
        )

    others = ignore_index, label_smoothing, z_loss, softcap
    if is_dtensor(given[0]) and not torch.is_grad_enabled():
        losses, _, _ = operator_of_rows(*given, *others)
        return reduced(losses, given[2], given[4], REDUCTIONS[reduction], ignore_index)
    return operator(*given, REDUCTIONS[reduction], *others, memory)
