"""Programs that store different values to the same elements are refused by name; those that store one value run."""

import contextlib
import linecache
import math
import warnings

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from benchmarks.trust import races as random_stores
from ninetoothed import Symbol, Tensor, block_size
from ninetoothed.errors import RaceError, RaceWarning
from ninetoothed.runtime.dispatch import launcher_of
from ninetoothed.runtime.selection.machine import H200
from tests.ninetoothed.applications import application_of


def make(application, y=lambda x, y: y.tile((1,)).expand((x.shape[0],)), block=8, rank=1):
    """A kernel over the tiles of `x`, whose outermost shape `y` is expanded to."""

    def arrangement(x, y_):
        x = x.tile((block,))
        return x, y(x, y_)

    application = application_of(application) if isinstance(application, str) else application
    return ninetoothed.make(arrangement, application, (Tensor(1), Tensor(rank)))


STORES, READS = r"programs 0 and 1 store .* to element 0 of 'y'", r"program 1 reads element 0 of 'y', which program 0"
RACES = [
    ("y = y + ntl.sum(x)", STORES),
    ("y += 1.0", READS),
    ("y = ntl.sum(x)", STORES),
    ("y = ntl.cast(ntl.program_id(0), ntl.float32)", STORES),
    ("total = ntl.sum(x)\ncount = 0.0\nfor _ in range(3):\n    count += total\ny = count", STORES),
    ("count = 0.0\nfor _ in range(ntl.program_id(0) + 1):\n    count += 1.0\ny = count", STORES),
    ("a, b = 0.0, 0.0\nfor _ in range(3):\n    b, a = a, ntl.sum(x)\ny = b", STORES),
    ("value = 1.0\nif ntl.program_id(0) == 0:\n    value = 2.0\ny = value", STORES),
    ("if ntl.sum(x) > ntl.sum(y):\n    y = ntl.sum(x)", STORES),
    ("y = ntl.load(y.source.data_ptr() + y.offsets()) + 1.0", READS),
]


@pytest.mark.parametrize(("application", "what"), RACES, ids=[race[0] for race in RACES])
def test_values_that_differ_between_programs_are_refused(application, what):
    x, y = torch.ones(20), torch.zeros(1)
    kernel = make(application)
    with pytest.raises(RaceError, match=rf"{what}.*let one program do it all") as found:
        kernel(x, y)
    with pytest.raises(RaceError, match=what):
        kernel.source(x, y, gpu=H200)
    assert (y == 0).all() and "y = " in found.value.text.replace("+=", "=")
    assert found.value.text.strip() == linecache.getline(found.value.filename, found.value.lineno).strip()


RUNS = (
    ("y = 3.0", 3),
    ("ntl.atomic_add(y.source.data_ptr() + y.offsets(), ntl.sum(x))", 20),
    ("if ntl.program_id(0) == 0:\n    y = ntl.sum(x)", 8),
    ("y = x.source.shape[0]", 20),
)


@pytest.mark.parametrize(("application", "expected"), RUNS, ids=[each[0] for each in RUNS])
def test_one_value_atomics_and_one_program_run(application, expected):
    make(application)(torch.ones(20), y := torch.zeros(1))
    assert y.item() == expected


# Which a round, a branch or another program decides that only a run knows; `y` has four elements, all for each program.
BY_RUN = [
    ("count = 0\nwhile count < ntl.cast(ntl.sum(x), ntl.int32):\n    count += 1\ny.source[0] = count", RaceError),
    ("for k in range(5):\n    if x.source[k + ntl.program_id(0)] > 0:\n        y.source[0] = 1.0 * k", RaceWarning),
    ("if y.source[1 + ntl.program_id(0)] > 0:\n    y.source[0] = 3.0\nelse:\n    y.source[0] = 5.0", RaceWarning),
    ("if ntl.sum(x) > y.source[0]:\n    y.source[0] = ntl.sum(x)", RaceError),
    ("ntl.atomic_add(y.source.data_ptr(), 1.0)\ny.source[1] = y.source[0]", RaceError),
    ("ntl.atomic_add(y.source.data_ptr(), 1.0)\ny.source[1] = ntl.load(y.source.data_ptr())", RaceError),
    ("y.source[1] = ntl.sum(x) + ntl.load(y.source.data_ptr())", RaceError),
    ("count = 0\nwhile count < x.source.shape[0]:\n    count += 1\ny.source[0] = count", None),
    ("for k in range(5):\n    if x.source[k] > 0:\n        y.source[0] = 1.0 * k", None),
    ("if ntl.sum(x) > 0:\n    for k in range(5):\n        y.source[0] = 1.0 * k", None),
    ("if ntl.sum(x) > 0:\n    y.source[0] = 3.0\n    y.source[0] = 5.0", None),
    ("y.source[1] = 3.0 + ntl.load(y.source.data_ptr())", None),
]


@pytest.mark.parametrize(("application", "found"), BY_RUN, ids=[each[0] for each in BY_RUN])
def test_what_only_a_run_decides(application, found):
    kernel = make(application, lambda x, y: y.tile((-1,)).expand((x.shape[0],)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(found) if found else contextlib.nullcontext():
            kernel(torch.arange(20.0) % 7 - 3, torch.zeros(4))


@pytest.mark.parametrize(
    "index", ("h & 3", "h >> 1", "h ^ (h >> 1)", "ntl.cast(ntl.cast(h, ntl.float32) / 2, ntl.int32)")
)
def test_computed_indices_may_repeat(index):
    """What is computed of different numbers may be one; the elements of an index that is loaded are the caller's."""
    kernel = make(f"h = x.offsets(0)\ny.source[{index}] = x", lambda x, y: y.tile((8,)))
    with pytest.warns(RaceWarning, match="nothing tells"):
        kernel(torch.randn(16), torch.zeros(16))


def test_the_number_of_programs_is_that_of_the_call():
    kernel = make("y = y + ntl.sum(x)")
    for x in (torch.ones(7), torch.ones(5), torch.ones(0)):
        kernel(x, y := torch.ones(1))
        assert y.item() == 1 + len(x)
    assert len(launcher_of(kernel).variants) == 1
    with pytest.raises(RaceError, match="programs 0 and 1 store"):
        kernel(torch.ones(9), torch.ones(1))
    with pytest.raises(RaceError, match="programs 0 and 1 store"):
        kernel(torch.ones(9 + 8), torch.ones(1))
    kernel(torch.ones(6), y := torch.ones(1))
    assert y.item() == 7


@pytest.mark.parametrize("n", (2, 100, 5000))
def test_no_choice_of_blocks_makes_a_race_legal(n):
    with pytest.raises(RaceError, match="programs 0 and 1 store"):
        make("y = ntl.sum(x)", block=block_size())(torch.ones(n), torch.zeros(1))


def test_one_element_for_all_programs():
    kernel = make("y = ntl.sum(x)", lambda x, y: y, rank=0)
    kernel(torch.ones(8), y := torch.tensor(0.0))
    assert y.item() == 8
    with pytest.raises(RaceError, match="programs 0 and 1 store .* to an element of 'y'"):
        kernel(torch.ones(9), torch.tensor(0.0))


def test_rows_that_programs_share():
    """Along one axis each program has elements of its own, along the other all programs share them."""

    def arrangement(x, weight, y):
        x = x.tile((1, 4))
        return (
            x,
            weight.tile((4,)).unsqueeze(0).expand((x.shape[0], -1)),
            y.tile((4,)).unsqueeze(0).expand((x.shape[0], -1)),
        )

    def scaled(x, weight, y):
        y = weight * 2

    def summed(x, weight, y):
        y = weight * 2 + ntl.sum(x, 0)

    tensors = (Tensor(2), Tensor(1), Tensor(1))
    x, weight = torch.randn(3, 10), torch.randn(10)
    ninetoothed.make(arrangement, scaled, tensors)(x, weight, y := torch.empty(10))
    assert torch.equal(y, weight * 2)
    kernel = ninetoothed.make(arrangement, summed, tensors)
    with pytest.raises(RaceError, match=r"programs \(0, 0\) and \(1, 0\) store .* to element 0 of 'y'"):
        kernel(x, weight, torch.empty(10))
    kernel(x[:1], weight, y := torch.empty(10))
    assert torch.equal(y, weight * 2 + x[0])


def test_elements_of_ones_own_within_a_shared_tile():
    """The program says which element of the expanded parameter is its own."""

    def arrangement(x, y):
        x = x.tile((8,))
        return x, y.tile((-1,)).expand((x.shape[0],))

    def application(x, y):
        y[ntl.program_id(0)] = ntl.sum(x)

    kernel = ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1)))
    kernel(torch.ones(20), y := torch.zeros(3))
    assert y.tolist() == [8, 8, 4]


def test_an_expanded_parameter_that_is_only_read():
    def application(x, y):
        x = x + ntl.sum(y)

    make(application)(x := torch.zeros(20), torch.ones(1))
    assert (x == 1).all()


def test_rows_that_programs_share_by_flattened_indices():
    """The programs are one dimension of elements of `x`; rows of `z` and `y` are expanded to it and flattened."""

    def arrangement(x, z, y):
        z, y = (each.unsqueeze(0).expand((x.shape[0], -1)).flatten() for each in (z, y))
        return x.flatten(), z, y

    def one_row(x, z, y):
        y = z * 2

    def each_row(x, z, y):
        y = z * 2 + x

    tensors = (Tensor(2), Tensor(1), Tensor(1))
    x, z = torch.randn(3, 5), torch.randn(5)
    ninetoothed.make(arrangement, one_row, tensors)(x, z, y := torch.empty(5))
    assert torch.equal(y, z * 2)
    kernel = ninetoothed.make(arrangement, each_row, tensors)
    with pytest.raises(RaceError, match="programs 0 and 5 store .* to element 0 of 'y'"):
        kernel(x, z, torch.empty(5))
    kernel(x[:1], z, y := torch.empty(5))
    assert torch.equal(y, z * 2 + x[0])


def overlapping(strides, size=4, dilation=1, other=None):
    """Tiles of `x` and `y`; those of `y` begin `strides` apart."""

    def arrangement(x, y):
        own = {"strides": (strides,), "dilation": (dilation,)}
        return x.tile((size,), **(own if other is None else other)), y.tile((size,), **own)

    return arrangement


def copied(x, y):
    y = x


def placed(x, y):
    y = x * 2 + y.offsets(0)


def added(x, y):
    y += x


def smoothed(x, y):
    y = x - ntl.sum(x)


def first(x, y):
    if ntl.program_id(0) == 0:
        y = x + ntl.sum(x)


@pytest.mark.parametrize(
    ("application", "arrangement", "sizes", "what"),
    (
        (copied, overlapping(2, other={}), (12, 8), "programs 0 and 1 store .* to element 2 of 'y'"),
        (added, overlapping(2), (15, 15), "program 1 reads element 2 of 'y', which program 0"),
        (smoothed, overlapping(3), (15, 15), "programs 0 and 1 store .* to element 3 of 'y'"),
        (added, overlapping(1, size=2, dilation=3), (15, 15), "program 3 reads element 3 of 'y', which program 0"),
    ),
)
def test_tiles_that_overlap_are_refused(application, arrangement, sizes, what):
    x, y = torch.ones(sizes[0]), torch.zeros(sizes[1])
    kernel = ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1)))
    with pytest.raises(RaceError, match=what):
        kernel(x, y)
    assert (y == 0).all()


@pytest.mark.parametrize(
    ("application", "arrangement"),
    (
        (placed, overlapping(2)),  # what is stored follows from the place
        (added, overlapping(4)),
        (added, overlapping(5)),
        (added, overlapping(1, size=2, dilation=8)),  # two halves of which each program has an element
        (smoothed, overlapping(2, size=16)),  # one tile
    ),
)
def test_tiles_that_have_no_element_in_common_or_one_value_run(application, arrangement):
    x, y = torch.arange(16.0), torch.zeros(16)
    ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1)))(x, y)
    expected = {placed: 3 * x, smoothed: x - x.sum(), added: x}[application]
    assert torch.equal(y[y != 0], expected[y != 0]) and (y != 0).sum() > 11


def test_a_branch_by_a_number_that_all_programs_share():
    def application(x, y, number):
        value = x + 0
        if number > 2:
            value = x * 3
        y = value

    def arrangement(x, y, number):
        return *overlapping(2)(x, y), number

    x, y = torch.arange(16.0), torch.zeros(16)
    kernel = ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1), Tensor(0)))
    for number, factor in ((2, 1), (3, 3)):
        kernel(x, y, number)
        assert torch.equal(y, x * factor)


def test_a_branch_that_selects_one_of_tiles_that_overlap():
    x, y = torch.arange(1.0, 17), torch.zeros(16)
    ninetoothed.make(overlapping(2), first, (Tensor(1), Tensor(1)))(x, y)
    assert torch.equal(y, torch.where(x < 5, x + 10, 0.0))


def test_lanes_that_share_an_element():
    def arrangement(x, y):
        y = y.tile((1,))
        y.dtype = y.dtype.expand((4,))
        return x.tile((4,)), y

    def number(x, y):
        y = ntl.sum(x)

    tensors = (Tensor(1), Tensor(1))
    with pytest.raises(RaceError, match="lanes 0 and 1 of one program store .* to element 0 of 'y'"):
        ninetoothed.make(arrangement, copied, tensors)(torch.arange(8.0), torch.zeros(2))
    ninetoothed.make(arrangement, number, tensors)(torch.arange(8.0), y := torch.zeros(2))
    assert y.tolist() == [6, 22]


def test_one_place_of_a_source():
    """Each program has a tile of its own, and stores past it."""

    def everywhere(x, y):
        y.source[0] = ntl.sum(x)

    def apart(x, y):
        y.source[ntl.program_id(0)] = ntl.sum(x)

    def of_one(x, y):
        if ntl.program_id(0) == 0:
            y.source[0] = ntl.sum(x)

    x, tensors = torch.arange(8.0), (Tensor(1), Tensor(1))
    with pytest.raises(RaceError, match="programs 0 and 1 store .* to element 0 of 'y'"):
        ninetoothed.make(overlapping(4), everywhere, tensors)(x, torch.zeros(8))
    for application, expected in ((apart, [6, 22]), (of_one, [6, 0])):
        ninetoothed.make(overlapping(4), application, tensors)(x, y := torch.zeros(8))
        assert y[:2].tolist() == expected


@pytest.mark.parametrize(
    "shape, tiles, count",
    (
        ((4,), lambda y: y.tile((2,), strides=(2,), dilation=(2,), floor_mode=True).pad(((1, 0),)), 2),
        ((2, 2), lambda y: y.unsqueeze(0).tile((2, 2), strides=(2, 1), dilation=(1, 2)), 2),
    ),
    ids=("tiles that are padding", "lanes past the end"),
)
def test_what_lies_out_of_bounds_is_no_element_in_common(shape, tiles, count):
    x, y = torch.arange(1.0, 5).reshape(2, 2).flatten()[: math.prod(shape)].reshape(shape), torch.zeros(3)

    def arrangement(x, y):
        return x.tile((2,) * x.ndim), tiles(y)

    kernel = ninetoothed.make(arrangement, copied, (Tensor(x.ndim), Tensor(1)))
    kernel(x, y)
    assert (y != 0).sum() == count


def test_random_stores():
    """Each kernel is refused exactly where its programs race, by the elements that they touch one by one."""
    found = [case for seed in range(15) for case in random_stores.cases(seed)]
    assert not [(case.description, case.wrong) for case in found if case.wrong]


def rows_of_two(y):
    """Flattened rows, of which each overlaps with the next."""
    tiled = y.tile((2, -1), strides=(1, -1))
    tiled.dtype = tiled.dtype.flatten()
    return tiled.flatten()


def of_rounds(x, y):
    for i in range(y.shape[0]):
        y[i] = x


def of_sums(x, y):
    y = x + ntl.sum(x)


@pytest.mark.parametrize(
    ("shape", "tiles", "cell", "application"),
    (
        ((4, 5), lambda y: y.flatten().tile((4,), strides=(2,)), (4,), of_sums),
        ((9,), lambda y: y.pad(((2, 0),)).tile((2,), dilation=(2,)), (2,), of_sums),
        ((9,), lambda y: y.tile((1,)).tile((3,), strides=(2,)), (1,), of_rounds),
        ((4, 3), rows_of_two, (6,), of_sums),
        ((2, 5), lambda y: y.tile((2, -1)).expand((2, -1)), (2, 5), of_sums),
    ),
    ids=("flattened", "padded", "levels", "rows", "expanded"),
)
@pytest.mark.parametrize("is_fixed", (False, True))
def test_elements_in_common_by_any_steps(shape, tiles, cell, application, is_fixed):
    def arrangement(x, y):
        y, whole = tiles(y), tuple(-1 for _ in cell)
        x = x.tile((1,) * y.ndim + whole).squeeze(tuple(range(y.ndim, y.ndim + len(cell))))
        x.dtype = x.dtype.squeeze(tuple(range(y.ndim)))
        return x, y

    y = Tensor(len(shape), shape=shape if is_fixed else None)
    programs = tiles(Tensor(shape=shape)).shape
    kernel = ninetoothed.make(arrangement, application, (Tensor(len(programs) + len(cell)), y))
    with pytest.raises(RaceError, match="store what may be different values to element"):
        kernel(torch.randn(*programs, *cell), torch.zeros(shape))


@pytest.mark.parametrize("block", (1, 4, block_size()), ids=str)
def test_tiles_that_a_call_expands(block):
    """Only the call tells how many programs there are."""
    count = Symbol("count", constexpr=True)

    def arrangement(x, y):
        return x.tile((1,)), y.tile((block,)).expand((count,))

    def application(x, y):
        y = x + ntl.zeros(y.shape, ntl.float32)

    kernel = ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1)))
    kernel(torch.ones(1), y := torch.zeros(1), count=1)
    assert y.item() == 1
    with pytest.raises(RaceError, match="programs 0 and 1 store"):
        kernel(torch.ones(3), torch.zeros(1), count=3)


@pytest.mark.parametrize(
    ("tiles", "application", "what"),
    (
        (lambda x: x.tile((3,), strides=(1,)), "x[1] = x[0] + x[2]", "reads element"),
        (lambda x: x.tile((2,)), "x = x.source[x.source.shape[0] - 1 - x.offsets(0)]", "reads element"),
        (lambda x: x.tile((2,)), "x.source[ntl.program_id(0) // 2] = ntl.sum(x)", "."),
        (lambda x: x.tile((2,)), "x.source[x.offsets(0) // 2] = 1.0 * x.offsets(0)", "lanes 0 and 1"),
    ),
)
def test_places_of_one_parameter(tiles, application, what):
    kernel = ninetoothed.make(lambda x: tiles(x), application_of(application, "x"), (Tensor(1),))
    with pytest.raises(RaceError, match=what):
        kernel(torch.zeros(12))


@pytest.mark.parametrize("size", (12, 150_000))
@pytest.mark.parametrize(
    "application",
    (
        "x[1] = x[0] + x[2]",
        "x.source[x.offsets(0)] = x * 2",
        "x = x.source[x.offsets(0)] + 1",
        "x.source[ntl.program_id(0) * 3 + 1] = ntl.sum(x)",
        "for i in range(3):\n    x[i] = x[2 - i] * 2",
    ),
)
def test_places_of_ones_own(application, size):
    kernel = ninetoothed.make(lambda x: x.tile((3,)), application_of(application, "x"), (Tensor(1),))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel(torch.ones(size))


@pytest.mark.parametrize("size", (7, 5000, 50_000))
def test_equal_values_where_tiles_overlap(size):
    """The value follows from columns, from sums of rows, or from what a loop adds up, and not from the place alone."""

    def arrangement(x, bias, y):
        y = y.tile((2, -1), strides=(1, -1), floor_mode=True)
        bias = bias.tile((-1,)).unsqueeze(0).expand((y.shape[0], -1))
        return x.tile((2, -1), strides=(1, -1), floor_mode=True), bias, y

    def columns(x, bias, y):
        y = x * 0 + bias

    def sums(x, bias, y):
        y = ntl.sum(x, 1)[:, None] + bias

    def loops(x, bias, y):
        total = ntl.zeros(x.shape, ntl.float32)
        for i in range(3):
            total += x * i
        y = total + bias

    x, bias = torch.randn(size, 3), torch.randn(3)
    tensors = (Tensor(2), Tensor(1), Tensor(2))
    expected = (bias.expand(size, 3), x.sum(1, keepdim=True) + bias, x * 3 + bias)
    for application, reference in zip((columns, sums, loops), expected, strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ninetoothed.make(arrangement, application, tensors)(x, bias, y := torch.empty(size, 3))
        torch.testing.assert_close(y, reference)


def scattered(index, unique=False):
    """Store the sum of each tile of `x` where `index` says, of numbers that `k` holds."""
    return ninetoothed.make(
        lambda x, k, y: (x.tile((4,)), k.tile((1,)), y.tile((-1,)).expand((k.shape[0],))),
        application_of(f"y.source[{index}] = ntl.sum(x)", "x, k, y"),
        (Tensor(1), Tensor(1), Tensor(1, unique_indices=unique)),
    )


def test_places_that_only_a_run_knows():
    """What an index tensor holds is its maker's business, who may say that nothing repeats."""
    x, k, y = torch.arange(8.0), torch.tensor([2, 0]), torch.zeros(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scattered("k[0]", True)(x, k, y)
    assert y.tolist() == [22, 0, 6]
    kernel = scattered("k[0] % 3")
    with pytest.warns(
        RaceWarning, match=r"'y'.*nothing tells whether they repeat.*atomic_add.*filterwarnings"
    ) as found:
        kernel(x, k, y)
    assert len(found) == 1 and "y.source" in linecache.getline(found[0].filename, found[0].lineno)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel(torch.arange(4.0), k[:1], y)  # one program
    with pytest.raises(RaceError, match="programs 0 and 1 store"):
        ninetoothed.make(
            lambda x, k, y: (x.tile((4,)), *(each.tile((-1,)).expand(x.tile((4,)).shape) for each in (k, y))),
            application_of("y.source[k[0]] = ntl.sum(x)", "x, k, y"),
            (Tensor(1), Tensor(1), Tensor(1)),
        )(x, k, y)


def test_a_loop_that_goes_round_by_the_program():
    """Each program stores the number of its rounds."""
    text = "count, k = 0.0, 0\nwhile k < ntl.program_id(0):\n    k += 1\n    count += 1.0\n    y = count"
    with pytest.raises(RaceError, match="programs 1 and 2 store"):
        make(text)(torch.ones(20), torch.zeros(1))


LARGE = {
    "reversed": "y.source[y.source.shape[0] - 1 - x.offsets(0)] = x",
    "halves": "at = ntl.program_id(0)\ny.source[at // 2 * 16 + at % 2 * 8 + ntl.arange(0, 8)] = x",
    "pointers": "ntl.store(y.source.data_ptr() + x.offsets(), x * 2)",
    "masked": "i = ntl.program_id(0) * 8 + ntl.arange(0, 8)\nntl.store(y.source.data_ptr() + i, x, mask=i < 99_999)",
    "either": "if ntl.sum(x) > 0:\n    y = x\nelse:\n    y = -x",
    "the last": "if ntl.program_id(0) == ntl.num_programs(0) - 1:\n    y.source[0] = ntl.sum(x)",
}


@pytest.mark.parametrize("name", LARGE)
def test_many_programs_are_decided_by_proof(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = torch.randn(400_000 if name == "pointers" else 399_999)
        make(LARGE[name], lambda x, y: y.tile((8,)))(x, y := torch.full_like(x, torch.nan))
    assert not y[:99_999].isnan().any() or name == "the last"


def test_a_loop_without_rounds_stores_nothing():
    def application(x, y):
        last = y.shape[0] - 1
        for i in range(last):
            y[i] = x
        y[last] = x * 2

    kernel = ninetoothed.make(lambda x, y: (x.tile((4,)), y.tile((4,)).tile((1,))), application, (Tensor(1), Tensor(1)))
    kernel(x := torch.randn(12), y := torch.empty(12))
    assert torch.equal(y, x * 2)


def test_the_warning_comes_once():
    kernel, x, k = scattered("k[0] // 2"), torch.arange(8.0), torch.tensor([2, 0])
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        for size in (8, 8, 7, 6):
            kernel(x[:size], k, torch.zeros(3))
    assert [each.category for each in found] == [RaceWarning]
