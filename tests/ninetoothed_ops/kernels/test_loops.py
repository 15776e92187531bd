"""Loops that hold wgmma take as many instructions as ones written by hand with tensor descriptors, or a tenth more."""

import pytest
import torch

from ninetoothed.schedule import DataParallel, Persistent, SplitK, StreamK
from ninetoothed_ops.kernels import conv2d, mm, sdpa
from tests.ninetoothed_ops.kernels import calls
from tests.ninetoothed_ops.kernels.test_hopper import bodies, compiled, main_loop

pytest.importorskip("triton")

from tests.machine_code.sass import disassembled
from tests.ninetoothed_ops.kernels import twins


def halves(*shape):
    return torch.empty(shape, dtype=torch.float16)


def channels_last(*shape):
    return halves(*shape).to(memory_format=torch.channels_last)


def check(own, twin, **constants):
    """Compares the loops of one of our kernels and of a hand-written one with the same tiles."""
    by_hand = twins.compiled(twin, own, **constants)
    ours, theirs = main_loop(disassembled(own)), main_loop(disassembled(by_hand))
    assert own.spills == 0 and "wgmma" in own.asm["ptx"] and "cp.async.bulk.tensor" in own.asm["ptx"]
    assert ours <= 1.1 * theirs, f"{ours} instructions, and {theirs} by hand"


def turned():
    square = halves(4096, 4096)
    return mm.make(), (square, square.mT, square)


def attention(width, is_causal):
    # With 1024 keys and wider heads products overlap, which no twin does.
    x, mask = halves(4, 48, 512, width), halves(1).expand(4, 48, 512, 512)
    return compiled(sdpa.make(), (x, x, x, mask, 0.1, x, sdpa.NO_MASK, is_causal))


PRODUCTS = {
    "mm": (lambda: calls.large("mm"), {"IS_TURNED": False}),
    "mm-turned": (turned, {"IS_TURNED": True}),
    "addmm": (lambda: calls.large("addmm"), {}),
    "bmm": (lambda: calls.large("bmm"), {}),
}


# A plain product in every way; the others as they are launched. Of quarters there is a loop more.
WAYS = [("mm", sharing, 1) for sharing in (DataParallel(), Persistent(132), SplitK(4), StreamK(132, 4))]
WAYS += [("mm", StreamK(132, 8, 6), 2), ("mm-turned", DataParallel(), 1), ("bmm", Persistent(132), 1)]
WAYS += [("addmm", Persistent(132), 1)]


@pytest.mark.parametrize("name, sharing, loops", WAYS, ids=str)
def test_products(name, sharing, loops, monkeypatch):
    """Products of a round do not wait for one another either: where ptxas serializes them, each commits a group."""
    make, constants = PRODUCTS[name]
    own = compiled(*make(), monkeypatch, sharing=sharing)
    is_persistent = isinstance(sharing, Persistent)
    assert own.emitted.persistent == is_persistent and bool(own.emitted.buffers) == isinstance(
        sharing, SplitK | StreamK
    )
    check(own, getattr(twins, "persistent_" * is_persistent + name.removesuffix("-turned")), **constants)
    assert groups(disassembled(own).splitlines()) == loops


@pytest.mark.parametrize("width, is_causal", ((64, False), (64, True), (128, False)))
def test_attention(width, is_causal):
    check(attention(width, is_causal), twins.sdpa, IS_CAUSAL=is_causal)


def test_convolutions(monkeypatch):
    """Of the size of the paper's task; only the filters are boxes, images are gathered."""
    image, weight, output = channels_last(4, 512, 14, 14), channels_last(512, 512, 3, 3), halves(4, 512, 12, 12)
    arguments = image, weight, halves(512), output, True
    own = compiled(conv2d.make(), arguments, monkeypatch, blocks=(64, 64, 128), num_stages=4)
    check(own, twins.conv2d, ROWS=64)


@pytest.mark.parametrize("width", (64, 128))
def test_products_of_attention_wait_for_nothing_but_their_operands(width):
    """A wait is a loop of its own: what stands behind it cannot hide behind what stands before it."""
    body = next(
        inside for inside in bodies(disassembled(attention(width, False))) if any("HGMMA" in each for each in inside)
    )
    assert groups(body) == 2
    waits = [place for place, each in enumerate(body) if " BRA " in each]
    last = max(place for place, each in enumerate(body) if "HGMMA" in each)
    behind = body[max(place for place in waits if place < last) : last]
    assert any("HGMMA" in each for each in behind)
    assert not any(name in each for each in behind for name in ("F2FP", "FMUL", "MUFU"))


def groups(instructions):
    """How many groups of products are committed."""
    return sum("HGMMA" in each and "gsb0" in each for each in instructions)
