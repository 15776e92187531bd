"""Means, variances, sums, powers, and sorts with places: against PyTorch, in float64 or by integers."""

import pytest
import torch

import ninetoothed
from ninetoothed import Tensor
from ninetoothed.errors import ApplicationError
from tests.conftest import DEVICE
from tests.ninetoothed.applications import application_of

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.bool, torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64)


def whole(*tensors):
    return tuple(tensor.tile((-1,) * tensor.ndim) for tensor in tensors)


def run(body, x, *outputs, arrangement=whole, known=False):
    """Run an application of x and y, or y and z, and return the outputs."""
    options = {"shape_options": {"constexpr": True}} if known else {}
    tensors = tuple(Tensor(each.ndim, **options) for each in (x, *outputs))
    application = application_of(body, *"xyz"[: len(tensors)])
    given = [each.to(DEVICE) for each in (x, *outputs)]
    ninetoothed.make(arrangement, application, tensors)(*given)
    return tuple(each.cpu() for each in given[1:])


def numbers(*shape, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
    if dtype == torch.int64:  # whose halves are not in the order of the whole
        bits = torch.randint(-(2**62), 2**62, shape, generator=generator)
        return torch.where(torch.rand(shape, generator=generator) < 0.5, bits, bits >> 33 << 33)
    low = 0 if dtype in (torch.bool, torch.uint8, torch.uint16, torch.uint32) else -4
    high = 2 if dtype == torch.bool else 4
    found = torch.randint(low, high, shape, generator=generator)
    if dtype in (torch.uint8, torch.uint16, torch.uint32):  # some have the greatest bit
        found = found + (found > 2) * 2 ** (torch.iinfo(dtype).bits - 1)
    return found.to(dtype)


# -- sorts ------------------------------------------------------------------------------------------


def in_order(x, descending):
    """Sort by PyTorch, which orders no unsigned integers of 16 and 32 bits."""
    wide = x.long() if x.dtype in (torch.uint16, torch.uint32) else x
    values, places = wide.sort(dim=-1, descending=descending, stable=True)
    return values.to(x.dtype), places.to(torch.int32)


def equal(a, b):
    return a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())


@pytest.mark.parametrize("descending", (False, True))
@pytest.mark.parametrize("dtype", (*FLOATS, *INTEGERS), ids=str)
def test_sorts_with_places(dtype, descending):
    for shape in ((1,), (7,), (16,), (3, 9), (2, 3, 4)):
        x = numbers(*shape, dtype=dtype)
        outputs = torch.empty_like(x), torch.full(shape, -1, dtype=torch.int32)
        body = f"y, z = ntl.sort(x, descending={descending}, return_indices=True)"
        outputs = run(body, x, *outputs)
        expected = in_order(x, descending)
        assert equal(outputs[0], expected[0]) and equal(outputs[1], expected[1])


@pytest.mark.parametrize("descending", (False, True))
@pytest.mark.parametrize("dtype", (torch.float32, torch.float64), ids=str)
def test_sorts_of_what_is_no_number(dtype, descending):
    """NaN is the greatest, whatever its sign."""
    x = torch.tensor([1.0, torch.nan, -torch.inf, 3.0, torch.inf, -torch.nan, 3.0, -1.0, 0.0], dtype=dtype)
    values, places = run(
        f"y, z = ntl.sort(x, descending={descending}, return_indices=True)",
        x, torch.empty_like(x), torch.empty(9, dtype=torch.int32),
    )  # fmt: skip
    expected = in_order(x, descending)
    assert equal(values, expected[0]) and equal(places, expected[1])


@pytest.mark.parametrize("dtype", (torch.float16, torch.float32, torch.float64), ids=str)
def test_zeros_have_an_order(dtype):
    values, places = run(
        "y, z = ntl.sort(x, return_indices=True)",
        torch.tensor([0.0, -0.0, 0.0, -0.0], dtype=dtype), torch.empty(4, dtype=dtype), torch.empty(4).int(),
    )  # fmt: skip
    assert values.signbit().tolist() == [True, True, False, False] and places.tolist() == [1, 3, 0, 2]


@pytest.mark.parametrize("dtype", (torch.float32, torch.int64), ids=str)
@pytest.mark.parametrize("descending", (False, True))
def test_sorts_past_the_end(dtype, descending):
    """The last tile has 5 elements of 8, and takes no others; computed numbers past it would come first."""

    def eights(*tensors):
        return tuple(tensor.tile((8,)) for tensor in tensors)

    x = numbers(13, dtype=dtype)
    values, places = run(
        f"y, z = ntl.sort(x - 9, descending={descending}, return_indices=True)",
        x, torch.zeros_like(x), torch.full((13,), -1, dtype=torch.int32), arrangement=eights,
    )  # fmt: skip
    for part, of_values, of_places in zip(x.split(8), values.split(8), places.split(8), strict=True):
        expected = in_order(part - 9, descending)
        assert equal(of_values, expected[0]) and equal(of_places, expected[1])


def test_sorts_of_strided_rows_and_of_numbers():
    x = numbers(9, 6).mT[::2]
    values, places = run("y, z = ntl.sort(x, return_indices=True)", x, torch.empty(3, 9), torch.empty(3, 9).int())
    assert equal(values, in_order(x, False)[0]) and equal(places, in_order(x, False)[1])
    value, place = run("y, z = x[2].sort(return_indices=True)", x[0], torch.empty(1), torch.ones(1).int())
    assert value.item() == x[0, 2] and place.item() == 0


@pytest.mark.parametrize("columns, k", ((9, 3), (8, 4), (8, 8), (5, 1), (7, 7)))
@pytest.mark.parametrize("dtype", (torch.float16, torch.float32, torch.int32, torch.int64), ids=str)
def test_the_greatest_with_places(dtype, columns, k):
    x = numbers(4, columns, dtype=dtype)
    outputs = torch.empty(4, k, dtype=dtype), torch.empty(4, k, dtype=torch.int64)
    values, places = run(f"y, z = ntl.topk(x, {k}, return_indices=True)", x, *outputs, known=True)
    expected = [each[:, :k] for each in in_order(x, True)]
    assert equal(values, expected[0]) and equal(places, expected[1])
    assert equal(run(f"y = ntl.topk(x, {k})", x, outputs[0].zero_(), known=True)[0], expected[0])


# -- means and variances ----------------------------------------------------------------------------


def tolerances(dtype):
    bits = {torch.float16: 10, torch.bfloat16: 7, torch.float64: 52}.get(dtype, 23)
    return {"rtol": 4 * 2.0**-bits, "atol": 4 * 2.0**-bits, "check_dtype": False}


@pytest.mark.parametrize("dtype", (*FLOATS, torch.int8, torch.int32, torch.bool), ids=str)
@pytest.mark.parametrize("axis, keep", ((None, False), (0, False), (1, False), (-1, True)))
def test_means_and_variances(dtype, axis, keep):
    x, result = numbers(5, 9, dtype=dtype), dtype if dtype.is_floating_point else torch.float32
    wide, dims = x.double(), (0, 1) if axis is None else axis
    for function, expected in (("mean", wide.mean(dims, keep)), ("var", wide.var(dims, keepdim=keep))):
        y = torch.full(expected.shape or (1,), float("nan"), dtype=torch.float64)
        (y,) = run(f"found = ntl.{function}(x, axis={axis}, keep_dims={keep})\n"
            f"assert found.dtype == {result!r}\ny = found", x, y)  # fmt: skip
        torch.testing.assert_close(y, expected.expand(y.shape), **tolerances(result))


@pytest.mark.parametrize("size, arrangement", ((13, "ends"), (13, "turned"), (16, "ends"), (3, "ends")))
def test_a_mean_of_a_tile_that_ends_early(size, arrangement):
    """Only elements count, in the divisor, too: also where they come last in the tile."""

    def eights(x, y, z):
        return x.tile((8,)), y.tile((1,)), z.tile((1,))

    x = numbers(size)
    parts = -(-size // 8)
    tile = "ntl.flip(x)" if arrangement == "turned" else "x"
    mean, variance = run(
        f"tile = {tile} + 3\ny = ntl.mean(tile)\nz = ntl.var(tile)",
        x, torch.empty(parts), torch.empty(parts), arrangement=eights,
    )  # fmt: skip
    wide = [part + 3 for part in x.double().split(8)]
    torch.testing.assert_close(mean.double(), torch.stack([part.mean() for part in wide]), **tolerances(x.dtype))
    torch.testing.assert_close(variance.double(), torch.stack([part.var() for part in wide]), **tolerances(x.dtype))


def test_a_mean_of_a_block_that_ends_early_along_both_dimensions():
    def blocks(x, y, z):
        return x.tile((4, 8)), y.tile((1, 1)), z.tile((4, 1))

    x = numbers(6, 13)
    whole_mean, of_rows = run(
        "y = ntl.mean(x)\nz = ntl.mean(x, axis=1, keep_dims=True)",
        x, torch.empty(2, 2), torch.empty(6, 2), arrangement=blocks,
    )  # fmt: skip
    for i, rows in enumerate(x.double().split(4)):
        for j, block in enumerate(rows.split(8, dim=1)):
            torch.testing.assert_close(whole_mean[i, j].double(), block.mean(), **tolerances(x.dtype))
            torch.testing.assert_close(of_rows[4 * i :][:4, j].double(), block.mean(1), **tolerances(x.dtype))


@pytest.mark.parametrize("correction", (0, 1, 0.5, 4, 7))
def test_corrections_of_variances(correction):
    x = numbers(5)
    (y,) = run(f"y = ntl.var(x, correction={correction})", x, torch.empty(1))
    expected = x.double().var(correction=correction) if correction < 5 else torch.tensor(torch.inf)
    torch.testing.assert_close(y.double(), expected.double().expand(1), **tolerances(x.dtype))


def test_variances_of_one_element_and_of_large_numbers():
    assert run("y = ntl.var(x)", torch.ones(1), torch.zeros(1))[0].isnan().all()
    assert run("y = ntl.mean(x[1]) + ntl.var(x[1], correction=0)", torch.tensor([1.0, 7.0]), torch.zeros(1))[0] == 7
    x = numbers(100) + 1e4
    (y,) = run("y = ntl.var(x)", x, torch.empty(1))
    torch.testing.assert_close(y.double(), x.double().var().expand(1), rtol=1e-4, atol=0, check_dtype=False)


def test_means_in_a_loop():
    """A variable that a loop carries ends where its last tile does."""

    def tiles(x, y):
        return x.tile((4,)).tile((-1,)), y.tile((1,))

    x = numbers(10).abs()
    (y,) = run("last = x[0]\nfor i in range(1, x.shape[0]):\n    last = x[i]\ny = ntl.mean(last)", x, torch.empty(1),
               arrangement=tiles)  # fmt: skip
    torch.testing.assert_close(y.double(), x[8:].double().mean().expand(1), **tolerances(x.dtype))


# -- sums and powers --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_sums_of_integers(dtype):
    """Narrow integers give int32, others their own type, which wraps; `dtype=` is that of the sum."""
    x = numbers(3, 7, dtype=dtype)
    if dtype == torch.int32:
        x[0, 0], x[1, 1] = 2**31 - 1, 2**31 - 2
    result = dtype if dtype in (torch.int32, torch.uint32, torch.int64) else torch.int32
    total = x.long().sum(1)
    (y,) = run(
        f"found = ntl.sum(x, axis=1)\nassert found.dtype == {result!r}\ny = found", x, torch.empty(3, dtype=result)
    )
    assert torch.equal(y, total.to(result))
    (y,) = run("y = ntl.sum(x, axis=1, dtype=ntl.int64)", x, torch.empty(3, dtype=torch.int64))
    assert torch.equal(y, total)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("exponent", (2, 3, -1, 0.5, 1.7))
def test_powers_of_floats(dtype, exponent):
    x = numbers(9, dtype=dtype).abs() + 0.5
    (y,) = run(f"y = ntl.pow(x, {exponent})", x, torch.empty(9, dtype=dtype))
    torch.testing.assert_close(y.double(), x.double() ** exponent, **tolerances(dtype))
    (z,) = run(f"y = x.pow({exponent})", x, torch.empty(9, dtype=dtype))
    assert torch.equal(y, z)


def test_powers_of_integers():
    (y,) = run("y = ntl.pow(x, x)", torch.arange(6), torch.empty(6, dtype=torch.int64))
    assert y.tolist() == [1, 1, 4, 27, 256, 3125]


@pytest.mark.parametrize(
    "body, message",
    (
        ("y = ntl.mean(x, axis=2)", "axis 2 is out of range for a tile of shape (3, 4)"),
        ("y = ntl.var(x, correction=ntl.sum(x))", "`correction` must be known when compiling"),
        ("y, z = ntl.sort(x, 0, return_indices=True)", "`sort` works along the last dimension"),
        ("y = ntl.sum(ntl.topk(x, 9, return_indices=True)[0])", "`topk` takes the `k` largest of 4, and `k` is 9"),
    ),
)
def test_mistakes(body, message):
    with pytest.raises(ApplicationError) as caught:
        run(body, torch.ones(3, 4), torch.ones(3, 4), torch.ones(3, 4), known=True)
    assert message in caught.value.msg
