"""Loops that hold wgmma take as many instructions as ones written by hand with tensor descriptors, or a tenth more."""

import pytest
import torch

from ninetoothed.schedule import DataParallel, Persistent, SplitK, StreamK
from ninetoothed_ops.kernels import conv2d, mm, sdpa
from tests.ninetoothed_ops.kernels import calls
from tests.ninetoothed_ops.kernels.test_hopper import bodies, compiled, main_loop

pytest.importorskip("triton")

from tests.ninetoothed_ops.kernels import twins


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory):
    """What several tests look at is compiled once."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("NINETOOTHED_CACHE_DIR", str(tmp_path_factory.mktemp("compiled")))
        yield


def halves(*shape):
    return torch.empty(shape, dtype=torch.float16)


def channels_last(*shape):
    return halves(*shape).to(memory_format=torch.channels_last)


def check(own, twin, **constants):
    """Compares the loops of one of our kernels and of a hand-written one with the same tiles."""
    by_hand = twins.compiled(twin, own, **constants)
    ours, theirs = main_loop(own.sass()), main_loop(by_hand.sass())
    assert own.spills == 0 and "wgmma" in own.asm["ptx"] and "cp.async.bulk.tensor" in own.asm["ptx"]
    assert ours <= 1.1 * theirs, f"{ours} instructions, and {theirs} by hand"


def turned():
    square = halves(4096, 4096)
    return mm.make(), (square, square.mT, square)


def attention(width, is_causal):
    x, mask = halves(4, 48, 1024, width), halves(1).expand(4, 48, 1024, 1024)
    return compiled(sdpa.make(), (x, x, x, mask, 0.1, x, sdpa.NO_MASK, is_causal))


PRODUCTS = {
    "mm": (lambda: calls.large("mm"), {"IS_TURNED": False}),
    "mm-turned": (turned, {"IS_TURNED": True}),
    "addmm": (lambda: calls.large("addmm"), {}),
    "bmm": (lambda: calls.large("bmm"), {}),
}


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("kind", ("", "persistent_"), ids=("plain", "persistent"))
def test_products(name, kind, monkeypatch):
    make, constants = PRODUCTS[name]
    own = compiled(*make(), monkeypatch, **({} if kind else {"sharing": DataParallel()}))
    assert own.emitted.persistent == bool(kind)
    check(own, getattr(twins, kind + name.removesuffix("-turned")), **constants)


def test_products_in_parts(monkeypatch):
    for sharing in (SplitK(4), StreamK(132, 4)):
        own = compiled(*calls.large("mm"), monkeypatch, sharing=sharing)
        assert own.emitted.buffers
        check(own, twins.mm, IS_TURNED=False)


@pytest.mark.parametrize("is_causal", (False, True), ids=("plain", "causal"))
@pytest.mark.parametrize("width", (64, 128))
def test_attention(width, is_causal):
    check(attention(width, is_causal), twins.sdpa, IS_CAUSAL=is_causal)


def test_convolutions(monkeypatch):
    """Of the size of the paper's task; only the filters are boxes, images are gathered."""
    image, weight, output = channels_last(4, 512, 14, 14), channels_last(512, 512, 3, 3), halves(4, 512, 12, 12)
    arguments = image, weight, halves(512), output, True
    own = compiled(conv2d.make(), arguments, monkeypatch, blocks=(64, 64, 128), num_stages=4)
    check(own, twins.conv2d, ROWS=64)


@pytest.mark.parametrize("width", (64, 128))
def test_nothing_is_computed_between_a_wait_and_the_product_that_it_is_for(width):
    """A wait is a loop of its own: what stands behind it cannot hide behind what stands before it."""
    body = next(inside for inside in bodies(attention(width, False).sass()) if any("HGMMA" in each for each in inside))
    waits = [place for place, each in enumerate(body) if " BRA " in each]
    last = max(place for place, each in enumerate(body) if "HGMMA" in each)
    behind = body[max(place for place in waits if place < last) : last]
    assert any("HGMMA" in each for each in behind)
    assert not any(name in each for each in behind for name in ("F2FP", "FMUL", "MUFU"))


WAYS = (
    DataParallel(),
    SplitK(4),
    StreamK(132, 4),
    StreamK(132, 8, 6),
    Persistent(132),
)


@pytest.mark.parametrize("sharing", WAYS, ids=str)
@pytest.mark.parametrize("name", ("mm", "mm-turned", "addmm"))
def test_products_of_a_round_do_not_wait_for_one_another(name, sharing, monkeypatch):
    """Where ptxas serializes them, each commits a group of its own, and is waited for."""
    own = compiled(*PRODUCTS[name][0](), monkeypatch, sharing=sharing)
    # All products are in loops, of which there is another for quarters.
    assert groups(own.sass().splitlines()) == (2 if sharing == StreamK(132, 8, 6) else 1)


@pytest.mark.parametrize("width", (64, 128))
def test_products_of_attention_do_not_wait_for_one_another(width):
    body = next(inside for inside in bodies(attention(width, False).sass()) if groups(inside))
    assert groups(body) == 2


def groups(instructions):
    """How many groups of products are committed."""
    return sum("HGMMA" in each and "gsb0" in each for each in instructions)
