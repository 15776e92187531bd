import itertools

import numpy
import pytest

from ninetoothed.arrangement.symbol import Symbol
from ninetoothed.arrangement.tensor import Tensor
from ninetoothed.errors import ArrangementError

N = Symbol("n")


@pytest.mark.parametrize(
    "size, arguments, outer",
    [
        (10, {"tile_shape": (4,)}, 3),
        (10, {"tile_shape": (4,), "floor_mode": True}, 2),
        (10, {"tile_shape": (3,), "strides": (1,)}, 8),
        (10, {"tile_shape": (3,), "strides": (4,)}, 3),
        (10, {"tile_shape": (3,), "strides": (4,), "floor_mode": True}, 2),
        (10, {"tile_shape": (3,), "strides": (1,), "dilation": (3,)}, 4),
        (2, {"tile_shape": (9,), "strides": (2,)}, 0),
        (2, {"tile_shape": (9,)}, 1),
        (0, {"tile_shape": (4,)}, 0),
        (0, {"tile_shape": (-1,)}, 1),
        (0, {"tile_shape": (-1,), "strides": (1,)}, 1),
        (7, {"tile_shape": (-1,), "strides": (2,)}, 1),
        (0, {"tile_shape": (4,), "floor_mode": True}, 0),
    ],
)
def test_outer_sizes(size, arguments, outer):
    assert Tensor(shape=(size,)).tile(**arguments).shape == (outer,)
    symbolic = Tensor(1, name="x").tile(**arguments).shape[0]
    assert (symbolic if isinstance(symbolic, int) else symbolic.subs({"x_size_0": size})) == outer


def test_shapes_as_written():
    x = Tensor(3, name="x")
    assert str(x.flatten(start_dim=1).shape) == "(x_size_0, x_size_1 * x_size_2)"
    assert str(x.pad(((0, 0), (1, N), (N, 0))).shape) == "(x_size_0, 1 + x_size_1 + n, n + x_size_2)"
    assert x.pad(((0, 0), (1, 2), (0, 0))).subs({x: {"shape": (1, 2, 3)}}).shape == (1, 5, 3)
    assert x.expand((-1, -1, -1)).shape == x.shape
    assert x[0, ..., None].shape == (*x.shape[1:], 1)


@pytest.mark.parametrize(
    "end, shape", [(None, (2, 60)), (-1, (2, 12, 5)), (3, (2, 12, 5)), (2, (2, 3, 4, 5)), (4, (2, 60))]
)
def test_the_end_of_a_flattening_is_exclusive(end, shape):
    assert Tensor(shape=(2, 3, 4, 5)).flatten(start_dim=1, end_dim=end).shape == shape


@pytest.mark.parametrize(
    "one_by_one, at_once",
    (
        (lambda x: x.permute(2, 0, 1), lambda x: x.permute((2, 0, 1))),
        (lambda x: x.permute(-1, 0, numpy.int64(1)), lambda x: x.permute((-1, 0, 1))),
        (lambda x: x.expand(4, 8, -1), lambda x: x.expand((4, 8, -1))),
        (lambda x: x.expand(3, -1, N, -1), lambda x: x.expand((3, -1, N, -1))),
        (lambda x: x.tile(2, 1, -1), lambda x: x.tile((2, 1, -1))),
        (lambda x: x.tile(2, "n", N), lambda x: x.tile((2, N, N))),
        (
            lambda x: x.tile(2, 1, 2, strides=(1, 1, 2), dilation=(1, 1, 1), floor_mode=True),
            lambda x: x.tile((2, 1, 2), (1, 1, 2), (1, 1, 1), True),
        ),
        (lambda x: x.unsqueeze(0).squeeze(0, 2), lambda x: x.unsqueeze(0).squeeze((0, 2))),
        (lambda x: x.tile(2, 1, -1).dtype.squeeze(-2), lambda x: x.tile((2, 1, -1)).dtype.squeeze((1,))),
        (lambda x: x[0, 0].tile(2), lambda x: x[0, 0].tile((2,))),
        (lambda x: x[0, 0].tile(2, strides=1), lambda x: x[0, 0].tile((2,), (1,))),
        (lambda x: x[0, 0].permute(0), lambda x: x[0, 0].permute((0,))),
    ),
)
def test_sizes_and_dimensions_one_by_one(one_by_one, at_once):
    x = Tensor(shape=(4, 1, None), name="x")
    assert one_by_one(x).arrangement == at_once(x).arrangement


def with_inner(tensor, change, *others):
    """Rearrange the second level of an arranged tensor, and the third by another function."""
    tensor.dtype = change(tensor.dtype)
    for other in others:
        tensor.dtype.dtype = other(tensor.dtype.dtype)
    return tensor


def squeezed(*dims):
    return lambda level: level.squeeze(dims)


@pytest.mark.parametrize(
    "short, long",
    (
        (lambda x: x.tile(None, None, -1), lambda x: with_inner(x.tile((1, 1, -1)), squeezed(0, 1))),
        (lambda x: x.tile((2, None, 4)), lambda x: with_inner(x.tile((2, 1, 4)), squeezed(1))),
        (lambda x: x.tile(None, None, None), lambda x: with_inner(x.tile((1, 1, 1)), squeezed(0, 1, 2))),
        (
            lambda x: x.tile(2, None, 4, strides=(1, 3, 2), dilation=(2, 1, 1), floor_mode=True),
            lambda x: with_inner(x.tile((2, 1, 4), (1, 3, 2), (2, 1, 1), True), squeezed(1)),
        ),
        (
            lambda x: x.tile(2, None, 4, loop=2),
            lambda x: with_inner(x.tile((2, 1, 4)).tile((1, 1, -1)), squeezed(0, 1), squeezed(1)),
        ),
        (
            lambda x: x.tile(2, 3, 4, loop=(0, -1)),
            lambda x: with_inner(x.tile((2, 3, 4)).tile((-1, 1, -1)), squeezed(1)),
        ),
        (
            lambda x: x.tile(2, 3, 4, loop={1: 2, 2: -1}),
            lambda x: with_inner(x.tile((2, 3, 4)).tile((1, 2, -1)), squeezed(0)),
        ),
        (
            lambda x: x.tile(2, 3, 4, loop=()),
            lambda x: with_inner(x.tile((2, 3, 4)).tile((1, 1, 1)), squeezed(0, 1, 2)),
        ),
        (
            lambda x: with_inner(x.tile(4, 4, 4), lambda level: level.tile(None, 2, 2, loop=1)),
            lambda x: with_inner(
                x.tile(4, 4, 4),
                lambda level: with_inner(level.tile(1, 2, 2).tile(1, -1, 1), squeezed(0, 2), squeezed(0)),
            ),
        ),
    ),
)
def test_tiles_without_dimensions_and_in_loops(short, long):
    x = Tensor(shape=(5, 7, 9), name="x")
    assert short(x).arrangement.levels == long(x).arrangement.levels
    assert numpy.array_equal(short(x).eval(), long(x).eval())
    assert str(short(Tensor(3, name="x"))) == str(long(Tensor(3, name="x")))


@pytest.mark.parametrize(
    "tile_shape, loop, message",
    (
        ((None,), None, "has 1 entry; give 2"),
        ((None, 4), 2, r"tile\(\(None, 4\), loop=2\) .*there is no dimension 2; use -2 to 1"),
        ((None, 4), (1, -1), "a dimension is named twice"),
        ((None, 4), {1: 0}, "the loop takes 0 tiles along dimension 1; give 1 or more, or -1 for all"),
        ((None, 4), {1: 1.5}, "loop: expected an int or a Symbol, got 1.5"),
        ((None, 4), "all", "there is no dimension 'all'"),
    ),
)
def test_what_is_no_loop(tile_shape, loop, message):
    with pytest.raises(ArrangementError, match=message):
        Tensor(2, name="x").tile(tile_shape, loop=loop)


def test_two_sizes_are_no_size_and_stride():
    with pytest.raises(ArrangementError, match=r"tile\(\(4, 2\)\) of `x`.*tile_shape \(4, 2\) has 2 entries; give 1"):
        Tensor(1, name="x").tile(4, 2)


def test_flattening_nothing():
    assert Tensor(0).flatten().shape == (1,)


def arranged(operation, *arguments, shape=(4, 1, None), **options):
    return getattr(Tensor(shape=shape, name="weights"), operation)(*arguments, **options)


@pytest.mark.parametrize(
    "call",
    [
        lambda: arranged("tile", (2, 2)),
        lambda: arranged("tile", (2, 2, -2)),
        lambda: arranged("tile", (2, 2, 0)),
        lambda: arranged("tile", (2, 2, 2), strides=(1, 1)),
        lambda: arranged("tile", (2, 2, 2), strides=(1, 1, 0)),
        lambda: arranged("tile", (2, 2, 2), dilation=(1, 1, 0)),
        lambda: arranged("tile", (2, 2, 1.5)),
        lambda: arranged("expand", (2, 2)),
        lambda: arranged("expand", (2, 2, 2)),
        lambda: arranged("expand", (-1, 4, 1, -1)),
        lambda: arranged("expand", (-1, -1, 4, -1)),
        lambda: arranged("expand", (4, -2, 4)),
        lambda: arranged("unsqueeze", 4),
        lambda: arranged("unsqueeze", -5),
        lambda: arranged("squeeze", 0),
        lambda: arranged("squeeze", 3),
        lambda: arranged("squeeze", (1, -2)),
        lambda: arranged("squeeze", "1"),
        lambda: arranged("permute", (0, 1)),
        lambda: arranged("permute", (0, 1, 1)),
        lambda: arranged("permute", (0, 1, 3)),
        lambda: arranged("permute", 0),
        lambda: arranged("flatten", 3),
        lambda: arranged("flatten", 1, 1),
        lambda: arranged("flatten", 0, 4),
        lambda: arranged("pad", ((0, 0), (1, 1))),
        lambda: arranged("pad", ((0, 0), (1, 1), (-1, 0))),
        lambda: arranged("pad", (1, 1, 1)),
        lambda: arranged("pad", None),
        lambda: arranged("__getitem__", 4),
        lambda: arranged("__getitem__", -5),
        lambda: arranged("__getitem__", (0, 0, 0, 0)),
        lambda: arranged("__getitem__", (..., ...)),
        lambda: arranged("__getitem__", 1.5),
        lambda: arranged("__getitem__", slice(None, None, 0)),
        lambda: arranged("__getitem__", slice(None, None, N)),
        lambda: arranged("__getitem__", slice("a b")),
        lambda: arranged("__getitem__", [0, 1]),
    ],
)
def test_errors_name_the_tensor_its_shape_and_the_users_line(call):
    with pytest.raises(ArrangementError) as caught:
        call()
    message = str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert "weights" in message and "weights_size_2" in message
    assert "test_metaops.py" in message and "getattr(Tensor(shape" in message


def test_errors_name_the_operation_and_the_level():
    x = Tensor(shape=(8, 8), name="x").tile((4, 4))
    with pytest.raises(
        ArrangementError, match=r"^squeeze\(0\) of `x.dtype`, of shape \(4, 4\): dimension 0 has size 4"
    ):
        x.dtype.squeeze(0)


def test_negative_dimensions():
    x = Tensor(shape=(1, 2, 3))
    assert x.squeeze(-3).shape == (2, 3)
    assert x.permute((-1, 0, -2)).shape == (3, 1, 2)
    assert x.unsqueeze(-1).shape == (1, 2, 3, 1)
    assert x.flatten(-2).shape == (1, 6)
    assert x.squeeze(()).shape == x.shape


def test_symbols_may_be_indices_and_bounds():
    x = Tensor(2, name="x")
    y = x[N, :N]
    assert y.eval({x: {"shape": (3, 4)}, "n": 2}).tolist() == [8, 9]
    assert y.eval({x: {"shape": (3, 4)}, "n": 3}).tolist() == [-1, -1, -1]
    assert x[-1, -2:].eval({x: {"shape": (3, 1)}}).tolist() == [2]


S, T = Symbol("S", constexpr=True), Symbol("T", constexpr=True)


@pytest.mark.parametrize("step", (1, -3))
@pytest.mark.parametrize(
    "bounds", ((S, None), (None, S), (-S, None), (None, -S), (S, T), (-S, T - 1), (1, S), (0, None), (None, 0), (-2, S))
)
def test_symbolic_bounds_of_slices_are_cut_off_as_in_numpy(bounds, step):
    def number(bound, values):
        return bound.subs(values) if isinstance(bound, Symbol) else bound

    x = Tensor(1, name="x")
    names = {name for bound in bounds if isinstance(bound, Symbol) for name in bound.leaves}
    numbers = [each if name in names else (0,) for name, each in (("S", (-6, -1, 0, 2, 5)), ("T", (-3, 0, 3)))]
    for size, s, t in itertools.product((0, 1, 4), *numbers):
        values = {"S": s, "T": t}
        expected = numpy.arange(size)[slice(*(number(bound, values) for bound in bounds), step)]
        for source in (x, Tensor(shape=(size,), name="x")):
            found = source[slice(*bounds, step)].eval({x: {"shape": (size,)}, **values})
            assert found.tolist() == expected.tolist(), (size, values)


def test_a_symbolic_index_counts_from_the_end_where_it_is_negative():
    x = Tensor(1, name="x")
    assert [x[S].eval({x: {"shape": (3,)}, "S": s}).tolist() for s in (0, 2, 3, -1, -3, -4)] == [0, 2, -1, 2, 0, -1]


def test_bounds_that_are_sizes_are_not_negative():
    x, block = Tensor(2, name="x"), Symbol("block", meta=True)
    assert str(x[x.shape[1] :, : block + 1].shape) == "(max(x_size_0 - x_size_1, 0), min(block + 1, x_size_1))"
