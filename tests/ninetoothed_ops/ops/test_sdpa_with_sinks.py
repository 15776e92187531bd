"""Attention with a sink for each head, and its gradients, against the definition in float64."""

import math

import pytest
import torch

from ninetoothed.errors import ArgumentError
from ninetoothed_ops.ops.sdpa_with_sinks import operator
from tests.conftest import DEVICE
from tests.ninetoothed_ops.samples import on_the_cpu, random


def reference(query, key, value, sinks, mask, is_causal, scale):
    group = query.shape[1] // key.shape[1]
    scores = query @ key.repeat_interleave(group, 1).mT * scale
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype is torch.bool else scores + mask
    if is_causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool, device=DEVICE).tril(), -math.inf)
    column = sinks[None, :, None, None].expand(*scores.shape[:-1], 1)
    weights = torch.softmax(torch.cat((scores, column), -1), -1)[..., :-1]
    return weights @ value.repeat_interleave(group, 1)


def boolean():
    mask = torch.rand(2, 1, 33, 40, device=DEVICE) > 0.4
    mask[..., 5, :] = False  # It sees the sink alone.
    return mask


MASKS = {"none": lambda: None, "boolean": boolean, "added": lambda: random(33, 40).expand(1, 1, -1, -1).clone()}


@pytest.mark.parametrize(
    "dtype, tolerance", ((torch.float32, 5e-6), pytest.param(torch.float64, 1e-13, marks=on_the_cpu))
)
@pytest.mark.parametrize("mask, is_causal", (("none", False), ("none", True), ("boolean", False), ("added", False)))
def test_output_and_gradients(mask, is_causal, dtype, tolerance):
    sizes = (2, 4, 33, 16), (2, 2, 40, 16), (2, 2, 40, 24)
    mask = MASKS[mask]()
    mask = mask.to(dtype) if mask is not None and mask.is_floating_point() else mask
    sinks = torch.tensor([-3.0, 0.5, 4.0, 200.0], dtype=dtype, device=DEVICE)
    ours = [*(random(*size, dtype=dtype) for size in sizes), sinks]
    ours += [] if mask is None or mask.dtype is torch.bool else [mask]
    ours = [each.detach().clone().requires_grad_() for each in ours]
    theirs = [each.detach().double().requires_grad_() for each in ours]
    given = [tensors[4] if len(tensors) > 4 else mask for tensors in (ours, theirs)]
    output, _ = operator(*ours[:4], given[0], None, 0.0, is_causal, 0.3)
    expected = reference(*theirs[:4], given[1], is_causal, 0.3)
    grad = random(*expected.shape, dtype=dtype)
    output.backward(grad)
    expected.backward(grad.double())
    for actual, wanted in ((output, expected), *((a.grad, b.grad) for a, b in zip(ours, theirs))):
        scale = torch.maximum(wanted.norm(), 0.1 * grad.double().norm())
        assert actual.shape == wanted.shape and (actual.double() - wanted).norm() <= tolerance * scale


def test_dropout_is_of_the_seed_and_scales_what_is_kept():
    query, key = random(1, 2, 8, 16), random(1, 2, 400, 16)
    value, sinks = torch.ones(1, 2, 400, 1, device=DEVICE), torch.zeros(2, device=DEVICE)
    seeds = [torch.tensor(number, device=DEVICE) for number in (1, 1, 2)]
    whole, *drawn = (
        operator(query, key, value, sinks, None, seed, 0.5 * (seed is not None), False, 0.01)[0]
        for seed in (None, *seeds)
    )
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])
    assert (drawn[0].mean() - whole.mean()).abs() < 0.05 and (drawn[0] - whole).abs().max() < 0.4


def test_a_sink_for_each_head():
    query = random(1, 2, 3, 16)
    with pytest.raises(ArgumentError, match=r"a sink for each head, of the shape \(2,\), but got \(3,\)"):
        operator(query, query, query, torch.zeros(3, device=DEVICE), None, None, 0.0, False, 1.0)


def test_compiled_with_its_gradient():
    tensors = *(random(1, 2, 9, 16).requires_grad_() for _ in range(3)), random(2).requires_grad_()

    def loss(*tensors):
        return operator(*tensors, None, None, 0.0, True, 0.25)[0].square().sum()

    expected = torch.autograd.grad(loss(*tensors), tensors)
    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    for actual, wanted in zip(torch.autograd.grad(compiled(*tensors), tensors), expected):
        torch.testing.assert_close(actual, wanted)
