"""Rules of losses: the rows of all calls are rows of one, unless classes weigh otherwise in each."""

import torch

from ..ops.cross_entropy import REDUCTIONS, gradient as gradient_of_logits, operator_of_rows, reduced, total_of
from ..ops.linear_cross_entropy import gradient as gradient_of_layer, operator_of_rows as of_layer_and_rows
from ..ops.rows import wide
from .batch import Batch
from .products import of_layer


def of_rows(batch: Batch, self, target, weight, *options):
    if batch.has(2):
        return batch.one_by_one(self, target, weight, *options)
    tensors = batch.wholes(self, target)
    if self.ndim - batch.flags[0] == 1:
        return batch.operator(*tensors, weight, *options)
    return batch.parted(batch.operator(*(each.flatten(0, 1) for each in tensors), weight, *options))


def gradient(batch: Batch, grad, self, target, weight, lse, mass, *options):
    if batch.has(3):
        return batch.one_by_one(grad, self, target, weight, lse, mass, *options)
    tensors, numbers = batch.wholes(grad, self, target), batch.wholes(lse, mass, start=4)
    if tensors[1].ndim == 2:
        return batch.operator(*tensors, weight, *numbers, *options)
    tensors, numbers = ([each.flatten(0, 1) for each in group] for group in (tensors, numbers))
    return batch.parted(batch.operator(*tensors, weight, *numbers, *options))


def of_layer_rows(batch: Batch, input, weight, target, bias, class_weight, *options):
    if batch.has(4):
        return batch.one_by_one(input, weight, target, bias, class_weight, *options)
    if not batch.has(1, 3):
        return batch.operator(*(batch.whole(0, input), weight, batch.whole(2, target)), bias, class_weight, *options)
    logits, targets = _logits(batch, (0, input), (1, weight), (3, bias)), batch.whole(2, target).flatten()
    found = operator_of_rows(logits.flatten(0, 1), targets, class_weight, *options)
    shape = batch.size, *batch.like[0].shape
    return tuple(each.view(shape) for each in found)


def _logits(batch: Batch, *operands) -> torch.Tensor:
    """Compute the logits of all calls, (batch, rows, classes)."""
    logits = of_layer(batch, *(each for _, each in operands), *(batch.has(place) for place, _ in operands))
    return logits.reshape(batch.size, -1, logits.shape[-1])


def layer_gradient(batch: Batch, grad, input, weight, target, bias, class_weight, lse, mass, *others):
    *options, needed = others
    if batch.has(5):
        return batch.one_by_one(grad, input, weight, target, bias, class_weight, lse, mass, *others)
    rows = [batch.whole(i, each) for i, each in ((0, grad), (3, target), (6, lse), (7, mass))]
    found = [batch.unneeded(i) for i in range(3)]
    if not batch.has(2, 4) and not any(needed[1:]):
        grad, target, lse, mass = rows
        given = grad, batch.whole(1, input), weight, target, bias, class_weight, lse, mass
        found[0] = batch.operator(*given, *options, needed)[0]
        return tuple(found)
    # The gradients of weights are sums of each call: of the logits', which are in memory.
    logits = _logits(batch, (1, input), (2, weight), (4, bias))
    grad, target, lse, mass = (each.flatten() for each in rows)
    of_logits = gradient_of_logits(grad, logits.flatten(0, 1), target, class_weight, lse, mass, *options)
    of_logits = of_logits.view(logits.shape).to(input.dtype)
    if needed[0]:
        found[0] = (of_logits @ batch.whole(2, weight)).view(found[0].shape)
    if needed[1]:
        inputs = batch.whole(1, input)
        found[1] = of_logits.mT @ inputs.reshape(batch.size, -1, inputs.shape[-1])
    if needed[2]:
        found[2] = of_logits.sum(1).to(bias.dtype) if bias.shape[-1] == logits.shape[-1] else found[2]
    return tuple(found)


def with_gradients(input, weight, target, bias, class_weight, reduction, *others):
    """Compute a loss and its gradients in two steps, each of which has a rule."""
    *options, needed = others
    ignore_index = options[0]
    losses, lse, mass = of_layer_and_rows(input, weight, target, bias, class_weight, *options)
    grad = torch.ones_like(losses)
    if reduction == REDUCTIONS["mean"]:
        grad = grad / total_of(target, class_weight, ignore_index, losses)
    given = grad, input, weight, target, bias, class_weight, lse, mass
    loss = reduced(losses, target, class_weight, reduction, ignore_index)
    return loss.to(wide(input)), *gradient_of_layer(*given, *options, needed)


def kl_div(batch: Batch, self, target, reduction=1, *, log_target=False):
    self, target = batch.wholes(self, target)
    if reduction == REDUCTIONS["none"]:
        return batch.operator(self, target, reduction, log_target=log_target)
    dtype = wide(self)
    losses = batch.operator(self.to(dtype), target.to(dtype), REDUCTIONS["none"], log_target=log_target)
    losses = losses.reshape(batch.size, -1)
    return (losses.sum(1) if reduction == REDUCTIONS["sum"] else losses.mean(1)).to(self.dtype)


def kl_div_gradients(batch: Batch, grad, self, target, reduction, log_target, needed):
    grad, self, target = batch.wholes(grad, self, target)
    if reduction != REDUCTIONS["none"]:
        count = self[0].numel() if reduction == REDUCTIONS["mean"] else 1
        slope = (grad.to(wide(grad)) / max(count, 1)).to(grad.dtype)
        grad = slope.view(-1, *(1,) * (self.ndim - 1)).expand(self.shape)
    found = batch.operator(grad, self, target, REDUCTIONS["none"], log_target, needed)
    return tuple(each if is_needed else batch.unneeded(i) for i, (each, is_needed) in enumerate(zip(found, needed)))
