"""Rules of norms. Factors that differ from call to call multiply after the norm, in the type in which it computes."""

import torch

from ..ops.layer_norm import gradients as layer_norm_backward, operator as layer_norm_operator
from ..ops.rms_norm import gradients as rms_norm_backward, operator as rms_norm_operator
from ..ops.rows import wide
from .batch import Batch, beside


def rms_norm(batch: Batch, input, normalized_shape, weight=None, eps=None, unit_offset=False):
    input = batch.whole(0, input)
    if not batch.has_only(0):
        normalized = rms_norm_operator(input.to(wide(input)), normalized_shape, None, eps)
        return (normalized * _factor(weight, input, unit_offset)).to(input.dtype)
    return rms_norm_operator(input, normalized_shape, weight, eps, unit_offset)


def _factor(weight: torch.Tensor, input: torch.Tensor, unit_offset: bool = False) -> torch.Tensor:
    factor = beside(weight, input).to(wide(input))
    return factor + 1 if unit_offset else factor


def add_rms_norm(batch: Batch, input, residual, weight=None, eps=None):
    input, residual = batch.wholes(input, residual)
    if batch.has_only(0, 1):
        return batch.operator(input, residual, weight, eps)
    total = input + residual
    normalized = rms_norm_operator(total.to(wide(total)), total.shape[-1:], None, eps)
    return (normalized * _factor(weight, input)).to(input.dtype), total


def layer_norm(batch: Batch, input, normalized_shape, weight=None, bias=None, eps=1e-5):
    input = batch.whole(0, input)
    if batch.has_only(0):
        return layer_norm_operator(input, normalized_shape, weight, bias, eps)
    normalized = layer_norm_operator(input.to(wide(input)), normalized_shape, None, None, eps)
    if weight is not None:
        normalized = normalized * _factor(batch.whole(2, weight), input)
    if bias is not None:
        normalized = normalized + _factor(batch.whole(3, bias), input)
    return normalized.to(input.dtype)


def rms_norm_gradients(
    batch: Batch, grad, input, normalized_shape, weight, eps, output_mask, addend=None, unit_offset=False
):
    grad, input = batch.wholes(grad, input)
    found = [batch.unneeded(0), batch.unneeded(1)]
    if output_mask[0]:
        slope, given, scale, added = grad, input, weight, None if addend is None else batch.whole(6, addend)
        if batch.has(3):
            dtype = wide(input)
            slope, given, scale = (grad * _factor(weight, input, unit_offset)).to(dtype), input.to(dtype), None
            added = None if added is None else added.to(dtype)
        options = (True, False), added, unit_offset
        found[0] = rms_norm_backward(slope, given, normalized_shape, scale, eps, *options)[0].to(input.dtype)
    if output_mask[1]:
        normalized = rms_norm_operator(input.to(wide(input)), normalized_shape, None, eps)
        found[1] = _sum_of_rows(grad * normalized, normalized_shape).to(weight.dtype)
    return tuple(found)


def layer_norm_gradients(batch: Batch, grad, input, normalized_shape, weight, bias, eps, output_mask):
    grad, input = batch.wholes(grad, input)
    found = [batch.unneeded(i) for i in range(3)]
    if output_mask[0]:
        slope, given, scale = grad, input, weight
        if batch.has(3):
            slope, given, scale = (grad * _factor(weight, input)).to(wide(input)), input.to(wide(input)), None
        mask = True, False, False
        found[0] = layer_norm_backward(slope, given, normalized_shape, scale, None, eps, mask)[0].to(input.dtype)
    if output_mask[1]:
        normalized = layer_norm_operator(input.to(wide(input)), normalized_shape, None, None, eps)
        found[1] = _sum_of_rows(grad * normalized, normalized_shape).to(weight.dtype)
    if output_mask[2]:
        found[2] = _sum_of_rows(grad.to(wide(grad)), normalized_shape).to(bias.dtype)
    return tuple(found)


def _sum_of_rows(tensor: torch.Tensor, normalized_shape) -> torch.Tensor:
    """Sum up the rows of each call."""
    dims = tuple(range(1, tensor.ndim - len(normalized_shape)))
    return tensor.sum(dims) if dims else tensor
