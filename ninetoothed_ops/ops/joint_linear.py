"""`joint_linear(Tensor input, Tensor[] weights, Tensor[] biases) -> Tensor`: several linear layers of one input.

    torch.cat([linear(input, weight, bias) for weight, bias in zip(weights, biases)], -1)

`biases` may be empty. Where the weights lie one behind another in memory, and the biases too, this is one product. Each
call looks where they lie, so that it is right whoever has moved or replaced them since, and the same in compiled and
captured code.
"""

import functools
from collections.abc import Iterator

import torch

from ninetoothed.errors import ArgumentError
from ninetoothed.runtime import private

from .. import autocast
from ..registration import of_file
from .adjacent import are_adjacent, concatenated
from .linear import check, launch as compute, operator as linear, rows_of
from .mm import operator as mm

# Fakes have none.
_WITH_MEMORY = frozenset({torch.Tensor, torch.nn.Parameter})


def flatten(input, weights, biases):
    """Give how many weights there are, whether they and the biases lie one behind another, and each of them."""
    # What AOTInductor compiled gives None for a list with nothing in it.
    biases = biases or ()
    if not weights or len(biases) not in (0, len(weights)):
        raise ArgumentError(
            "ninetoothed::joint_linear takes one weight or more, and a bias for each of them or for none, but got "
            f"{len(weights)} weights and {len(biases)} biases"
        )
    count, held = len(weights), []
    if private.has_transforms():  # Wrapped tensors lie nowhere.
        return input, count, False, *weights, *biases
    for tensor in (*weights, *biases):
        if type(tensor) not in _WITH_MEMORY:
            return input, count, False, *weights, *biases
        # Another thread may give a parameter other memory meanwhile, and let go of what is found here.
        held.append(tensor.detach())

    return input, count, are_adjacent(held[:count]) and are_adjacent(held[count:]), *held


def allocate(input, count, are_joint, *tensors):
    for layer in _layers(count, tensors):
        check(input, *layer)

    return input.new_empty((*input.shape[:-1], sum(weight.shape[0] for weight in tensors[:count])))


def launch(output, input, count, are_joint, *tensors):
    wholes = [concatenated(each) for each in (tensors[:count], tensors[count:]) if each] if are_joint else [None]
    # Biases that repeat themselves are fewer than the weights' rows.
    if all(whole is not None and whole.shape[0] == output.shape[-1] for whole in wholes):
        compute(output, input, *wholes)
        return
    start = 0
    for weight, *bias in _layers(count, tensors):
        compute(output.narrow(-1, start, weight.shape[0]), input, weight, *bias)
        start += weight.shape[0]


def _layers(count: int, tensors) -> Iterator[tuple[torch.Tensor, ...]]:
    """Give (weight,) or (weight, bias) of each layer, of weights followed by biases or none."""
    biases = tensors[count:]

    return zip(tensors, biases) if biases else zip(tensors)


def setup_context(ctx, inputs, output):
    input, weights, biases = inputs
    needs_input, needs_weights, _ = ctx.needs_input_grad
    ctx.save_for_backward(input if any(needs_weights) else None, *(weights if needs_input else ()))
    ctx.widths, ctx.bias_shapes = [weight.shape[0] for weight in weights], [bias.shape for bias in biases]


def backward(ctx, grad):
    input, *weights = ctx.saved_tensors
    grads, (_, needs_weights, needs_biases) = grad.split(ctx.widths, -1), ctx.needs_input_grad
    of_input = gradient_of_input(grads, weights, grad) if weights else None
    of_weights = gradients_of_weights(grads, input, needs_weights)
    if not ctx.bias_shapes:
        return of_input, of_weights, None
    of_biases = zip(grads, ctx.bias_shapes, needs_biases)

    # Parameters keep what they are given: no part of a tensor that others hold, which one row's sum is.
    return of_input, of_weights, [rows_of(g).sum(0).sum_to_size(s) if needed else None for g, s, needed in of_biases]


def gradient_of_input(grads, weights, whole_grad=None) -> torch.Tensor:
    """Compute the gradient of what all layers read, by those of what each gives.

    One product, where `whole_grad` is all of `grads` and the weights lie one behind another; else each product is added
    to those before it, in their memory, which nobody has seen.
    """
    tensors = *grads, *weights
    is_seen = torch.is_grad_enabled() or private.has_transforms() or private.count_dispatch_modes()
    is_seen = is_seen or autocast.is_enabled(grads[0].device.type)  # which casts no product in place
    if is_seen or not all(type(tensor) in _WITH_MEMORY for tensor in tensors):
        return functools.reduce(torch.add, (linear(grad, weight.t()) for grad, weight in zip(grads, weights)))
    whole = None if whole_grad is None else concatenated(weights)
    if whole is not None:
        return linear(whole_grad, whole.t())
    total = linear(grads[0], weights[0].t())
    for grad, weight in zip(grads[1:], weights[1:]):
        rows_of(total).addmm_(rows_of(grad), weight)
    return total


def gradients_of_weights(grads, input, are_needed) -> list[torch.Tensor | None]:
    """Compute the gradients of the weights that need one, by those of what each layer gives."""
    return [mm(rows_of(grad).t(), rows_of(input)) if needed else None for grad, needed in zip(grads, are_needed)]


operator = of_file(
    "joint_linear(Tensor input, Tensor[] weights, Tensor[] biases) -> Tensor",
    globals(),
    autocast=torch.get_autocast_dtype,
)
