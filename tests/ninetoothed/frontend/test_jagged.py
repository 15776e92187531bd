"""Kernels of jagged tensors, against padded tensors and entries of float64. What lies between entries is NaN."""

import functools
import random
import warnings

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Symbol, Tensor, block_size
from ninetoothed.errors import (
    ApplicationError,
    ArgumentError,
    ArgumentTypeError,
    ArrangementError,
    GradientError,
    SizeError,
    UnsupportedError,
)
from ninetoothed.runtime import jagged
from tests.conftest import DEVICE

BLOCK = Symbol("BLOCK", constexpr=True)
LENGTHS = ((7, 0, 33, 1), (0, 0, 5), (40,), (64, 32, 96), (1, 1))
from_jagged = torch.nested.nested_tensor_from_jagged


def nested(lengths, *rest, dim=1, offsets=torch.int64, gap=0, more=0, dtype=torch.float32):
    """A nested tensor of entries of these lengths, `gap` values apart, each row with `more` behind it."""
    shape = (*rest[: dim - 1], sum(lengths) + gap * (len(lengths) + 1), *rest[dim - 1 :])
    values = torch.full((*shape[:-1], shape[-1] + more), float("nan"), dtype=dtype, device=DEVICE)[..., : shape[-1]]
    starts = [gap + sum(lengths[:b]) + gap * b for b in range(len(lengths) + 1)]
    for start, length in zip(starts, lengths):
        part = values.narrow(dim - 1, start, length)
        part.copy_(torch.randn(part.shape).to(dtype))
    starts = torch.tensor(starts, dtype=offsets, device=DEVICE)
    sizes = torch.tensor(lengths, dtype=offsets, device=DEVICE) if gap else None
    return from_jagged(values, starts, sizes, jagged_dim=dim)


def like(x, *rest, dim=1):
    """A nested tensor of the same entries, full of NaN."""
    shape = list(x._values.shape[:-1] if not rest else (x._values.shape[0], *rest))
    values = torch.full(shape + ([x._values.shape[-1]] if not rest else []), float("nan"), device=DEVICE)
    return from_jagged(values, x.offsets(), x.lengths(), jagged_dim=dim)


def entries(x, dim=1):
    """The entries of a nested tensor, of float64."""
    starts, sizes = x.offsets().tolist(), None if x.lengths() is None else x.lengths().tolist()
    sizes = sizes or [b - a for a, b in zip(starts, starts[1:])]
    return [x._values.detach().double().narrow(dim - 1, a, n) for a, n in zip(starts, sizes)]


def padded(x, fill, dim=1):
    found = entries(x, dim)
    most = max(each.shape[dim - 1] for each in found)
    shape = list(found[0].shape)
    shape[dim - 1] = most
    result = torch.full((len(found), *shape), float(fill), dtype=torch.float64, device=DEVICE)
    for b, each in enumerate(found):
        result[b].narrow(dim - 1, 0, each.shape[dim - 1]).copy_(each)
    return result


def by_blocks(tensor, block=BLOCK):
    """Give each program a block of rows of one entry."""
    tiled = tensor.tile((1, block, -1))
    tiled.dtype = tiled.dtype.squeeze(0)
    return tiled


def by_entries(tensor, block=None):
    """Give each program one entry: all of it, or block by block."""
    if block is None:
        tiled = tensor.tile((1, -1, -1))
    else:
        tiled = tensor.tile((1, block, -1)).tile((1, -1, -1))
        tiled.dtype = tiled.dtype.squeeze((0, 2))
        tiled.dtype.dtype = tiled.dtype.dtype.squeeze(0)
        return tiled
    tiled.dtype = tiled.dtype.squeeze(0)
    return tiled


def one_row(tensor):
    """Give each program a row of a dense (batch, D), where others have (batch, 1, 1) programs."""
    tiled = tensor.tile((1, -1)).unsqueeze(1)
    tiled.dtype = tiled.dtype.squeeze(0)
    return tiled


@functools.cache
def copying(dim, ndim=3, other=None):
    def arrangement(x, y):
        tile = (1, *(BLOCK,) * (ndim - 1))
        return x.tile(tile), y.tile(tile)

    def application(x, y):
        y = x

    return ninetoothed.make(arrangement, application, (Tensor(ndim, jagged_dim=dim, other=other), Tensor(ndim)))


@functools.cache
def filling(dim):
    def arrangement(y, x):
        tile = (1, BLOCK, BLOCK)
        sizes = tuple(y.shape[dim] if d == dim else -1 for d in range(3))
        return y.tile(tile), x.expand(sizes).tile(tile)

    def application(y, x):
        y = x

    return ninetoothed.make(arrangement, application, (Tensor(3, jagged_dim=dim), Tensor(3)))


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("dim", (1, 2))
@pytest.mark.parametrize("given", ({}, {"gap": 3, "offsets": torch.int32}, {"more": 5}), ids=("plain", "gaps", "cut"))
def test_entries_are_padded_and_filled(lengths, dim, given):
    x = nested(lengths, 11, dim=dim, **given)
    expected = padded(x, -1.0, dim)
    y = torch.full_like(expected, float("nan"), dtype=torch.float32)
    copying(dim, other=-1.0)(x, y, BLOCK=8)
    assert torch.equal(y.double(), expected)

    rows = torch.randn(len(lengths), *(1 if d == dim else 11 for d in (1, 2)), device=DEVICE)
    before = x._values.clone()
    filling(dim)(x, rows, BLOCK=16)
    for row, entry in zip(rows, entries(x, dim)):
        assert torch.equal(entry.float(), row.expand_as(entry))
    assert torch.equal(x._values.isnan(), before.isnan())


def test_past_the_end_of_an_entry_nothing_is_written():
    x = nested((3, 9, 0), 5)
    with pytest.raises(ApplicationError, match="past the end of an entry of 'x' would be .* give 'x' `other=`"):
        copying(1)(x, torch.empty(3, 9, 5, device=DEVICE), BLOCK=4)
    dense = torch.randn(3, 9, 5, device=DEVICE)

    @ninetoothed.jit
    def into(x: Tensor(3).tile((1, 4, 8)), y: Tensor(3, jagged_dim=1).tile((1, 4, 8))):
        y = x

    into(dense, x)
    assert all(torch.equal(entry.float(), row[: len(entry)]) for row, entry in zip(dense, entries(x)))


def reduced(block):
    def arrangement(x, total, mean, most, place, weights):
        return *(by_entries(x, block),), *map(one_row, (total, mean, most, place)), by_entries(weights, block)

    def whole(x, total, mean, most, place, weights):
        total = ntl.sum(x, 0)
        mean = ntl.sum(x, 0) / ntl.maximum(x.shape[0], 1)
        most = ntl.max(x, 0)
        place = ntl.argmax(x, 0)
        weights = ntl.exp(x - most[None, :]) / ntl.sum(ntl.exp(x - most[None, :]), 0)[None, :]

    def looped(x, total, mean, most, place, weights):
        added = ntl.zeros(total.shape, dtype=ntl.float32)
        peak = ntl.full(total.shape, float("-inf"), dtype=ntl.float32)
        rows = ntl.zeros(total.shape, dtype=ntl.float32)
        for k in range(x.shape[0]):
            added += ntl.sum(x[k], 0)
            peak = ntl.maximum(peak, ntl.max(x[k], 0))
            rows += ntl.sum(ntl.where(x[k] == x[k], 1.0, 0.0), 0)
        shares = ntl.zeros(total.shape, dtype=ntl.float32)
        for k in range(x.shape[0]):
            shares += ntl.sum(ntl.exp(x[k] - peak[None, :]), 0)
        for k in range(x.shape[0]):
            weights[k] = ntl.exp(x[k] - peak[None, :]) / shares[None, :]
        total = added
        mean = added / ntl.maximum(x.source.shape[1], 1)
        most = peak
        place = rows

    tensors = Tensor(3, jagged_dim=1), *(Tensor(2) for _ in range(4)), Tensor(3, jagged_dim=1)
    return ninetoothed.make(arrangement, whole if block is None else looped, tensors)


@pytest.mark.parametrize("block", (None, 4, block_size()), ids=("whole", "four", "chosen"))
@pytest.mark.parametrize("given", ({}, {"gap": 2}), ids=("plain", "gaps"))
def test_overhang_past_an_entry_never_contributes(block, given):
    for lengths in ((7, 1, 33, 4), (5,), (2, 0, 9)):
        x = nested(lengths, 6, **given)
        weights = like(x)
        total, mean, most, place = (torch.full((len(lengths), 6), float("nan"), device=DEVICE) for _ in range(4))
        reduced(block)(x, total, mean, most, place, weights)
        for b, (entry, found) in enumerate(zip(entries(x), entries(weights))):
            close = functools.partial(torch.testing.assert_close, rtol=1e-5, atol=1e-5)
            close(total[b].double(), entry.sum(0))
            if len(entry):
                close(mean[b].double(), entry.mean(0))
                close(most[b].double(), entry.amax(0))
                close(found, entry.softmax(0))
                close(place[b].long(), torch.full((6,), len(entry)).to(DEVICE) if block else entry.argmax(0))
        assert torch.equal(weights._values.isnan(), x._values.isnan())


def test_elements_past_an_entry_are_not_added_by_atomics():
    def arrangement(x, y):
        x = x.tile((1, 4))
        x.dtype = x.dtype.squeeze(0)
        return x, y.tile((1,)).unsqueeze(1).expand((-1, x.shape[1]))

    def application(x, y):
        ntl.atomic_add(y.source.data_ptr() + y.offsets(0), ntl.sum(x + 1.0))

    kernel = ninetoothed.make(arrangement, application, (Tensor(2, jagged_dim=1), Tensor(1)))
    x = nested((3, 0, 9, 4))
    y = torch.zeros(4, device=DEVICE)
    kernel(x, y)
    expected = torch.stack([(each + 1).sum() for each in entries(x)])
    torch.testing.assert_close(y.double(), expected, rtol=1e-5, atol=1e-5)


@functools.cache
def products():
    rows, columns, depth = (block_size(lower_bound=16, upper_bound=64) for _ in range(3))

    def arrangement(a, b, c):
        out = c.tile((1, rows, columns))
        left = a.tile((1, rows, depth)).tile((1, 1, -1)).expand((-1, -1, out.shape[2]))
        right = b.tile((1, depth, columns)).tile((1, -1, 1)).expand((-1, out.shape[1], -1))
        for tiled, dims in ((left, (0, 1)), (right, (0, 2))):
            tiled.dtype = tiled.dtype.squeeze(dims)
            tiled.dtype.dtype = tiled.dtype.dtype.squeeze(0)
        out.dtype = out.dtype.squeeze(0)
        return left, right, out

    def application(a, b, c):
        total = ntl.zeros(c.shape, dtype=ntl.float32)
        for k in range(a.shape[0]):
            total += ntl.dot(a[k], b[k])
        c = total

    return ninetoothed.make(arrangement, application, (Tensor(3, jagged_dim=1), Tensor(3), Tensor(3, jagged_dim=1)))


@pytest.mark.parametrize("lengths", ((70, 0, 3, 128), (17,)))
def test_batched_products_of_entries(lengths):
    a, b = nested(lengths, 40), torch.randn(len(lengths), 40, 24, device=DEVICE)
    c = like(a, 24)
    products()(a, b, c)
    for entry, other, found in zip(entries(a), b.double(), entries(c)):
        torch.testing.assert_close(found, entry @ other, rtol=1e-4, atol=1e-4)


def test_depth_that_differs_from_entry_to_entry():
    """x^T @ x of each entry: the sum runs over the jagged dimension."""

    def arrangement(x, y):
        out = y.tile((1, -1, -1))
        out.dtype = out.dtype.squeeze(0)
        return by_entries(x, 16), out

    def application(x, y):
        total = ntl.zeros(y.shape, dtype=ntl.float32)
        for k in range(x.shape[0]):
            total += ntl.dot(ntl.trans(x[k] + 1.0), x[k] + 1.0)
        y = total

    x, y = nested((30, 0, 5, 16), 8), torch.full((4, 8, 8), float("nan"), device=DEVICE)
    ninetoothed.make(arrangement, application, (Tensor(3, jagged_dim=1), Tensor(3)))(x, y)
    expected = torch.stack([(each + 1).T @ (each + 1) for each in entries(x)])
    torch.testing.assert_close(y.double(), expected, rtol=1e-4, atol=1e-4)


def test_many_entries():
    lengths = [random.Random(b).randrange(4) for b in range(10_000)]
    x = nested(lengths, 2)

    @ninetoothed.jit
    def double(x: by_blocks(Tensor(3, jagged_dim=1), 4), y: by_blocks(Tensor(3, jagged_dim=1), 4)):
        y = 2 * x

    y = like(x)
    double(x, y)
    assert torch.equal(y._values, 2 * x._values)
    double(x, x)
    assert torch.equal(x._values, y._values)


def test_transposed_and_sliced_values():
    x = nested((5, 0, 12), 3, 8)
    across = x.transpose(1, 2)
    y = torch.full((3, 3, 12, 8), float("nan"), device=DEVICE)
    copying(2, 4, 0.0)(across, y, BLOCK=8)
    assert torch.equal(y.double(), padded(x, 0.0).transpose(1, 2))
    part = from_jagged(x._values[2:, :, 1::2], torch.tensor([0, 3, 3, 15], device=DEVICE))
    y = torch.full((3, 12, 3, 4), float("nan"), device=DEVICE)
    copying(1, 4, 0.0)(part, y, BLOCK=4)
    assert torch.equal(y.double(), padded(part, 0.0))


def test_indices_are_those_of_the_entry():
    def arrangement(x, y):
        return by_blocks(x, 4), by_blocks(y, 4)

    def application(x, y):
        y = x.offsets(1)[:, None] * 100.0 + x.source.shape[1] + ntl.zeros(y.shape, dtype=ntl.float32)

    x = nested((5, 0, 9), 2)
    y = like(x)
    ninetoothed.make(arrangement, application, (Tensor(3, jagged_dim=1),) * 2)(x, y)
    for entry, found in zip(entries(x), entries(y)):
        expected = torch.arange(len(entry), device=DEVICE) * 100.0 + len(entry)
        assert torch.equal(found, expected.double()[:, None].expand_as(entry))


def test_pointers_to_tiles_are_those_of_the_entry():
    def arrangement(x, y):
        return by_blocks(x, 4), by_blocks(y, 4)

    def application(x, y):
        inside = x.offsets(1)[:, None] < x.source.shape[1]
        y = ntl.load(x.source.data_ptr() + x.offsets(), mask=inside)

    x = nested((5, 0, 9), 4)
    y = like(x)
    ninetoothed.make(arrangement, application, (Tensor(3, jagged_dim=1),) * 2)(x, y)
    assert torch.equal(y._values, x._values)


def test_fused_kernels_of_jagged_tensors():
    shared = functools.partial(by_blocks, block=block_size())

    def doubled(x, y):
        y = 2 * x

    def increased(x, y):
        y = x + 1

    def make(application):
        tensors = Tensor(3, jagged_dim=1), Tensor(3, jagged_dim=1)
        return ninetoothed.make(lambda x, y: (shared(x), shared(y)), application, tensors)

    x = nested((7, 0, 70), 3)
    both = ninetoothed.fuse(make(doubled), make(increased))
    assert str(both) == "<kernel doubled_increased(x, y)>"
    y = like(x)
    both(x, y)
    assert torch.equal(y._values, 2 * x._values + 1)
    with pytest.raises(ninetoothed.errors.FusionError, match="jagged_dim=1.*jagged_dim=None"):
        dense = ninetoothed.make(lambda x, y: (shared(x), shared(y)), increased, (Tensor(3), Tensor(3)))
        ninetoothed.fuse(make(doubled), dense)


def random_case(seed):
    """A kernel that sums over what it is told of a random nested tensor, and the expected result."""
    draw = random.Random(seed)
    lengths = [draw.choice((0, 1, 2, 3, 8, 17, draw.randrange(40))) for _ in range(draw.randrange(1, 6))]
    heads, width = draw.choice((1, 2, 3)), draw.choice((1, 3, 8))
    given = {"gap": draw.choice((0, 0, 1, 5)), "offsets": draw.choice((torch.int32, torch.int64))}
    return draw, nested(lengths, heads, width, **given, more=draw.choice((0, 2))), draw.choice((1, 2, 4, 16))


@pytest.mark.parametrize("seed", range(8))
def test_random_nested_tensors(seed):
    draw, x, block = random_case(seed)
    expected = entries(x)
    x = x.transpose(1, 2)
    shift = draw.choice((0.0, 1.0))

    def arrangement(x, y, z):
        tiled = x.tile((1, 1, block, -1)).tile((1, 1, -1, -1))
        tiled.dtype = tiled.dtype.squeeze((0, 1, 3))
        tiled.dtype.dtype = tiled.dtype.dtype.squeeze((0, 1))
        out = z.tile((1, 1, block, -1)).tile((1, 1, -1, -1))
        out.dtype = out.dtype.squeeze((0, 1, 3))
        out.dtype.dtype = out.dtype.dtype.squeeze((0, 1))
        y = y.tile((1, 1))[:, :, None, None]
        y.dtype = y.dtype.squeeze((0, 1))
        return tiled, y, out

    def application(x, y, z):
        total = 0.0
        for k in range(x.shape[0]):
            total += ntl.sum((x[k] + shift) * (x[k] + shift))
            z[k] = ntl.cumsum(x[k] + shift, 0)
        y = total

    tensors = Tensor(4, jagged_dim=2), Tensor(2), Tensor(4, jagged_dim=2)
    y = torch.full((len(expected), x.shape[1]), float("nan"), device=DEVICE)
    values = torch.full_like(x._values.transpose(0, 1), float("nan"))
    z = from_jagged(values, x.offsets(), x.lengths()).transpose(1, 2)
    ninetoothed.make(arrangement, application, tensors)(x, y, z)
    squares = torch.stack([((each + shift) ** 2).sum((0, 2)) for each in expected])
    torch.testing.assert_close(y.double(), squares, rtol=1e-5, atol=1e-5)
    for each, found in zip(expected, entries(z.transpose(1, 2))):
        sums = [part.cumsum(0) for part in (each + shift).split(block)] if len(each) else [each]
        torch.testing.assert_close(found, torch.cat(sums), rtol=1e-5, atol=1e-5)


# -- what a call passes --


def test_nothing_is_copied_and_the_longest_entry_is_read_once(monkeypatch):
    x, y = nested((3, 9), 5), torch.empty(2, 9, 5, device=DEVICE)
    kernel, reads = copying(1, other=0.0), []
    read = jagged.private.read_longest
    monkeypatch.setattr(jagged.private, "read_longest", lambda *given: reads.append(given) or read(*given))
    for _ in range(3):
        kernel(x, y, BLOCK=4)
    kernel(x.transpose(1, 2).transpose(1, 2), y, BLOCK=4)
    assert len(reads) == 1 and x._maybe_max_seqlen == 9
    values, _, offsets, lengths, _, sharing = jagged.bind(kernel.definition, (x, y), {"BLOCK": 4}).arguments
    assert values.data_ptr() == x._values.data_ptr() and offsets is lengths is x.offsets()
    assert sharing == (False, "x")


def test_the_longest_entry_is_not_read_while_a_graph_is_captured(monkeypatch):
    monkeypatch.setattr(jagged, "is_captured", lambda tensor: True)
    x, y = nested((3, 9), 5), torch.empty(2, 9, 5, device=DEVICE)
    with pytest.raises(ArgumentError, match="`x` .*longest entry.*captured; call the kernel once"):
        copying(1, other=0.0)(x, y, BLOCK=4)
    known = from_jagged(x._values, x.offsets(), min_seqlen=3, max_seqlen=9)
    copying(1, other=0.0)(known, y, BLOCK=4)
    assert torch.equal(y.double(), padded(x, 0.0))


@pytest.mark.skipif(DEVICE != "cpu", reason="on a GPU the number is taken on trust")
def test_a_longest_entry_that_is_too_short_is_refused():
    x, y = nested((3, 9), 5), torch.empty(2, 8, 5)
    for gap in (0, 2):
        x = nested((3, 9), 5, gap=gap)
        wrong = from_jagged(x._values, x.offsets(), x.lengths(), min_seqlen=3, max_seqlen=8)
        with pytest.raises(
            SizeError, match="`x` is given .* an entry of 9, whose `max_seqlen` says 8; give the length"
        ):
            copying(1, other=0.0)(wrong, y, BLOCK=4)
    more = from_jagged(x._values, x.offsets(), x.lengths(), min_seqlen=3, max_seqlen=12)
    y = torch.empty(2, 12, 5)
    copying(1, other=0.0)(more, y, BLOCK=4)
    assert torch.equal(y[:, :9].double(), padded(x, 0.0)) and not y[:, 9:].any()


def test_other_lengths_of_a_class_compile_nothing():
    kernel = copying(1, other=7.0)
    for lengths in ((3, 30), (5, 29, 2), (17, 0, 27)):
        x = nested(lengths, 11)
        y = torch.empty(len(lengths), max(lengths), 11, device=DEVICE)
        kernel(x, y, BLOCK=8)
        assert torch.equal(y.double(), padded(x, 7.0))
    assert len(kernel._launcher.variants) == 1


# -- mistakes --


def twice(x, y):
    y = 2 * x


def twice_of(first, second):
    return ninetoothed.make(lambda x, y: (by_blocks(x, 4), by_blocks(y, 4)), twice, (first, second))


def test_offsets_must_be_shared():
    kernel = twice_of(Tensor(3, jagged_dim=1), Tensor(3, jagged_dim=1))
    x, other = nested((3, 9), 5), nested((9, 3), 5)
    with pytest.raises(SizeError, match=r"`x` and `y` are jagged.*do not begin at the same offsets.*x.offsets\(\)"):
        kernel(x, other)
    equal = from_jagged(torch.zeros_like(x._values), x.offsets().clone())
    with pytest.raises(SizeError, match="same offsets"):
        kernel(x, equal)
    kernel(x, from_jagged(equal._values, x.offsets()[:]))
    assert torch.equal(equal._values, 2 * x._values)


def test_offsets_must_be_shared_where_a_loop_indexes_both():
    def arrangement(x, y):
        return by_entries(x, 4), by_entries(y, 4)

    def application(x, y):
        for k in range(x.shape[0]):
            y[k] = 2 * x[k]

    kernel = ninetoothed.make(arrangement, application, (Tensor(3, jagged_dim=1), Tensor(3, jagged_dim=1)))
    x = nested((3, 9), 5)
    for other in (nested((9, 3), 5), nested((1, 1), 5), nested((3, 9), 5, gap=1)):
        with pytest.raises((SizeError, ApplicationError), match="'x' and 'y' are jagged.*same offsets"):
            kernel(x, other)
    ones = nested((1, 0), 5), nested((0, 1), 5)
    with pytest.raises((SizeError, ApplicationError), match="same offsets"):
        kernel(*ones)


def test_what_is_no_jagged_tensor_is_refused():
    kernel = copying(1)
    y = torch.empty(2, 9, 5, device=DEVICE)
    with pytest.raises(
        ArgumentTypeError, match=r"`x` is jagged \(jagged_dim=1\), and the call gives a tensor of \(2, 9"
    ):
        kernel(y, y, BLOCK=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of prototypes, once a process
        strided = torch.nested.nested_tensor([torch.ones(3, 5), torch.ones(4, 5)])
    with pytest.raises(ArgumentTypeError, match="layout torch.strided; make it with layout=torch.jagged"):
        kernel(strided, y, BLOCK=4)
    x = nested((3, 9), 5)
    with pytest.raises(ArgumentError, match="dimension 2 of the call's tensor is jagged; transpose"):
        kernel(x.transpose(1, 2), y, BLOCK=4)
    with pytest.raises(ArgumentError, match="has 3 dimensions, and the call gives a nested tensor of 4"):
        kernel(nested((3, 9), 5, 2), y, BLOCK=4)
    with pytest.raises(ArgumentTypeError, match="`y` is given a jagged nested tensor, and is not jagged.*jagged_dim="):
        kernel(x, x, BLOCK=4)
    with pytest.raises(SizeError, match="`x` and `y`.* sizes 9 .* and 8"):
        kernel(x, y[:, :8], BLOCK=4)
    with pytest.raises(ArgumentTypeError, match=r"takes 2 arguments \(x, y\); got 3"):
        kernel(x, y, y, BLOCK=4)


def test_arrangements_and_applications_that_do_not_fit():
    with pytest.raises(ArrangementError, match="'x' has jagged_dim=0, and dimension 0 is the batch"):
        twice_of(Tensor(3, jagged_dim=0), Tensor(3))
    with pytest.raises(ArrangementError, match="jagged_dim=1, of size 8; leave that size to the call"):
        twice_of(Tensor(shape=(None, 8, None), jagged_dim=1), Tensor(3))

    def in_pairs(x, y):
        return x.tile((2, 4, 8)), y.tile((2, 4, 8))

    x, y = nested((3, 9), 5), torch.empty(2, 9, 5, device=DEVICE)
    kernel = ninetoothed.make(in_pairs, twice, (Tensor(3, jagged_dim=1), Tensor(3)))
    with pytest.raises(
        ApplicationError, match="a tile of 'x' has elements of several entries.*tile that dimension by 1"
    ):
        kernel(x, y)

    def roaming(x, y):
        y = x.source[0, 0, 0]

    kernel = ninetoothed.make(
        lambda x, y: (by_blocks(x, 4), by_blocks(y, 4)), roaming, (Tensor(3, jagged_dim=1), Tensor(3))
    )
    with pytest.raises(ApplicationError, match="'x' is jagged, and elements of its source are not read"):
        kernel(x, y)


def test_what_does_not_know_jagged_tensors_refuses_them():
    kernel, x, y = copying(1), nested((3, 9), 5), torch.empty(2, 9, 5, device=DEVICE)
    with pytest.raises(UnsupportedError, match="cannot be run line by line"):
        kernel.debug(x.cpu(), y.cpu(), BLOCK=4)
    with pytest.raises(ArrangementError, match="`x` is jagged, and only the offsets of a call"):
        Tensor(shape=(2, 3), jagged_dim=1, name="x").tile((1, 2)).eval()
    with pytest.raises(GradientError, match="is jagged, and gradients"):
        derived = ninetoothed.gradient_arrangement(lambda x, y: (by_blocks(x, 4), by_blocks(y, 4)), of="x")
        derived(Tensor(3, jagged_dim=1), Tensor(3, jagged_dim=1))


def test_programs_past_the_end_of_an_entry_do_nothing():
    kernel = twice_of(Tensor(3, jagged_dim=1), Tensor(3, jagged_dim=1))
    x = nested((3, 9), 5)
    text = kernel.source(x, like(x), gpu="h100").text
    assert "if pid_1 * 4 < x_length:\n        x = tl.load(" in text, text


def test_a_kernel_of_jagged_tensors_compiles():
    from ninetoothed.runtime.dispatch import launcher_of
    from ninetoothed.runtime.executable import compile_for_gpu
    from ninetoothed.runtime.selection import machine

    pytest.importorskip("triton")
    half = nested((70, 0, 300), 64, dtype=torch.float16)
    other = torch.randn(3, 64, 64, dtype=torch.float16, device=half.device)
    arguments = half, other, from_jagged(torch.empty_like(half.values()), half.offsets())
    launcher = launcher_of(products())
    compiled = compile_for_gpu(products().definition, launcher.trace(arguments, {}, machine.H200))
    assert compiled.spills == 0
