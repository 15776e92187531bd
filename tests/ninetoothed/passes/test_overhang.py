"""Overhang never contributes: applications over tiles that do not end where their tensors do, against PyTorch on slices
that hold just the elements."""

import os

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor
from ninetoothed.errors import ApplicationError, NineToothedError
from tests.conftest import DEVICE

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
BLOCK = 8


def random(*shape):
    return torch.randn(shape, device=DEVICE)


def tiles(x, *rest):
    """A tile of `x` for each program, and an element of each other tensor."""
    return x.tile((BLOCK,)), *(tensor.tile((1,)) for tensor in rest)


def whole(x, *rest):
    """All of `x` as one tile, whatever its length."""
    return x.tile((-1,)), *(tensor.tile((1,)) for tensor in rest)


def sequence(x, *rest):
    """All tiles of `x`, for one program."""
    return x.tile((BLOCK,)).tile((-1,)), *(tensor.tile((1,)) for tensor in rest)


def run(arrangement, application, x, count=1, dtype=None, tensors=None):
    output = torch.full((count,), 77, device=DEVICE, dtype=dtype or x.dtype)
    kernel = ninetoothed.make(arrangement, application, tensors or (Tensor(1), Tensor(1)))
    kernel(x, output)
    return output


# -- reductions: of one tile ------------------------------------------------------------------------


def product(a, b):
    return a * b


def first_extremum(x, y):
    y = ntl.max(x) * 100 + ntl.argmax(x, 0)


REDUCTIONS = {
    "max": (lambda x: ntl.max(x), torch.amax),
    "min": (lambda x: ntl.min(x), torch.amin),
    "sum": (lambda x: ntl.sum(x), torch.sum),
    "exponentials": (lambda x: ntl.sum(ntl.exp(x)), lambda t: t.exp().sum()),
    "variance": (lambda x: ntl.sum((x - ntl.sum(x) / x.shape[0]) ** 2), lambda t: ((t - t.sum() / BLOCK) ** 2).sum()),
    "argmax": (lambda x: ntl.argmax(x, 0), torch.argmax),
    "argmin": (lambda x: ntl.argmin(x, 0), torch.argmin),
    "product": (lambda x: ntl.reduce(x, 0, product), torch.prod),
    "flipped argmax": (lambda x: ntl.argmax(ntl.flip(x), 0), lambda t: BLOCK - t.shape[0] + t.flip(0).argmax()),
    "cosines": (lambda x: ntl.sum(ntl.cos(x) + 1.0), lambda t: (t.cos() + 1).sum()),
    "of a choice": (lambda x: ntl.max(ntl.where(x < -10.0, x, x - 20.0)), lambda t: (t - 20).amax()),
}


@pytest.mark.parametrize("sign", (-1, 1))
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name, sign):
    function, expected = REDUCTIONS[name]

    def application(x, y):
        y = function(x)

    x = (random(11).abs() + 0.5) * sign
    found = run(tiles, application, x, 2)
    torch.testing.assert_close(found, torch.stack([expected(x[:8]), expected(x[8:])]).to(x.dtype))


@pytest.mark.parametrize("size", (1, 3, 5, 8, 13))
@pytest.mark.parametrize("name", ("max", "min", "sum", "exponentials", "argmax", "product", "cosines"))
def test_extents_that_are_rounded_up(name, size):
    function, expected = REDUCTIONS[name]

    def application(x, y):
        y = function(x)

    x = -random(size).abs() - 0.5
    torch.testing.assert_close(run(whole, application, x), expected(x).to(x.dtype)[None])


# How a size is known, and a tile of 5 elements of which none is past an end: only three of its eight lanes are.
ALL_ARE_THERE = {
    "fixed": ({"shape": (5,)}, 5, lambda x: x.tile((5,)), None),
    "constexpr": ({"ndim": 1, "shape_options": {"constexpr": True}}, 5, lambda x: x.tile((5,)), None),
    "second part": ({"ndim": 1}, 10, lambda x: inner(x.tile((10,)), lambda tile: tile.tile((5,))), 1),
    "window": ({"ndim": 1}, 9, lambda x: inner(x.tile((9,)), lambda tile: tile.tile((5,), strides=(2,))), 2),
    "stencil": ({"ndim": 1}, 10, lambda x: inner(
        x.pad(((1, 1),)).tile((7,), strides=(5,)), lambda tile: tile.tile((5,), strides=(1,), floor_mode=True)), 1),
}  # fmt: skip
OF_ALL = {
    **{name: REDUCTIONS[name] for name in ("max", "min", "exponentials", "argmin", "product", "cosines")},
    "count": (lambda x: ntl.sum(x * 0 + 1.0), lambda t: torch.tensor(5.0)),
    "softmax": (lambda x: ntl.sum(ntl.softmax(x + 1.0)), lambda t: torch.tensor(1.0)),
    "scan": (lambda x: ntl.max(ntl.cumsum(x + 9.0, 0, reverse=True)), lambda t: (t + 9).sum()),
    "sort": (lambda x: ntl.sum(ntl.sort(x + 9.0, descending=True)), lambda t: (t + 9).sum()),
    "histogram": (lambda x: ntl.max(ntl.histogram(ntl.cast(x * 0, ntl.int32), 4)), lambda t: torch.tensor(5)),
    "dot": (lambda x: ntl.sum(ntl.dot(ntl.cos(x)[None, :], ntl.cos(x)[:, None])), lambda t: (t.cos() ** 2).sum()),
}


def inner(tensor, arrange):
    tensor.dtype = arrange(tensor.dtype)
    return tensor


@pytest.mark.parametrize("kind", ALL_ARE_THERE)
@pytest.mark.parametrize("name", OF_ALL)
def test_tiles_of_no_power_of_two_that_end_where_their_tensors_do(name, kind):
    options, size, arrange, part = ALL_ARE_THERE[kind]
    function, expected = OF_ALL[name]

    def application(x, y):
        y = function(x if part is None else x[part])

    x = -random(size).abs() - 0.5
    start = {"second part": 5, "window": 4}.get(kind, 0)
    count = 2 if kind == "stencil" else 1
    found = run(lambda x, y: (arrange(x), y.tile((1,))), application, x, count, torch.float32,
                (Tensor(**options), Tensor(1)))  # fmt: skip
    torch.testing.assert_close(found[:1].cpu(), expected(x[start : start + 5].cpu()).to(x.dtype)[None])


def test_narrow_integers():
    def application(x, y):
        y = ntl.max(x)

    for dtype in (torch.int8, torch.int32, torch.int64):
        x = torch.tensor([-5, -3, -7], device=DEVICE, dtype=dtype)
        assert run(tiles, application, x).tolist() == [-3]


def test_rows_of_a_tile_that_end():
    def application(x, y):
        y = ntl.max(ntl.sum(x, 1))

    x = torch.full((3, 4), -2.0, device=DEVICE)
    output = random(1)
    kernel = ninetoothed.make(
        lambda x, y: (x.tile((4, 4)), y.tile((1,)).unsqueeze(1)), application, (Tensor(2), Tensor(1))
    )
    kernel(x, output)
    assert output.item() == -8


ROWS_PAST_THE_END = {
    "sum": (lambda x: ntl.sum(ntl.sum(x, 0) + 1), lambda t: (t.sum(0) + 1).sum()),
    "kept": (lambda x: ntl.sum(ntl.trans(ntl.sum(x + 1, 0, keep_dims=True)) + 1), lambda t: ((t + 1).sum(0) + 1).sum()),
    "maximum": (
        lambda x: ntl.max(ntl.maximum(ntl.max(x, 0), -9.0)),
        lambda t: torch.cat([t.ravel(), t.new_tensor([-9.0])]).max(),
    ),
    "moved": (
        lambda x: ntl.sum(ntl.sum(ntl.trans(x)[:, None], 2) + 1),
        lambda t: (t.sum(0) + 1).sum(),
    ),
    "reshaped": (
        lambda x: ntl.sum(ntl.sum(ntl.sum(ntl.reshape(x, (x.shape[0], 2, 2)), 0) + 1, 0) + 1),
        lambda t: (t.sum(0) + 1).sum() + 2,
    ),
    "flattened": (lambda x: ntl.sum(ntl.sum(ntl.ravel(x), 0, keep_dims=True) + 1), lambda t: t.sum() + 1),
    "both": (
        lambda x: ntl.sum(ntl.sum(ntl.sum(x, 0, keep_dims=True) + 1, 1, keep_dims=True) + 1),
        lambda t: (t.sum(0) + 1).sum() + 1,
    ),
    "broadcast": (
        lambda x: ntl.sum(ntl.sum(ntl.broadcast_to(x[None], (2, *x.shape)), 1) + 1),
        lambda t: 2 * (t.sum(0) + 1).sum(),
    ),
    "stretched": (
        lambda x: ntl.sum(ntl.sum(ntl.broadcast_to(x, (2, 4)), 0) + 1),
        lambda t: (2 * t.sum(0) + 1).sum(),
    ),
    "product": (
        lambda x: ntl.sum(ntl.dot(ntl.trans(x), ntl.full((x.shape[0], 4), 1.0, ntl.float32)) + 1),
        lambda t: (t.T @ torch.ones(len(t), 4, device=DEVICE) + 1).sum(),
    ),
    "other axis": (lambda x: ntl.sum(ntl.max(x, 1) * 0 + 1), lambda t: torch.tensor(float(len(t)))),
    "other axis kept": (
        lambda x: ntl.sum(ntl.max(x, 1, keep_dims=True) * 0 + 1),
        lambda t: torch.tensor(float(len(t))),
    ),
}


def rows_of_tiles(x):
    """Tiles of one row; the first of a sequence begins at rows 0, 3, 6, ..."""
    x = x.tile((1, 4), strides=(3, 4)).tile((1, -1)).squeeze(1)
    x.dtype = x.dtype.squeeze(0)
    return x


def rows_of_parts(x):
    """Parts of a tile of three rows: the second has the tile's last one alone."""
    x = x.tile((3, 4)).squeeze(1)
    x.dtype = x.dtype.tile((2, 4)).squeeze(1)
    return x


# An arrangement of rows of four, the tile that is read, how many rows there are, and which is read.
ROWS = {
    "tiles": (rows_of_tiles, lambda x: x[0], 9, (0, 3, 6, 9)),
    "parts": (rows_of_parts, lambda x: x[1], 10, (2, 5, 8, 11)),
}


@pytest.mark.parametrize(
    "name, arranged",
    # A tile of two lanes is not stretched to two.
    [(name, arranged) for name in ROWS_PAST_THE_END for arranged in ROWS if (name, arranged) != ("stretched", "parts")],
)
def test_a_row_that_is_past_the_end(name, arranged):
    """The row of the last program lies past the end: reduced, it has the identity in each column."""
    function, expected = ROWS_PAST_THE_END[name]
    arrange, read, size, places = ROWS[arranged]

    def application(x, y):
        y = function(read(x))

    x = random(size, 4)
    found = run(lambda x, y: (arrange(x), y.tile((1,))), application, x, 4, tensors=(Tensor(2), Tensor(1)))
    torch.testing.assert_close(found, torch.stack([expected(x[i : i + 1]).to(found) for i in places]))


@pytest.mark.parametrize("keep_dims", (False, True))
def test_what_is_past_the_end_as_a_whole(keep_dims):
    """Reduced along all of its axes it is the identity and no overhang, whether or not the axes are kept."""

    def picked(x, y):
        y = ntl.sum(ntl.sum(x[2], 0, keep_dims=keep_dims) + 1)

    def plane(x, y):
        rows = ntl.sum(x[2], 0, keep_dims=keep_dims) + 1
        y = ntl.sum(ntl.sum(rows, -1, keep_dims=keep_dims) + 1)

    for application, shape, counts in ((picked, (4, 4), 0), (plane, (4, 2, 4), 4)):
        x, rest = random(*shape), shape[1:]
        found = run(
            lambda x, y, rest=rest: (x.tile((3, *rest)).squeeze(tuple(range(1, len(rest) + 1))), y.tile((1,))),
            application, x, 2, tensors=(Tensor(len(shape)), Tensor(1)),
        )  # fmt: skip
        torch.testing.assert_close(found, torch.stack([x[2].sum() + counts + 1, torch.ones((), device=DEVICE)]))


def test_the_old_value_joins_a_part_that_is_past_the_end_as_a_whole():
    """What it is reduced to is no overhang: it changes the old value."""

    def application(x, y, z):
        total = y + y
        total = total - ntl.min(x[2] + 3, 0, keep_dims=True) // 2
        z = total

    def arrangement(x, y, z):
        x = x.tile((5,))
        x.dtype = x.dtype.tile((2,))
        return x, y.tile((2,)), z.tile((2,))

    x, y, z = (torch.randint(-9, 9, (n,), device=DEVICE) for n in (8, 4, 4))
    ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1), Tensor(1)))(x, y, z)
    least = torch.stack([x[4] + 3, torch.tensor(torch.iinfo(torch.int64).max, device=DEVICE)])
    assert torch.equal(z, 2 * y - (least // 2).repeat_interleave(2))


def test_both_axes_end():
    def application(x, y):
        y = ntl.min(ntl.max(ntl.exp(x) + 1.0, 0)) + ntl.max(ntl.min(x, 1))

    x, output = -random(11, 13).abs() - 1, random(2, 2)
    kernel = ninetoothed.make(lambda x, y: (x.tile((8, 8)), y.tile((1, 1))), application, (Tensor(2), Tensor(2)))
    kernel(x, output)
    for i in range(2):
        for j in range(2):
            part = x[8 * i : 8 * i + 8, 8 * j : 8 * j + 8]
            expected = (part.exp() + 1).amax(0).amin() + part.amin(1).amax()
            torch.testing.assert_close(output[i, j], expected)


def test_over_no_lane_at_all():
    def application(x, y):
        y = ntl.sum(x[0]) + ntl.sum(x[1])

    def arrangement(x, y):
        return x.tile((BLOCK,)).tile((2,)), y.tile((1,))

    torch.testing.assert_close(run(arrangement, application, x := random(3)), x.sum()[None])


@pytest.mark.parametrize("kind", ("open", "fixed", "constexpr"))
@pytest.mark.parametrize("shape", ((0,), (0, 3), (3, 0), (0, 0)))
def test_of_no_element(shape, kind):
    """A dimension of no element has a lane, as one of a single element does."""

    def tensor():
        sizes = shape if kind == "fixed" else (None,) * len(shape)
        return Tensor(shape=sizes, shape_options={"constexpr": kind == "constexpr"})

    def application(x, total, greatest, place, rows, sorts):
        total = ntl.sum(ntl.exp(x))
        greatest = ntl.max(x + 1)
        place = ntl.argmax(x + 1, 0 if x.ndim == 1 else None)
        rows = ntl.sum(ntl.sum(x + 1, x.ndim - 1) + 1)
        sorts = ntl.sum(ntl.cumsum(ntl.sort(x + 1), 0))

    def met(x, one, total, chosen, counted):
        """Beside a tile of one element, which has as many lanes, and beside numbers."""
        total = ntl.sum(one + x) + ntl.sum(x + one)
        chosen = ntl.sum(ntl.where(x < 1, 3.0, 4.0))
        counted = ntl.sum(ntl.histogram(x.to(ntl.int32), 4) if x.ndim == 1 else x + one)

    def arrangement(x, *rest):
        return x.tile((-1,) * x.ndim), *rest

    found = [torch.full((), 77.0, device=DEVICE) for _ in range(5)]
    kernel = ninetoothed.make(arrangement, application, (tensor(), *(Tensor(0) for _ in found)))
    kernel(torch.zeros(shape, device=DEVICE), *found)
    assert [each.item() for each in found] == [0, -float("inf"), 0, shape[0] if len(shape) == 2 else 1, 0]
    kernel = ninetoothed.make(
        lambda x, one, *rest: (*(each.tile((-1,) * each.ndim) for each in (x, one)), *rest),
        met,
        (tensor(), Tensor(len(shape)), Tensor(0), Tensor(0), Tensor(0)),
    )
    kernel(torch.zeros(shape, device=DEVICE), torch.ones((1,) * len(shape), device=DEVICE), *found[:3])
    assert [each.item() for each in found[:3]] == [0, 0, 0]


ARRANGED_EMPTY = {
    "a row": lambda x: x.tile((1, -1)),
    "a row, flattened": lambda x: inner(x.tile((1, -1)), lambda row: row.flatten()),
    "rows in one dimension": lambda x: x.tile((1, -1)).flatten(),
    "all, flattened": lambda x: x.flatten().tile((-1,)),
    "repeated": lambda x: x.unsqueeze(0).expand((2, -1, -1)).flatten().tile((-1,)),
    "transposed": lambda x: x.permute((1, 0)).tile((-1, 1)),
    "sliced": lambda x: x[::2, ::-1].tile((-1, -1)),
    "tiles of nothing": lambda x: x.tile((1, 0), strides=(1, 1)),
}


@pytest.mark.parametrize("kind", ("open", "fixed", "constexpr"))
@pytest.mark.parametrize("arranged", ARRANGED_EMPTY)
def test_no_element_in_any_arrangement(arranged, kind):
    arrange = ARRANGED_EMPTY[arranged]

    def application(x, y):
        y = ntl.sum(x + 1)

    shape = (3, None if kind == "open" else 0)
    x = Tensor(shape=(None, None) if kind == "constexpr" else shape, shape_options={"constexpr": kind == "constexpr"})
    programs = ninetoothed.eval(arrange(x), {x: {"shape": (3, 0)}}).shape[: len(arrange(x).shape)]
    y = torch.full(programs, 77.0, device=DEVICE)
    kernel = ninetoothed.make(lambda x, y: (arrange(x), y.tile((1,) * y.ndim)), application, (x, Tensor(len(programs))))
    kernel(torch.zeros(3, 0, device=DEVICE), y)
    assert torch.equal(y, torch.zeros_like(y))


# -- what counts ------------------------------------------------------------------------------------


def test_padding_counts():
    def application(x, before, y):
        y = ntl.sum((x - before) ** 2)

    def arrangement(x, before, y):
        return *(tensor.tile((BLOCK,)) for tensor in (x, before.pad(((1, 0),))[:-1])), y.tile((1,))

    x, y = random(11), random(2)
    ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1), Tensor(1)))(x, x, y)
    expected = (x - torch.nn.functional.pad(x, (1, 0))[:-1]) ** 2
    torch.testing.assert_close(y, torch.stack([expected[:8].sum(), expected[8:].sum()]))


def test_what_the_program_reaches_for_counts():
    def application(x, y):
        total = 0.0
        for k in range(x.shape[0]):
            total += ntl.sum((x[k] - x[k - 1]) ** 2)
        y = total

    def arrangement(x, y):
        rows = x.tile((1, -1)).tile((-1, 1)).squeeze(1)
        rows.dtype = rows.dtype.squeeze(1)
        rows.dtype.dtype = rows.dtype.dtype.squeeze(0)
        return rows, y.tile((1,))

    x = random(5, 11)
    before = torch.cat([torch.zeros(1, 11, device=DEVICE), x[:-1]])
    torch.testing.assert_close(
        run(arrangement, application, x, tensors=(Tensor(2), Tensor(1))), ((x - before) ** 2).sum()[None]
    )


def test_other_counts():
    def application(x, y):
        y = ntl.sum(x)

    x = random(11)
    found = run(tiles, application, x, 2, tensors=(Tensor(1, other=2.0), Tensor(1)))
    torch.testing.assert_close(found, torch.stack([x[:8].sum(), x[8:].sum() + 5 * 2]))


def test_gathers_and_choices():
    def application(i, x, y):
        y = ntl.sum(ntl.where(i >= 0, x.source[i], 5.0))

    def arrangement(i, x, y):
        return i.tile((BLOCK,)), x.tile((-1,)).expand((-(-i.shape[0] // BLOCK),)), y.tile((1,))

    i = torch.tensor([0, -1, 2, 3, -1, 1, 0, 9, 1, -1, 2], device=DEVICE)
    x, y = random(4), random(2)
    ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1), Tensor(1)))(i, x, y)
    picked = torch.where(i >= 0, torch.cat([x, torch.zeros(6, device=DEVICE)])[i.clamp(min=0)], 5.0)
    torch.testing.assert_close(y, torch.stack([picked[:8].sum(), picked[8:].sum()]))


def test_a_choice_of_what_is_no_overhang_counts():
    def application(x, flags, y):
        y = ntl.sum(ntl.where(flags != 0, x, 3.0))

    def arrangement(x, flags, y):
        flags = flags.tile((BLOCK,))
        return x.tile((BLOCK,)), flags, y.tile((1,))

    x, flags, y = random(11), torch.tensor([1, 0] * 5 + [1], device=DEVICE), random(2)
    tensors = (Tensor(1), Tensor(1, other=0), Tensor(1))
    ninetoothed.make(arrangement, application, tensors)(x, flags, y)
    chosen = torch.where(flags != 0, x, 3.0)
    torch.testing.assert_close(y, torch.stack([chosen[:8].sum(), chosen[8:].sum() + 5 * 3.0]))


def test_a_choice_by_a_number_and_the_end():
    """Below the least of both is below the end; below the greatest is not."""

    def below_least(count, x, y):
        end = min(ntl.cast(count[0], ntl.int32), x.source.shape[0])
        y = ntl.sum(ntl.where(x.offsets(0) < end, x, 3.0)) + ntl.max(ntl.where(x.offsets(0) < end, x, -9.0))

    def below_greatest(count, x, y):
        end = max(ntl.cast(count[0], ntl.int32), x.source.shape[0])
        y = ntl.sum(ntl.where(x.offsets(0) < end, x, 3.0)) + ntl.max(ntl.where(x.offsets(0) < end, x, -9.0))

    def arrangement(count, x, y):
        x = x.tile((BLOCK,))
        return count.tile((1,)).expand(x.shape), x, y.tile((1,))

    for number in (-3, 0, 5, 9, 11, 13, 40):
        x, y, count = random(11), random(2), torch.tensor([number], device=DEVICE)
        lanes = torch.arange(16, device=DEVICE)
        padded = torch.cat([x, torch.zeros(5, device=DEVICE)])
        for application, end in ((below_least, min(number, 11)), (below_greatest, max(number, 11))):
            ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1), Tensor(1)))(count, x, y)
            is_counted = (lanes < 11) | (lanes >= end)
            sums = torch.where(is_counted, torch.where(lanes < end, padded, 3.0), 0.0).view(2, 8).sum(1)
            peaks = torch.where(is_counted, torch.where(lanes < end, padded, -9.0), -float("inf")).view(2, 8).amax(1)
            torch.testing.assert_close(y, sums + peaks)


# -- variables --------------------------------------------------------------------------------------


def test_the_last_tile():
    def application(x, y):
        last = x[0]
        for i in range(x.shape[0]):
            last = x[i]
        y = ntl.max(last) + ntl.sum(ntl.exp(last))

    for size in (3, 11, 16, 21):
        x = -random(size).abs() - 1
        last = x[(size - 1) // 8 * 8 :]
        torch.testing.assert_close(run(sequence, application, x), (last.amax() + last.exp().sum())[None])


def test_sums_of_exponentials_online():
    def application(x, y):
        peak = ntl.full((), float("-inf"), dtype=ntl.float32)
        total = ntl.zeros((BLOCK,), dtype=ntl.float32)
        for i in range(x.shape[0]):
            new = ntl.maximum(peak, ntl.max(x[i]))
            total = total * ntl.exp(peak - new) + ntl.exp(x[i] - new)
            peak = new
        y = ntl.max(total) + ntl.sum(total) * 10 + peak

    for size in (3, 11, 21):
        x = random(size) - 2
        weights = (x - x.amax()).exp()
        total = torch.nn.functional.pad(weights, (0, -size % 8)).view(-1, 8).sum(0)
        torch.testing.assert_close(run(sequence, application, x), (total.amax() + total.sum() * 10 + x.amax())[None])


def test_elementwise_peaks_online():
    def application(x, y):
        peak = ntl.full((BLOCK,), -100.0, dtype=ntl.float32)
        total = ntl.zeros((BLOCK,), dtype=ntl.float32)
        for i in range(x.shape[0]):
            new = ntl.maximum(peak, x[i])
            total = total * ntl.exp(peak - new) + ntl.exp(x[i] - new)
            peak = new
        y = ntl.sum(total) + ntl.min(peak) * 100

    x = random(21) - 2
    rows = torch.nn.functional.pad(x, (0, 3), value=float("-inf")).view(-1, 8)
    peak = rows.amax(0)
    expected = (rows - peak).exp().sum() + peak.amin() * 100
    torch.testing.assert_close(run(sequence, application, x), expected[None])


@pytest.mark.skipif(IS_INTERPRETED, reason="the greater of NaN and a number is NaN in Triton's interpreter")
def test_peaks_that_are_nan_stay():
    def application(x, y):
        peak = y
        for k in range(x.shape[0]):
            peak = ntl.maximum(peak, x[k])
        y = peak

    def arrangement(x, y):
        return sequence(x)[0], y.tile((BLOCK,))

    x, y = random(3), torch.full((BLOCK,), float("nan"), device=DEVICE)
    ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1)))(x, y)
    assert torch.equal(y[:3], x) and y[3:].isnan().all()


def test_variables_that_are_assigned_other_variables():
    def application(x, y):
        total = y * ntl.max(x)
        total = total + ntl.floor(x)
        chosen = x
        if ntl.max(x) > 0:
            chosen = total
        y = chosen

    def arrangement(x, y):
        return x.tile((BLOCK,)), y.tile((BLOCK,))

    x, y = random(BLOCK + 3).abs() + 1, torch.ones(BLOCK + 3, device=DEVICE)
    ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1)))(x, y)
    expected = torch.cat([x[:BLOCK].floor() + x[:BLOCK].amax(), x[BLOCK:].floor() + x[BLOCK:].amax()])
    torch.testing.assert_close(y, expected)


def centred(x, y):
    value = x * 2
    value = value - ntl.max(value)
    value /= ntl.sum(ntl.exp(value))
    y = ntl.sum(ntl.exp(value))


def centred_in_a_loop(x, y):
    value = x * 1
    for _ in range(3):
        value = value - ntl.sum(value)
    y = ntl.sum(value)


def with_other_operands(x, y):
    value = x * 1
    value = ntl.sum(value, 0, keep_dims=True) + x
    value = ntl.where(x > 0, value, ntl.sum(value) * x)
    y = ntl.sum(ntl.cos(value))


def reused_for_another_shape(x, y):
    value = ntl.max(x, 0, keep_dims=True)
    value = x - value
    y = ntl.sum(ntl.cos(value))


def reduced_along_an_axis(x, y):
    value = x[:, None] + x[None, :]
    value = value - ntl.sum(value, 0)[None, :]
    value = ntl.max(value, 1)[:, None] * value
    y = ntl.sum(ntl.cos(value))


@pytest.mark.parametrize(
    "application",
    (centred, centred_in_a_loop, with_other_operands, reused_for_another_shape, reduced_along_an_axis),
    ids=lambda application: application.__name__,
)
def test_variables_assigned_from_what_they_were_reduced_to(application):
    # In float32 the cosine of a large number says more of rounding than of the number.
    x = random(BLOCK + 5).double()
    y = run(tiles, application, x, 2)
    # Whole dimensions hold the same elements.
    for part, found in zip(x.split(BLOCK), y, strict=True):
        expected = run(whole, application, part)
        torch.testing.assert_close(found, expected[0], rtol=1e-4, atol=1e-4)


def test_running_means_stay_where_there_is_nothing_more():
    def weighted(x, y):
        mean = ntl.zeros((BLOCK,), dtype=ntl.float32)
        for i in range(x.shape[0]):
            mean += (x[i] - mean) / (i + 1)
        y = mean

    def in_two_statements(x, y):
        mean = ntl.zeros((BLOCK,), dtype=ntl.float32)
        for i in range(x.shape[0]):
            delta = mean - x[i]
            mean = mean - delta / (i + 1)
        y = mean

    def arrangement(x, y):
        return sequence(x)[0], y.tile((BLOCK,))

    x = random(2 * BLOCK + 3)
    expected = torch.stack([x[lane::BLOCK].double().mean() for lane in range(BLOCK)]).float()
    for application in (weighted, in_two_statements):
        torch.testing.assert_close(run(arrangement, application, x, BLOCK), expected)


def test_lanes_past_two_ends_hold_the_old_value():
    def arrangement(x, w, y):
        x = x.tile((4, 8))
        return x, w.tile((4,)).unsqueeze(1).expand((-1, x.shape[1])), y.tile((1, 1))

    def application(x, w, y):
        value = ntl.zeros((4, 8), dtype=ntl.float32) + ntl.exp(w)[:, None]
        value = value * x
        y = ntl.sum(value)

    x, w, y = random(6, 10), random(6), torch.empty(2, 2, device=DEVICE)
    ninetoothed.make(arrangement, application, (Tensor(shape=(6, 10)), Tensor(shape=(6,)), Tensor(2)))(x, w, y)
    for i, (rows, factors) in enumerate(zip(x.split(4), w.exp().split(4), strict=True)):
        for j, part in enumerate(rows.split(8, 1)):
            kept = factors.sum() * (8 - part.shape[1]) + (factors[:, None] * part).sum()
            torch.testing.assert_close(y[i, j], kept, rtol=1e-4, atol=1e-4)


def test_old_values_that_are_converted_back():
    def application(x, y):
        total = y * 2.0
        for k in range(x.shape[0]):
            total = (total - x[k]).to(total.dtype)
        last = y * 3.0
        last = last + total
        y = last

    def arrangement(x, y):
        return sequence(x)[0], y.tile((BLOCK,))

    x, y = random(3).double(), torch.ones(BLOCK, device=DEVICE)
    ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1)))(x, y)
    expected = 5 - torch.nn.functional.pad(x, (0, BLOCK - 3))
    torch.testing.assert_close(y, expected.float())


def test_whole_dimensions_that_dilation_leaves():
    def application(x, y):
        y = ntl.sum(ntl.exp(x))

    def arrangement(x, y):
        return x.tile((-1,), dilation=(2,)), y.tile((1,))

    x = random(5)
    torch.testing.assert_close(run(arrangement, application, x), x[::2].exp().sum()[None])


def test_accumulators_in_nested_loops_helpers_and_unrolled():
    def add(total, tile):
        total += ntl.cos(tile)

    def nested(x, y):
        total = ntl.zeros((BLOCK,), dtype=ntl.float32)
        for _ in range(2):
            for i in range(x.shape[0]):
                total += ntl.cos(x[i])
        y = ntl.sum(total) + ntl.max(total) * 7

    def helped(x, y):
        total = ntl.zeros((BLOCK,), dtype=ntl.float32)
        for i in range(x.shape[0]):
            add(total, x[i])
            add(total, x[i])
        y = ntl.sum(total) + ntl.max(total) * 7

    def unrolled(x, y):
        total = ntl.zeros((BLOCK,), dtype=ntl.float32)
        for i in ntl.static_range(2):
            total = total + ntl.cos(x[i])
            total = total + ntl.cos(x[i])
        y = ntl.sum(total) + ntl.max(total) * 7

    def branching(x, y):
        total = ntl.zeros((BLOCK,), dtype=ntl.float32)
        for i in range(x.shape[0]):
            if i >= 0:
                total += ntl.cos(x[i]) * 2
        y = ntl.sum(total) + ntl.max(total) * 7

    x = random(11)
    total = 2 * torch.nn.functional.pad(x.cos(), (0, 5)).view(-1, 8).sum(0)
    for application in (nested, helped, unrolled, branching):
        found = run(sequence, application, x)
        torch.testing.assert_close(found, (total.sum() + total.amax() * 7)[None], msg=application.__name__)


def test_a_branch_chooses_a_tile():
    def application(x, y):
        tile = x[0]
        if x.source.shape[0] > 9:
            tile = x[1]
        y = ntl.sum(ntl.exp(tile))

    def arrangement(x, y):
        return x.tile((BLOCK,)).tile((2,)), y.tile((1,))

    for size in (5, 11):
        x = random(size)
        torch.testing.assert_close(run(arrangement, application, x), x[(size > 9) * 8 :].exp().sum()[None])


def test_ends_known_only_at_run_time():
    def application(start, x, y):
        y = ntl.max(x[start]) - ntl.sum(ntl.exp(x[start]))

    def arrangement(start, x, y):
        return start, x.tile((BLOCK,)).tile((-1,)), y.tile((1,))

    x, y = -random(11).abs() - 1, random(1)
    for start in range(2):
        ninetoothed.make(arrangement, application, (Tensor(0), Tensor(1), Tensor(1)))(start, x, y)
        part = x[8 * start : 8 * start + 8]
        torch.testing.assert_close(y, (part.amax() - part.exp().sum())[None])


# -- more than one lane at once ---------------------------------------------------------------------


def test_products_along_an_odd_depth():
    def application(x, w, y):
        y = ntl.dot(ntl.log(x), w, input_precision="ieee")

    def arrangement(x, w, y):
        return x.tile((-1, -1)), w.tile((-1, -1)), y.tile((-1, -1))

    for depth in (1, 5, 19):
        x, w, y = random(16, depth).abs() + 0.1, random(depth, 16), random(16, 16)
        ninetoothed.make(arrangement, application, (Tensor(2), Tensor(2), Tensor(2)))(x, w, y)
        torch.testing.assert_close(y, x.log() @ w)


def test_rows_that_are_stacked():
    def stack(x, y):
        tiled = x.tile((-1, BLOCK, -1)).squeeze((0, 2))
        return tiled, y.tile((1,))

    def application(x, y):
        y = ntl.max(ntl.sum(ntl.reshape(x, (2 * BLOCK, 4)), 1))

    x, y = -random(2, 11, 4).abs(), torch.full((2,), 77.0, device=DEVICE)
    ninetoothed.make(stack, application, (Tensor(shape=(2, None, 4)), Tensor(1)))(x, y)
    torch.testing.assert_close(y, torch.stack([x[:, :BLOCK].sum(2).max(), x[:, BLOCK:].sum(2).max()]))


def test_an_infinite_weight_meets_padding():
    import ninetoothed_ops

    x, w = random(1, 2, 5, 5), random(3, 2, 3, 3)
    w[1, 0, 0, 0] = float("inf")
    expected = torch.nn.functional.conv2d(x, w, padding=1)
    torch.testing.assert_close(ninetoothed_ops.conv2d(x, w, padding=1), expected, equal_nan=True)
    assert expected.isnan().any()


@pytest.mark.parametrize("descending", (False, True))
def test_sorts(descending):
    def application(x, y):
        y = ntl.sort(x, descending=descending)

    def arrangement(x, y):
        return x.tile((BLOCK,)), y.tile((BLOCK,))

    special = torch.tensor([3.0, float("nan"), -1.0, float("inf"), 0.5, -float("inf"), 2.0, -7.0], device=DEVICE)
    for x in (torch.cat([special, special[:3]]), torch.cat([special, -special[3:6]]), random(11), random(11).double()):
        found = run(arrangement, application, x, x.shape[0])
        expected = torch.cat([part.sort(descending=descending).values for part in x.split(8)])
        torch.testing.assert_close(found, expected, equal_nan=True)


@pytest.mark.parametrize("size, k", ((11, 3), (60, 6), (16, 5), (16, 4), (5, 5), (1, 1)))
def test_the_largest_of_any_number(size, k):
    def application(x, y):
        y = ntl.topk(x, k)

    x, y = random(3, size) - 9, torch.full((3, k), torch.nan, device=DEVICE)
    tensors = (Tensor(2, shape_options=(None, {"constexpr": True})), Tensor(2))
    rows = lambda *tensors: tuple(tensor.tile((2, -1)).squeeze(1) for tensor in tensors)  # noqa: E731
    ninetoothed.make(rows, application, tensors)(x, y)
    assert torch.equal(y, x.topk(k).values.to(y.dtype))


@pytest.mark.parametrize("reverse", (False, True))
def test_scans(reverse):
    def application(x, y):
        y = ntl.cumsum(ntl.exp(x), 0, reverse=reverse) + ntl.associative_scan(x, 0, ntl.maximum, reverse=reverse)

    def arrangement(x, y):
        return x.tile((BLOCK,)), y.tile((BLOCK,))

    def expected(part):
        part = part.flip(0) if reverse else part
        found = part.exp().cumsum(0) + part.cummax(0).values
        return found.flip(0) if reverse else found

    x = -random(11).abs() - 1
    torch.testing.assert_close(run(arrangement, application, x, 11), torch.cat([expected(p) for p in x.split(8)]))


def first_greatest(a, i, b, j):
    return ntl.maximum(a, b), ntl.where(a >= b, i, j)


def test_what_is_combined_with_a_tile_ends_where_that_does():
    def reduced(x, y):
        columns = ntl.zeros((4, 8), dtype=ntl.int32) + ntl.arange(0, 8)[None, :]
        y = ntl.sum(ntl.reduce((x, columns), 1, first_greatest)[1] + 1)

    def scanned(x, y):
        columns = ntl.zeros((4, 8), dtype=ntl.int32) + ntl.arange(0, 8)[None, :]
        y = ntl.sum(ntl.associative_scan((x, columns), 1, first_greatest)[1] + 1)

    def arrangement(x, y):
        return x.tile((4, 8)), y.tile((1, 1))

    x, y = random(6, 5), torch.empty(2, 1, dtype=torch.int64, device=DEVICE)
    for application, indices in ((reduced, x.argmax(1)), (scanned, x.cummax(1).indices)):
        ninetoothed.make(arrangement, application, (Tensor(2), Tensor(2)))(x, y)
        expected = torch.stack([(part + 1).sum() for part in indices.split(4)])
        assert torch.equal(y[:, 0], expected), application.__name__


def test_inverted_integers_hold_minus_one():
    def application(x, y):
        y = ntl.cumprod(~x, 0, reverse=True)

    x = torch.arange(1, 6, device=DEVICE, dtype=torch.int32)
    kernel = ninetoothed.make(lambda x, y: (x.tile((BLOCK,)), y.tile((BLOCK,))), application, (Tensor(1), Tensor(1)))
    kernel(x, output := torch.full_like(x, 77))
    assert output.tolist() == (~x).flip(0).cumprod(0).flip(0).tolist()


def test_histograms():
    def application(x, y):
        y = ntl.histogram(x, 4)

    def arrangement(x, y):
        return x.tile((BLOCK,)), y.tile((4,))

    x = torch.tensor([0, 1, 3, 3, 2, 1, 0, 0, 3, 1, 0], device=DEVICE, dtype=torch.int32)
    assert run(arrangement, application, x, 8).tolist() == [3, 2, 1, 2, 1, 1, 0, 1]


def test_assertions():
    def application(x, y):
        ntl.device_assert(x > 0, "positive")
        y = ntl.sum(x)

    x = random(11).abs() + 0.5
    torch.testing.assert_close(run(tiles, application, x, 2), torch.stack([x[:8].sum(), x[8:].sum()]))


def test_atomics():
    def application(x, y):
        ntl.atomic_max(y.source.data_ptr() + ntl.zeros(x.shape, dtype=ntl.int32), x)

    def arrangement(x, y):
        return x.tile((BLOCK,)), y.tile((-1,)).expand((-(-x.shape[0] // BLOCK),))

    x = -torch.arange(3, 14, device=DEVICE, dtype=torch.int32)
    y = torch.full((1,), -100, device=DEVICE, dtype=torch.int32)
    ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1)))(x, y)
    assert y.item() == -3


# -- mistakes ---------------------------------------------------------------------------------------


def test_tiles_that_end_at_different_places():
    def application(x, y):
        y = ntl.sum(x[0] + x[1])

    def arrangement(x, y):
        return x.tile((BLOCK,)).tile((2,)), y.tile((1,))

    with pytest.raises(NineToothedError, match="end at different places(.|\n)*'x'(.|\n)*'x'(.|\n)*other="):
        run(arrangement, application, random(11))
    x = random(16)
    torch.testing.assert_close(run(arrangement, application, x), x.sum()[None])
    x = random(11)
    found = run(arrangement, application, x, tensors=(Tensor(1, other=0), Tensor(1)))
    torch.testing.assert_close(found, x.sum()[None])


def test_tiles_that_end_at_different_places_and_are_added_up():
    def application(x, y):
        total = ntl.zeros((BLOCK,), dtype=ntl.float32)
        for i in range(1, x.shape[0]):
            total += x[i] - x[i - 1]
        y = ntl.sum(total)

    with pytest.raises(ApplicationError, match="end at different places"):
        run(sequence, application, random(11))


@pytest.mark.skipif(DEVICE != "cpu" or IS_INTERPRETED, reason="overhang is poisoned on the CPU")
def test_poison_names_the_line_that_depends_on_overhang(monkeypatch):
    def application(x, y):
        y = x + 1.0

    def rows(x, y):
        y = y.tile((1, BLOCK)).squeeze(1)
        y.dtype = y.dtype.squeeze(0)
        return x.tile((BLOCK,)), y

    monkeypatch.setenv("NINETOOTHED_POISON", "1")
    kernel = ninetoothed.make(rows, application, (Tensor(1), Tensor(2)))
    kernel(random(16), random(2, 8))
    with pytest.raises(NineToothedError, match=r"test_overhang.py:\d+\): overhang is stored to 'y'"):
        kernel(random(11), random(2, 8))


@pytest.mark.skipif(DEVICE != "cpu", reason="overhang is poisoned on the CPU")
def test_poison_knows_where_tiles_of_indices_lead(monkeypatch):
    def reverse(x, y):
        rows, columns = (y.source.shape[d] - 1 - x.offsets(d) for d in range(2))
        y.source[rows[:, None], columns[None, :]] = x

    def blocks(x, y):
        x = x.tile((2, BLOCK))
        return x, y.tile((-1, -1)).expand(x.shape)

    monkeypatch.setenv("NINETOOTHED_POISON", "1")
    x, y = random(3, 11), random(3, 11)
    kernel = ninetoothed.make(blocks, reverse, (Tensor(2), Tensor(2)))
    kernel(x, y)
    torch.testing.assert_close(y, x.flip(0, 1))
