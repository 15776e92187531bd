"""Tiles of jagged tensors by the copy engine: what it makes of their descriptors, counted out as it counts."""

import collections
import dataclasses
import random
import re

import pytest
import torch

from ninetoothed import passes
from ninetoothed.passes.tma_tiles import ALIGNMENT, FAR, MOST_DIMENSIONS
from ninetoothed.runtime.compilation.target import target_of
from ninetoothed.runtime.dispatch import launcher_of
from ninetoothed.runtime.selection import machine
from ninetoothed_ops.kernels import sdpa, sdpa_backward_key_value, sdpa_backward_query, sdpa_with_lse
from ninetoothed_ops.kernels.attention import NO_MASK
from ninetoothed_ops.ops import sdpa_jagged

HEADS, WIDTH, TOTAL = 4, 64, 1000


def calls(is_causal=True):
    """The kernels of attention, and of its gradients, with arguments of three entries."""
    rows = sdpa_jagged.Entries(torch.tensor([0, 300, 300, TOTAL]), None, 700)
    half, single = (torch.empty(TOTAL, HEADS, size, dtype=type).transpose(0, 1) for size, type in HALF_AND_SINGLE)
    query, *others = rows.cut(*[half] * 8)
    lse, delta = rows.cut(single, single)
    flags = NO_MASK, is_causal, False, False

    def given(by_columns=False):
        return query, *others[:2], *sdpa_jagged._not_read(half, rows, rows, by_columns), 0, 0.125, 0.0

    yield sdpa_with_lse.make(jagged_dim=2), (*given(), others[2], lse, lse, *flags[:2], False, *flags[2:])
    yield sdpa_backward_query.make(jagged_dim=2), (*given(), others[3], lse, lse, delta, others[4], *flags)
    yield sdpa_backward_key_value.make(jagged_dim=2), (*given(True), others[3], lse, lse, delta, *others[4:6], *flags)
    entry, longer = (torch.empty(4, HEADS, rows, WIDTH, dtype=torch.bfloat16) for rows in (160, 320))
    none, lengths = torch.empty(1, dtype=torch.bool).expand(4, HEADS, 160, 320), torch.empty(4, dtype=torch.int32)
    # Values side by side, and those whose batch entries or heads begin between two units of the copy engine.
    size = longer.stride(1)
    apart = longer.new_empty(4, HEADS * size + 4)[:, : HEADS * size].view(longer.shape)
    by_heads = longer.new_empty(4, HEADS, size + 4)[..., :size].view(longer.shape)
    for value in (longer + 0, apart, by_heads):
        arguments = entry, longer, value, none, 0.125, entry + 0, NO_MASK, is_causal, lengths
        yield sdpa.make(has_lengths=True), arguments


HALF_AND_SINGLE = ((WIDTH, torch.bfloat16), (1, torch.float32))


@pytest.mark.parametrize("index", range(3), ids=("forward", "query", "key_value"))
def test_attention_within_entries_is_fed_by_the_copy_engine(index):
    """No tile of halves is loaded or stored by threads, nor masked: the text is as that of dense tensors."""
    kernel, arguments = list(calls())[index]
    text = kernel.source(*arguments, gpu=machine.H200).text
    by_threads = re.findall(r"(\w+)_ptr\b", text.partition("):")[2])
    assert set(by_threads) <= {"lse", "delta", "query_offsets"}, text
    assert f"_desc.load([{FAR}, " in text and f".store(\n            [{FAR}, " in text, text


def engine(tile, numbers):
    """Return where the copy engine finds an element of a tile, by its steps along the axes; None where it is none."""
    offsets = [each.evaluate(numbers) for each in tile.offsets]
    sizes, strides = ([each.evaluate(numbers) for each in part] for part in (tile.sizes, tile.strides))
    assert len(sizes) <= MOST_DIMENSIONS and all(0 < size < 2**31 for size in sizes)
    assert all(stride * 2 % ALIGNMENT == 0 and 0 < stride * 2 < 2**40 for stride in strides[:-1])
    assert all(-(2**31) <= offset < 2**31 for offset in offsets)

    def place(steps):
        index = [offset + (0 if axis is None else steps[axis]) for offset, axis in zip(offsets, tile.axes)]
        inside = all(0 <= i < size for i, size in zip(index, sizes))
        return sum(2 * i * stride for i, stride in zip(index, strides)) % 2**64 if inside else None

    return place


@pytest.mark.parametrize("index", range(6), ids=("forward", "query", "key_value", "lengths", "apart", "by heads"))
def test_a_tile_ends_where_its_entry_does(index):
    """The engine finds what the access says, and nothing where its guards do not hold; addresses have 64 bits."""
    kernel, arguments = list(calls())[index]
    variant = launcher_of(kernel).trace(arguments, {}, machine.H200)
    selection = variant.selection
    schedule = dataclasses.replace(selection.schedule, overlaps=index >= 3)
    scheduled = passes.run(variant.program, target_of(machine.H200), schedule, passes.GPU)
    draw, cut = random.Random(0), set()
    for access, tile in ((each.access, tile) for each, tile in scheduled.tma_tiles.items()):
        strides = scheduled.program.parameter(access.parameter).strides
        for _ in range(50):
            numbers = collections.defaultdict(lambda: draw.randrange(1, 4), selection.values)
            ends = (0, 1, 319, 320) if index >= 3 else ()
            numbers |= {name: draw.choice((*ends, draw.randrange(1, 300))) for name, _ in access.bindings}
            steps = {lane.axis: draw.randrange(lane.count) for lane in access.lanes}
            at = collections.ChainMap({lane.name: steps[lane.axis] for lane in access.lanes}, numbers)
            holds = all(guard.index.evaluate(at) < guard.size.evaluate(at) for guard in access.guards)
            sum_ = sum(i.evaluate(at) * stride.evaluate(at) for i, stride in zip(access.indices, strides))
            assert engine(tile, numbers)(steps) == (2 * sum_ if holds else None), (tile, dict(numbers), steps)
            cut |= set() if holds else {access.parameter}
    assert cut == CUT[index]


CUT = (
    {"query", "key", "value", "output"},
    {"query", "key", "value", "grad", "query_grad"},
    {"query", "key", "value", "grad", "key_grad", "value_grad"},
    {"query", "value", "output"},
    {"query", "output"},
    {"query", "output"},
)
