"""Where indices lie outside: numbers that are known are checked, all others read `other` and write nothing."""

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import ApplicationError, Symbol, Tensor
from tests.conftest import DEVICE
from tests.ninetoothed.applications import application_of


def tiles(*tensors):
    return tuple(tensor.tile((4,)) for tensor in tensors)


def pairs_of_tiles(*tensors):
    return tuple(tensor.tile((4,)).tile((2,)) for tensor in tensors)


def all_tiles(*tensors):
    return tuple(tensor.tile((4,)).tile((-1,)) for tensor in tensors)


def run(application, n=8, arrangement=tiles, **options):
    """1, 2, ... n through a kernel, into an output of sevens."""
    x, y = torch.arange(1.0, n + 1, device=DEVICE), torch.full((n,), 7.0, device=DEVICE)
    application = application_of(application) if isinstance(application, str) else application
    ninetoothed.make(arrangement, application, (Tensor(1, **options), Tensor(1, **options)))(x, y)
    return y.tolist()


# -- numbers that are known when compiling ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "application, index, name",
    (
        ("y[0] = x[2]", 2, "x"),
        ("y[0] = x[-3]", -3, "x"),
        ("y[2] = x[0]", 2, "y"),
    ),
)
def test_an_index_outside_a_level(application, index, name):
    message = rf"index {index} is out of range for dimension 0 of '{name}', which has shape \(2,\); use -2 to 1"
    with pytest.raises(ApplicationError, match=message) as caught:
        run(application, arrangement=pairs_of_tiles)
    assert f"{name}[" in caught.value.text


@pytest.mark.parametrize(
    "application", ("y = x[4]", "y[-5] = 1.0", "y = (x + 1)[4]", "y = ntl.sum(x, keep_dims=True)[1]")
)
def test_an_index_outside_a_tile(application):
    with pytest.raises(ApplicationError, match="is out of range for dimension 0"):
        run(application)


def test_an_index_outside_a_source_whose_size_is_known():
    def application(x, y):
        y = x.source[8]

    with pytest.raises(ApplicationError, match="index 8 is out of range for dimension 0 of the source of 'x'"):
        run(application, shape=(8,))
    assert run(application, other=-1.0) == [-1.0] * 8


def test_a_size_that_only_the_call_tells():
    def application(x, y):
        y = x.source[1]

    assert run(application, n=2) == [2.0, 2.0]
    with pytest.raises(ApplicationError, match="index 1 is out of range .* use -1 to 0"):
        run(application, n=1)


def test_negative_numbers_count_from_the_end():
    def application(x, y):
        y[-1] = x[-2]
        y[-2] = (x * 10)[-4]
        y[0] = x.source[-1]

    assert run(application) == [8, 7, 10, 3, 8, 7, 50, 7]


@pytest.mark.parametrize(
    "application, message",
    (
        ('y = x["first"]', "'x' is indexed with 'first'; an index is an integer"),
        ("y[x > 3] = 0", r"must be an integer, not int1; choose with `ntl\.where`"),
        ("y = x[True]", "'x' is indexed with True"),
        ('y.source["first"] = x', "the source of 'y' is indexed with 'first'"),
        ("y = (x + 1)[ntl.arange(0, 4)]", r"`ntl\.gather`\) must be one number"),
    ),
)
def test_what_is_no_index(application, message):
    with pytest.raises(ApplicationError, match=message):
        run(application)


# -- what is known when the kernel runs ------------------------------------------------------------------------------


@pytest.mark.parametrize("n", (4, 8))
def test_a_counter_that_has_one_value_in_this_variant_counts_from_the_start_too(n):
    def application(x, y):
        for k in range(x.shape[0]):
            y[k] = x[k - 1] + x[2 * k - 1 - k] + x[k + x.shape[0]]

    expected = [0.0] * 4 + [2.0 * i for i in range(1, n - 3)]
    assert run(application, n, all_tiles, shape=(n,)) == expected


def test_a_computed_tile_reads_0_outside():
    def application(x, y):
        values = x + 1
        single = ntl.sum(x, keep_dims=True)
        for i in range(6):
            y += values[i - 1] + single[i]

    assert run(application, n=4) == [7.0 + 14.0 + 10.0] * 4


def test_a_computed_tile_has_no_elements_beyond_its_extent():
    def application(x, y):
        values = ntl.arange(0, 3) + 1
        total = 0
        for i in range(4):
            total += values[i]
        y = total

    assert run(application) == [6.0] * 8


# -- lanes that are no elements --------------------------------------------------------------------------------------


def scattered(body, indices, n=8, **options):
    """Sevens of which an application, given a partial tile of indices, changes some."""
    application = application_of(body, "index", "y")

    def arrangement(index, y):
        index = index.tile((4,))
        return index, y.tile((-1,)).expand((index.shape[0],))

    indices = torch.tensor(indices, device=DEVICE)
    y = torch.full((n,), 7.0, device=DEVICE)
    ninetoothed.make(arrangement, application, (Tensor(1, **options), Tensor(1)))(indices, y)
    return y.tolist()


@pytest.mark.parametrize(
    "application",
    (
        "y.source[index] = 1.0",
        "y[index] = 1.0",
        "y.source[index + 1 - 1] = 1.0",
        "y.source[ntl.reshape(index, (2, 2)) + ntl.trans(ntl.zeros((2, 2), dtype=ntl.int64))] = 1.0",
        "y.source[index[:, None] + ntl.arange(0, 1)[None, :]] = 1.0",
        "for i in range(4):\n    y.source[index[i]] = 1.0",
        "ntl.atomic_add(y.source.data_ptr() + index, -6.0)",
        "ntl.store(y.source.data_ptr() + index, 1.0, mask=index < 6)",
        "y.source[index.to(ntl.uint8)] = 1.0",
    ),
)
def test_nothing_is_scattered_by_indices_that_were_read_out_of_bounds(application):
    assert scattered(application, [1, 2, 3, 4, 5]) == [7, 1, 1, 1, 1, 1, 7, 7]


def test_the_user_may_say_which_indices_are_read_out_of_bounds():
    assert scattered("y.source[index] = 1.0", [1, 2, 3, 4, 5], other=7) == [7, 1, 1, 1, 1, 1, 7, 1]
    assert scattered("y.source[index] = 1.0", [1, 2, 3, 4, 5], other=-1) == [7, 1, 1, 1, 1, 1, 7, 7]


def test_indices_may_be_chosen_for_what_is_out_of_bounds():
    body = "y.source[ntl.where(index.offsets(0) < 5, index, 6)] = 1.0"
    assert scattered(body, [1, 2, 3, 4, 5]) == [7, 1, 1, 1, 1, 1, 1, 7]


def test_a_gather_by_overhang_is_overhang():
    def application(index, x, y):
        y = ntl.sum(x.source[index])

    def arrangement(index, x, y):
        index = index.tile((4,))
        return index, x.tile((-1,)).expand((index.shape[0],)), y.tile((1,))

    index = torch.tensor([3, 2, 1, 0, 3], device=DEVICE)
    x, y = torch.tensor([1.0, 2.0, 3.0, 4.0], device=DEVICE), torch.zeros(2, device=DEVICE)
    ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1, other=100.0), Tensor(1)))(index, x, y)
    assert y.tolist() == [10.0, 4.0]


@pytest.mark.parametrize(
    "application, index",
    (
        ("y.source[index.to(ntl.int8)] = x", torch.tensor([0, 3, 200, 255], dtype=torch.uint8)),
        ("y.source[index] = x", torch.tensor([0, 3, -56, -1]).view(torch.uint64)),
        ("for i in range(4):\n    y.source[index[i]] = 1.0", torch.tensor([0, 3, -56, -1]).view(torch.uint64)),
    ),
)
def test_nothing_is_stored_before_a_tensor(application, index):
    """Indices of unsigned types are negative once they are converted, or are held in 64 bits that have a sign."""
    memory = torch.zeros(64 + 8, device=DEVICE)
    application = application_of(application, "index", "x", "y")
    kernel = ninetoothed.make(
        lambda *tensors: tuple(tensor.tile((8,)) for tensor in tensors),
        application,
        (Tensor(1), Tensor(1), Tensor(1, unique_indices=True)),
    )
    index = torch.cat((index, index.new_full((4,), 255)))
    kernel(index.to(DEVICE), torch.ones(8, device=DEVICE), memory[64:])
    assert memory.nonzero().flatten().tolist() == [64, 67]


@pytest.mark.parametrize(
    "application",
    (
        "y.source[ntl.arange(0, 3) + x.offsets(0)[0]] = 1.0",
        "y[ntl.arange(0, 3)] = 1.0",
        "ntl.store(y.source.data_ptr() + ntl.arange(0, 3) + x.offsets(0)[0], 1.0)",
        "ntl.atomic_add(y.source.data_ptr() + ntl.arange(0, 3) + x.offsets(0)[0], -6.0)",
    ),
)
def test_nothing_is_stored_by_lanes_that_round_up(application):
    assert run(application) == [1, 1, 1, 7, 1, 1, 1, 7]


@pytest.mark.parametrize(
    "application",
    (
        "y = ntl.sum(x.source[ntl.arange(0, 3)])",
        "y = ntl.sum(x[ntl.arange(0, 3)])",
        "y = ntl.sum(ntl.load(x.source.data_ptr() + ntl.arange(0, 3)))",
    ),
)
def test_nothing_is_read_by_lanes_that_round_up(application):
    assert run(application, n=4) == [6.0] * 4


def test_lanes_that_round_up_are_not_asserted_of():
    def application(x, y):
        assert ntl.arange(0, 3) < 3
        y = x

    assert run(application, n=4) == [1, 2, 3, 4]


@pytest.mark.parametrize("size", (2, 0, -1, -7, 9))
@pytest.mark.parametrize("bounds", (lambda s: slice(-s, None), lambda s: slice(None, -s), lambda s: slice(s, None)))
def test_slices_whose_bounds_only_a_call_tells(bounds, size):
    symbol = Symbol("S", constexpr=True)

    def application(x, y):
        y = x

    def arrangement(x, y):
        return x[bounds(symbol)].tile((2,)), y[bounds(symbol)].tile((2,))

    memory = torch.zeros(12, device=DEVICE)
    x, y = torch.arange(1.0, 5.0, device=DEVICE), memory[4:8]
    ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1)))(x, y, S=size)
    expected = torch.zeros_like(x)
    expected[bounds(size)] = x[bounds(size)]
    assert torch.equal(memory, torch.nn.functional.pad(expected, (4, 4)))


# -- indices that are computed alike ---------------------------------------------------------------------------------


@pytest.mark.parametrize("of_k, of_v", (("index", "index"), ("index + 1 - 1", "index + 1 - 1"), ("j", "j")))
def test_tiles_at_equal_indices_end_at_one_place(of_k, of_v):
    """Block-sparse products: both tiles at an index that was read end together, so what they make can be summed."""

    def arrangement(k, v, index, y):
        index = index.tile((1,))
        return *(tensor.tile((4,)).tile((-1,)).expand(index.shape) for tensor in (k, v)), index, y.tile((1,))

    body = f"j = index\nif index >= 0:\n    y = ntl.sum(k[{of_k}])\ny = ntl.sum((k[{of_k}] + 1) * (v[{of_v}] + 1))"
    k, v = (torch.randn(10, dtype=torch.float64, device=DEVICE) for _ in range(2))
    index, y = torch.tensor([2, 0, 1], device=DEVICE), torch.full((3,), torch.nan, dtype=torch.float64, device=DEVICE)
    ninetoothed.make(arrangement, application_of(body, "k", "v", "index", "y"), [Tensor(1) for _ in range(4)])(
        k, v, index, y
    )
    products = ((k + 1) * (v + 1)).split(4)
    torch.testing.assert_close(y, torch.stack([products[i].sum() for i in index]))
