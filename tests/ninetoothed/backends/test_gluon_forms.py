"""Attention in Gluon with more in its loop: masks and biases, and sums for a gradient; and what has no form there."""

import functools
import re

import pytest
import torch

from ninetoothed.runtime import dispatch, executable
from ninetoothed.runtime.compilation import ptx as read_ptx
from ninetoothed.runtime.selection import machine
from ninetoothed_ops.kernels import sdpa, sdpa_with_lse
from ninetoothed_ops.ops import sdpa_jagged
from tests.conftest import needs_triton
from tests.ninetoothed.backends import own_attention

pytestmark = needs_triton
LENGTH = 4096


def halves(*shape, dtype=torch.float16):
    return torch.empty(shape, dtype=dtype)


def mask(dtype=torch.float16, rows=LENGTH, keys=LENGTH, stride=None):
    return halves(1, 1, rows, stride or keys, dtype=dtype)[..., :keys].expand(1, 16, LENGTH, keys)


def masked(kernel, given, masking=sdpa.NO_MASK, is_causal=True, *more, depth=128):
    query, key, value, output = (halves(1, 16, LENGTH, depth) for _ in range(4))
    return kernel, (query, key, value, given, 0.1, output, masking, is_causal, *more)


def summed(given, masking, is_in_place=False):
    """The forward of training, which leaves numbers for each row."""
    query, key, value, output = (halves(1, 16, LENGTH, 128) for _ in range(4))
    row, peak = (halves(1, 16, LENGTH, 1, dtype=torch.float32) for _ in range(2))
    own = output, row, row if is_in_place else peak, masking, True, False, False, False
    return sdpa_with_lse.make(), (query, key, value, given, halves(1, dtype=torch.int32), 0, 0.1, 0.0, *own)


def own(form, other):
    query, key, value, output = (halves(1, 16, LENGTH, 128) for _ in range(4))
    return own_attention.make(form), (query, key, value, other, output)


def within_entries(is_causal):
    """The forward of training on jagged tensors: `lse` is in the place of `peak`, too, which is not written."""
    rows = sdpa_jagged.Entries(torch.tensor([0, 3000, 8000, 16384]), None, 8384)
    tiles = [halves(16384, 16, 128, dtype=torch.bfloat16).transpose(0, 1) for _ in range(4)]
    query, key, value, output = rows.cut(*tiles)
    (sums,) = rows.cut(halves(16384, 16, 1, dtype=torch.float32).transpose(0, 1))
    unread = sdpa_jagged._not_read(tiles[0], rows, rows)
    flags = 0, 0.1, 0.0, output, sums, sums, sdpa.NO_MASK, is_causal, False, False, False
    return sdpa_with_lse.make(jagged_dim=2), (query, key, value, *unread, *flags)


NONE = mask(torch.bool, 1, 1).expand(1, 16, LENGTH, LENGTH)
FORMS = {
    "bias": lambda: own("bias", mask()),
    "added": lambda: masked(sdpa.make(), mask(), sdpa.ADDITIVE_MASK),
    "boolean": lambda: masked(sdpa.make(), mask(torch.bool), sdpa.BOOLEAN_MASK),
    "added f32": lambda: masked(sdpa.make(), mask(torch.float32), sdpa.ADDITIVE_MASK, False),
    "sinks": lambda: masked(
        sdpa.make(has_sinks=True), NONE, sdpa.NO_MASK, False, halves(16, 1, 1).expand(1, 16, LENGTH, 1)
    ),
    "sinks, causal": lambda: masked(
        sdpa.make(has_sinks=True), NONE, sdpa.NO_MASK, True, halves(16, 1, 1).expand(1, 16, LENGTH, 1)
    ),
    "sinks of rows": lambda: masked(sdpa.make(has_sinks=True), NONE, sdpa.NO_MASK, False, mask(keys=1)),
    "summed": lambda: summed(NONE, sdpa.NO_MASK),
    "summed, added": lambda: summed(mask(), sdpa.ADDITIVE_MASK),
    "lengths": lambda: masked(sdpa.make(has_lengths=True), NONE, sdpa.NO_MASK, False, halves(1, dtype=torch.int32)),
    "jagged": lambda: within_entries(True),
    "paged": lambda: (own_attention.make("paged"), paged(halves, 4, LENGTH, 9, 2048, torch.empty(4, 2).int())),
}
# Which take no less time there than in Triton, or were not seen to be right; and what `explain` says of them.
WITHOUT = {
    "window": lambda: own("window", 1024),
    "capped": lambda: masked(sdpa.make(is_capped=True), NONE, sdpa.NO_MASK, True, 30.0),
    "in place": lambda: summed(mask(), sdpa.ADDITIVE_MASK, True),
}
REASONS = {
    "window": "its loops begin at a computed number",
    "capped": "it calls functions of CUDA's library",
    "in place": "Gluon has no `debug_barrier`",
}


def paged(make, batch, rows, pages, size, table, heads=16, depth=128):
    x, page = make(batch, heads, rows, depth), (pages, heads, size, depth)
    return x, make(*page), make(*page), table, torch.full_like(x, float("nan"))


@functools.cache
def variant(form):
    kernel, values = FORMS[form]()
    return dispatch.Launcher(kernel.definition).trace(values, {}, machine.H200)


@pytest.mark.parametrize("form", FORMS)
def test_products_overlap(form):
    assert variant(form).selection.schedule.overlaps
    source = executable.emitted_for(variant(form)).source
    assert source.count("warpgroup_mma(") >= 4 and "mbarrier.wait(" in source


@pytest.mark.parametrize("form", WITHOUT)
def test_what_is_no_quicker_there_stays_in_triton(form):
    kernel, values = WITHOUT[form]()
    lines = kernel.explain(*values, gpu=machine.H200).splitlines()
    chosen, told = (next(line for line in lines if line.startswith(start)) for start in ("chosen ", "not "))
    assert "overlaps" not in chosen and "overlaps: " in told and told.endswith(f": {REASONS[form]}")


@pytest.mark.parametrize("is_causal", (False, True))
def test_shorter_ones_overlap_without_a_diagonal(is_causal):
    """1024 keys suffice, whatever else hides some of them: lengths, or a mask in memory."""
    query, key, value, output = (halves(4, 16, 1024, 128) for _ in range(4))
    none, boolean = (
        halves(1, 1, *sizes, dtype=torch.bool).expand(4, 16, 1024, 1024) for sizes in ((1, 1), (1024,) * 2)
    )
    for kernel, given, masking, *lengths in (
        (sdpa.make(), boolean, sdpa.BOOLEAN_MASK),
        (sdpa.make(has_lengths=True), none, sdpa.NO_MASK, halves(4, dtype=torch.int32)),
    ):
        values = query, key, value, given, 0.1, output, masking, is_causal, *lengths
        chosen = dispatch.Launcher(kernel.definition).trace(values, {}, machine.H200).selection.schedule
        assert chosen.overlaps != is_causal


@pytest.mark.parametrize("size", (32, 13))
def test_pages_of_a_cache(size):
    values = paged(torch.randn, 2, 45, 9, size, torch.tensor([[7, 0, 3], [8, 8, 1]]), heads=2, depth=24)
    own_attention.make("paged")(*values)
    expected = own_attention.reference("paged", *values[:4])
    assert torch.allclose(values[-1].double(), expected, atol=2e-6)


@pytest.mark.parametrize(
    "form, most_spilled", (("bias", 64), ("added f32", 32), ("sinks", 0), ("lengths", 8), ("jagged", 8))
)
def test_it_compiles(form, most_spilled):
    kernel, _ = FORMS[form]()
    found = executable.compile_for_gpu(kernel.definition, variant(form))
    assert found.emitted.dialect == "gluon" and found.spills <= most_spilled
    assert found.shared <= machine.H200.shared_memory
    assert "wgmma" in found.asm["ptx"] and not read_ptx.keeps_left_operand(found.asm["ptx"])


def test_each_task_has_tiles_of_a_mask():
    """Each task of 64 rows has two slots for 64 rows of the mask; one, where its numbers are twice as long."""
    for form, tiles in (
        ("added", "float16, [4, 64, 128]"),
        ("added f32", "float32, [2, 64, 128]"),
        ("boolean", "int8, [4, 64, 128]"),
    ):
        source = executable.emitted_for(variant(form)).source
        computing, _, copying = source.partition("def copy(")
        assert f"mask_tiles = gl.allocate_shared_memory(gl.{tiles}" in source
        waits, frees = (computing.count(f"mbarrier.{each}(mask_") for each in ("wait", "arrive"))
        assert waits == frees > 0 and len(re.findall(r"tma\.\w+\(\s*mask_desc", copying)) == 2 * waits


def test_lengths_end_the_tiles_of_values():
    """All rounds copy values by one descriptor, which ends at the length, into one ring; keys by a plain one."""
    computing, _, copying = executable.emitted_for(variant("lengths")).source.partition("def copy(")
    assert copying.count("value_desc,\n") - copying.count("        value_desc,\n                    ") >= 3
    assert len(re.findall(r"value_desc,\s+\[\s+1073741824,", copying)) == 3 and "value_desc_1" not in copying
    assert "key_desc, [0, pid_1" in copying or "key_desc, [pid_1" in copying


def test_programs_past_an_entry_do_nothing():
    """Both tasks and the warp that copies leave by the same condition: where the first row of both is past the end."""
    source = executable.emitted_for(variant("jagged")).source
    assert source.count("    if pid_2 * 128 < query_length:\n") == 2


def test_zeros_past_the_end_are_no_weights():
    """The copy engine gives zeros there, where an added mask is to hide: only blocks at the end look at that."""
    loops = executable.emitted_for(variant("added f32")).source.partition("def copy(")[0].split("for j in ")[1:]
    own = [text for text in loops if "mask_tiles" in text]
    assert ["gl.where(\n" in text and "mask_index" in text for text in own] == [False, True]


def test_masks_that_the_copy_engine_does_not_take_stay_in_triton():
    for given in (mask(rows=1), mask(keys=4095), mask(stride=LENGTH + 4)):
        kernel, values = masked(sdpa.make(), given, sdpa.ADDITIVE_MASK)
        x = halves(1, 16, given.shape[-1], 128)
        values = values[0], x, x, *values[3:]
        assert not dispatch.Launcher(kernel.definition).trace(values, {}, machine.H200).selection.schedule.overlaps
