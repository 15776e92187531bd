"""Attention of nested tensors, with gradients, against attention of each entry in float64."""

import pytest
import torch
from torch.nn import functional

from ninetoothed.errors import ArgumentError
from ninetoothed.runtime import jagged
from ninetoothed_ops import sdpa
from ninetoothed_ops.ops import sdpa_jagged
from tests.conftest import DEVICE

SELF, CROSS = ((70, 0, 33, 1, 20), None), ((70, 3, 33, 1), (5, 130, 0, 64))


def offsets_of(lengths, gap=0):
    return torch.tensor([sum(lengths[:b]) + gap * b for b in range(len(lengths) + 1)], device=DEVICE)


def nested(lengths, heads, width, offsets, gap=0, dtype=torch.float32):
    """A nested (batch, heads, jagged, width), transposed as projections are, with NaN between entries."""
    values = torch.full((sum(lengths) + gap * len(lengths), heads, width), float("nan"), device=DEVICE, dtype=dtype)
    for start, length in zip(offsets.tolist(), lengths):
        values[start : start + length] = torch.randn(length, heads, width).to(dtype)
    values.requires_grad_()
    sizes = torch.tensor(lengths, device=DEVICE) if gap else None
    return values, torch.nested.nested_tensor_from_jagged(values, offsets, sizes).transpose(1, 2)


def expected(tensors, lengths, starts, is_causal, scale):
    """Attention entry by entry: its results, and leaves of float64 that have their gradients."""
    leaves, found = [each.detach().double().nan_to_num().requires_grad_() for each in tensors], []
    for b, (rows, columns) in enumerate(zip(*lengths)):
        parts = [
            leaf[starts[i > 0][b] : starts[i > 0][b] + (columns if i else rows)].transpose(0, 1)
            for i, leaf in enumerate(leaves)
        ]
        group = parts[0].shape[0] // parts[1].shape[0]
        query, key, value = parts[0], *(each.repeat_interleave(group, 0) for each in parts[1:])
        if not columns:
            found.append(query[..., :1].expand(*query.shape[:2], value.shape[-1]) * 0)
            continue
        scores = query @ key.transpose(1, 2) * scale
        if is_causal:
            scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), float("-inf"))
        found.append(scores.softmax(-1) @ value)
    return leaves, found


@pytest.mark.parametrize("lengths", (SELF, CROSS), ids=("self", "cross"))
@pytest.mark.parametrize("is_causal", (False, True))
@pytest.mark.parametrize("gap", (0, 3))
def test_attention_of_entries(lengths, is_causal, gap):
    torch.manual_seed(0)
    rows, columns = lengths[0], lengths[1] or lengths[0]
    starts = [offsets_of(rows, gap)]
    starts.append(starts[0] if lengths[1] is None else offsets_of(columns, gap))
    q, query = nested(rows, 4, 16, starts[0], gap)
    # Keys and values share their entries.
    k, key = nested(columns, 2, 16, starts[1], gap)
    v = torch.randn(k.shape[0], 2, 8, device=DEVICE, requires_grad=True)
    value = torch.nested.nested_tensor_from_jagged(v, starts[1], key.lengths()).transpose(1, 2)
    assert sdpa_jagged.is_offered(query, key, value, None, 0.0, True)
    output = sdpa(query, key, value, is_causal=is_causal, scale=0.3, enable_gqa=True)
    leaves, found = expected((q, k, v), (rows, columns), [each.tolist() for each in starts], is_causal, 0.3)
    assert output.offsets() is query.offsets() and tuple(output.shape[:2]) == tuple(query.shape[:2])
    weights = [torch.randn_like(each) for each in found]
    values, loss = output.values(), 0.0
    for start, want, weight in zip(starts[0].tolist(), found, weights):
        own = values[:, start : start + want.shape[1]]
        torch.testing.assert_close(own.double(), want, rtol=1e-4, atol=1e-5)
        loss = loss + (own * weight.float()).sum()
    assert not values.isnan().any()
    got = torch.autograd.grad(loss, (q, k, v))
    wanted = torch.autograd.grad(sum((a * b).sum() for a, b in zip(found, weights)), leaves)
    for each, want in zip(got, wanted):
        torch.testing.assert_close(each.double(), want, rtol=1e-4, atol=1e-5)


def test_what_is_not_offered_is_pytorchs(monkeypatch):
    calls = []
    monkeypatch.setattr(functional, "scaled_dot_product_attention", lambda *args, **options: calls.append(args))
    starts = offsets_of((3, 5))
    _, query = nested((3, 5), 2, 8, starts)
    _, other = nested((3, 5), 2, 8, starts.clone())
    sdpa(query, query, query, dropout_p=0.5)
    sdpa(query, query, other)
    assert len(calls) == 2


def test_the_longest_entry_is_not_read_while_a_graph_is_captured(monkeypatch):
    monkeypatch.setattr(jagged, "_is_captured", lambda tensor: True)
    _, query = nested((3, 9), 2, 16, offsets_of((3, 9)))
    with pytest.raises(ArgumentError, match="longest entry is not known.*captured"):
        sdpa(query, query, query)


def test_the_kernels_compile():
    """For Hopper, without spills; the text ends programs past the end of an entry."""
    pytest.importorskip("triton")
    from ninetoothed.runtime.dispatch import launcher_of
    from ninetoothed.runtime.executable import compile_for_gpu
    from ninetoothed.runtime.selection import machine
    from ninetoothed_ops.kernels import sdpa_with_lse

    values = torch.empty(2000, 8, 64, dtype=torch.float16).transpose(0, 1)
    rows = sdpa_jagged.Entries(torch.tensor([0, 1000, 1000, 2000]), None, 1000)
    lse = torch.empty(8, 2000, 1)
    kernel, cut = sdpa_with_lse.make(jagged_dim=2), rows.cut(values, values, values, torch.empty_like(values), lse, lse)
    unread = torch.empty(1, dtype=torch.float16).expand(3, 8, 1000, 1000), torch.empty(3)
    arguments = *cut[:3], *unread, 0, 0.125, 0.0, *cut[3:], 0, True, False, False, False
    variant = launcher_of(kernel).trace(arguments, {}, machine.H200)
    compiled = compile_for_gpu(kernel.definition, variant)
    assert compiled.spills == 0 and "< query_length:\n" in compiled.emitted.source
