"""Gradients of attention against those that PyTorch takes of the definition in float64, and dropout."""

import math

import pytest
import torch

import ninetoothed_ops
from tests.conftest import DEVICE
from tests.ninetoothed_ops.samples import random, samples

LENGTHS = (0, 1, 37, 101)


def attention(query, key, value, mask=None, lengths=None, is_causal=False, scale=None, weights=1.0):
    """The definition; `weights` are what dropout multiplies them by."""
    group = query.shape[1] // key.shape[1]
    key, value = (each.repeat_interleave(group, 1) for each in (key, value))
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    visible = torch.ones(scores.shape[-2:], dtype=torch.bool, device=DEVICE)
    visible = visible.tril() if is_causal else visible
    if lengths is not None:
        visible = visible & (torch.arange(key.shape[-2], device=DEVICE) < lengths[:, None, None, None])
    if mask is not None:
        visible, scores = (visible & mask, scores) if mask.dtype is torch.bool else (visible, scores + mask)
    # Of a row that sees nothing, PyTorch's softmax has no gradient.
    scores = scores.masked_fill(~visible, -math.inf)
    sees = (scores > -math.inf).any(-1, keepdim=True)
    return torch.softmax(scores.masked_fill(~sees, 0.0), -1).mul(sees) * weights @ value


def check(tensors, options, tolerance=2e-6, reference=attention, **reference_options):
    """Compare the output, and the gradients of all tensors that have one; they are relative to the norm of all."""
    ours = [each.detach().clone() for each in tensors]
    theirs = [each.detach().double() if each.is_floating_point() else each for each in tensors]
    for each in (*ours, *theirs):
        each.requires_grad_(each.is_floating_point())
    output = ninetoothed_ops.sdpa(*ours, **options)
    expected = reference(*theirs, **reference_options)
    grad = random(*expected.shape, dtype=output.dtype)
    output.backward(grad)
    expected.backward(grad.double())

    pairs = [(output, expected), *((a.grad, b.grad) for a, b in zip(ours, theirs) if a.is_floating_point())]
    for actual, wanted in pairs:
        assert actual.shape == wanted.shape and actual.dtype == output.dtype
        error, scale = (actual.double() - wanted).norm(), torch.maximum(wanted.norm(), 0.1 * grad.double().norm())
        assert error <= tolerance * scale, f"relative error {error / scale}"


def qkv(queries=33, keys=40, heads=4, kv_heads=2, depth=16, value_depth=24, dtype=torch.float32):
    sizes = (heads, queries, depth), (kv_heads, keys, depth), (kv_heads, keys, value_depth)
    return [random(2, *size, dtype=dtype) for size in sizes]


LABELS = (
    *("plain", "one query", "one key", "causal", "causal, fewer keys", "padding mask", "negative scale", "no scale"),
    *("groups, causal", "one batch of keys", "keys of two dimensions", "lengths first", "sliced", "expanded"),
    *("two dimensions", "five dimensions", "no batch", "no queries"),
)


@pytest.mark.parametrize("label", LABELS)
def test_samples(label):
    sample = samples("sdpa")[label]
    check(sample.args, sample.kwargs, 5e-6, torch.nn.functional.scaled_dot_product_attention, **sample.kwargs)
