import itertools
import random

import pytest

from benchmarks.trust.chains import apply, random_chain, symbolic
from ninetoothed.arrangement.guards import Guard
from ninetoothed.arrangement.lowering import bind_sizes, lower, source_indices
from ninetoothed.arrangement.symbol import Symbol
from ninetoothed.arrangement.tensor import Tensor
from ninetoothed.expr import Facts, as_expr, const, simplify, var


def names_of(arrangement):
    return [[f"i{level}_{d}" for d in range(len(shape))] for level, shape in enumerate(arrangement.levels)]


def extents(arrangement, level, facts=None):
    """The shape of a level; sizes are at least 0 where the facts do not say."""
    facts = facts or Facts()
    for name in sorted({str(size) for size in arrangement.source.sizes} - facts.ranges.keys()):
        facts = facts.bind(name, 0) if name.isidentifier() else facts
    return [simplify(as_expr(size), facts) for size in arrangement.levels[level]]


def lowered(x, facts=None, bindings=None, shift=0):
    """The location of an element with a variable for each index, and the facts: every index is in its extent."""
    arrangement, facts = bind_sizes(x.arrangement, bindings or {}), facts or Facts()
    names = names_of(arrangement)
    for level, level_names in enumerate(names):
        for name, extent in zip(level_names, extents(arrangement, level, facts), strict=True):
            facts = facts.bind(name, 0, extent - 1)
    indices = [[var(name) + shift for name in level] for level in names]
    return lower(arrangement, indices, facts)


def holds(guard, values):
    index = guard.index.evaluate(values)
    return (not guard.lower or index >= 0) and (not guard.upper or index < guard.size.evaluate(values))


def positions(location, values, shape):
    """The flat index into the source, or -1 where a guard fails."""
    if not all(holds(guard, values) for guard in location.guards):
        return -1
    flat = 0
    for index, size in zip(location.indices, shape, strict=True):
        at = index.evaluate(values)
        assert 0 <= at < size, f"{index} is {at} of {size}, and no guard says so"
        flat = flat * size + at
    return flat


def build(seed, numeric):
    shape, calls, dense = random_chain(seed)
    rng, values = random.Random(seed), {}
    x = Tensor(shape=shape, name="x") if numeric else Tensor(len(shape), name="x")
    for level, operation, arguments in calls:
        if operation in ("tile", "pad") and not numeric:
            arguments = symbolic(rng, arguments, values)
        x = apply(x, level, operation, arguments)
    sizes = {} if numeric else {f"x_size_{d}": size for d, size in enumerate(shape)}
    return x, shape, dense.data, {**values, **sizes}


def points(rng, shape, count=60):
    every = list(itertools.product(*map(range, shape)))
    return rng.sample(every, min(count, len(every)))


@pytest.mark.parametrize("seed", range(35))
@pytest.mark.parametrize("known", ["numbers", "symbols", "bindings", "multiples"])
def test_random_chains(seed, known):
    x, shape, data, values = build(seed, numeric=known == "numbers")
    names = [name for level in names_of(x.arrangement) for name in level]
    facts = Facts()
    for name, value in values.items():
        multiple = next((m for m in (4, 3, 2) if value and value % m == 0), 1) if known == "multiples" else 1
        facts = facts.bind(name, 0 if "size" in name else 1, multiple_of=multiple)
    location = lowered(x, facts, values if known == "bindings" else None)
    unclamped = source_indices(x.arrangement, [[var(n) for n in level] for level in names_of(x.arrangement)], facts)
    for point in points(random.Random(seed), data.shape):
        at = {**values, **dict(zip(names, point, strict=True))}
        try:
            assert positions(location, at, shape) == data[point], (x, location, at)
            if data[point] >= 0:
                assert [i.evaluate(at) for i in unclamped] == [i.evaluate(at) for i in location.indices]
        except ZeroDivisionError:  # an empty dimension divides: no guard let it through
            assert 0 in shape


@pytest.mark.parametrize("seed", range(24))
def test_lanes_beyond_the_extent_and_shifted_indices(seed):
    """Lanes go on to a power of two, other indices start at -1: what is outside a level is out of bounds."""
    x, shape, data, values = build(seed, numeric=seed % 2 == 0)
    arrangement, facts = x.arrangement, Facts()
    for name in values:
        facts = facts.bind(name, 0 if "size" in name else 1)
    names, lanes = (
        names_of(arrangement),
        [f"i{len(arrangement.levels) - 1}_{d}" for d in range(len(arrangement.levels[-1]))],
    )
    for level, level_names in enumerate(names):
        for name, extent in zip(level_names, extents(arrangement, level, facts), strict=True):
            facts = facts.bind(name, 0, 7) if name in lanes else facts.bind(name, -1, extent)
    location = lower(arrangement, [[var(name) for name in level] for level in names], facts)
    flat_names = [name for level in names for name in level]
    ranges = [
        range(8) if name in lanes else range(-1, size + 1) for name, size in zip(flat_names, data.shape, strict=True)
    ]
    rng = random.Random(seed)
    for _ in range(80):
        point = tuple(rng.choice(choices) for choices in ranges)
        inside = all(0 <= i < size for i, size in zip(point, data.shape, strict=True))
        at = {**values, **dict(zip(flat_names, point, strict=True))}
        try:
            assert positions(location, at, shape) == (data[point] if inside else -1), (x, location, at)
        except ZeroDivisionError:
            assert 0 in shape


def sizes(name, count, **facts):
    known = Facts()
    for dim in range(count):
        known = known.bind(f"{name}_size_{dim}", 0, None, facts.get("multiple_of", 1))
    return known


def mm_input(x, block_m, block_k, columns):
    x = x.tile((block_m, block_k)).tile((1, -1)).expand((-1, columns))
    x.dtype = x.dtype.squeeze(0)
    return x


def test_a_matrix_keeps_one_guard_a_side():
    location = lowered(mm_input(Tensor(2, name="x"), 64, 32, Symbol("columns")), sizes("x", 2))
    m, k = var("i0_0") * 64 + var("i2_0"), var("i1_0") * 32 + var("i2_1")
    assert location.indices == (m, k)
    assert set(location.guards) == {
        Guard(m, var("x_size_0"), lower=False, upper=True),
        Guard(k, var("x_size_1"), lower=False, upper=True),
    }


def test_sizes_divisible_by_the_block_need_no_guard():
    x = mm_input(Tensor(2, name="x"), 64, 32, Symbol("columns"))
    assert lowered(x, sizes("x", 2, multiple_of=64)).guards == ()
    (guard,) = lowered(x, sizes("x", 2, multiple_of=32)).guards
    assert guard.size == var("x_size_0")
    assert lowered(x, bindings={"x_size_0": 128, "x_size_1": 64}).guards == ()
    assert len(lowered(x, bindings={"x_size_0": 127, "x_size_1": 64}).guards) == 1


def test_floor_mode_needs_no_guard():
    x = Tensor(1, name="x").tile((Symbol("B"),), floor_mode=True)
    facts = sizes("x", 1).bind("B", 1)
    assert lowered(x, facts).guards == ()


def test_a_whole_dimension_needs_no_guard():
    x = Tensor(2, name="x").tile((1, -1))
    assert lowered(x).guards == ()
    assert lowered(x).indices == (var("i0_0"), var("i1_1"))


def test_rounded_up_lanes_keep_theirs():
    x = Tensor(1, name="x").tile((-1,))
    facts = sizes("x", 1).bind("p", 0, 0).bind("n", 0, 63)
    location = lower(x.arrangement, [[var("p")], [var("n")]], facts)
    assert location.guards == (Guard(var("n"), var("x_size_0"), lower=False, upper=True),)
    numbers = Tensor(shape=(48,), name="x").tile((-1,))
    assert lower(numbers.arrangement, [[const(0)], [var("n")]], facts).guards == (
        Guard(var("n"), const(48), lower=False, upper=True),
    )


def test_an_index_before_the_start_keeps_its_lower_guard():
    x = Tensor(1, name="x").tile((16,)).tile((-1,))
    facts = sizes("x", 1, multiple_of=16).bind("k", 0, extents(x.arrangement, 1)[0] - 1).bind("n", 0, 15)
    (guard,) = lower(x.arrangement, [[const(0)], [var("k") - 1], [var("n")]], facts).guards
    assert (guard.lower, guard.upper, guard.index) == (True, False, var("k") - 1)
    (guard,) = lower(x.arrangement, [[const(0)], [var("k") + 1], [var("n")]], facts).guards
    assert (guard.lower, guard.upper, guard.index) == (False, True, var("k") + 1)


def test_a_flattened_group_is_guarded_undivided():
    x = Tensor(3, name="x").flatten().tile((Symbol("B"),))
    location = lowered(x, sizes("x", 3).bind("B", 1))
    (guard,) = location.guards
    assert guard.index == var("i0_0") * var("B") + var("i1_0") and not guard.lower
    assert guard.size == var("x_size_0") * var("x_size_1") * var("x_size_2")


def conv2d(n, c, h, w, k, r, s):
    x, f = Tensor(4, name="x"), Tensor(4, name="f")
    y = x.tile((1, *f.shape[1:]), strides=(-1, -1, 1, 1)).squeeze(1)
    y.dtype = y.dtype.squeeze(0)
    y = y.ravel().flatten(end_dim=3).flatten(start_dim=1)
    bindings = dict(zip((f"x_size_{d}" for d in range(4)), (n, c, h, w), strict=True))
    return y, bindings | dict(zip((f"f_size_{d}" for d in range(4)), (k, c, r, s), strict=True))


@pytest.mark.parametrize("sizes, blocks, guards", [((4, 512, 14, 14), (64, 32), 0), ((1, 5, 9, 9), (64, 32), 2)])
def test_a_convolution_of_constant_sizes_guards_the_two_flat_dimensions_alone(sizes, blocks, guards):
    y, bindings = conv2d(*sizes, 8, 3, 3)
    location = lowered(mm_input(y, *blocks, 4), bindings=bindings)
    assert len(location.guards) == guards
    assert all(not guard.lower for guard in location.guards)


def test_a_convolution_of_symbolic_sizes_proves_its_windows():
    y, _ = conv2d(1, 1, 1, 1, 1, 1, 1)
    location = lowered(y.tile((64, 32)))
    guarded = [str(guard.size) for guard in location.guards]
    assert "x_size_2" not in guarded and "x_size_3" not in guarded and "x_size_0" not in guarded


def test_a_dimension_that_may_be_empty():
    x = Tensor(2, name="x").squeeze(0).expand((-1,))
    assert lowered(x).guards == (Guard(const(0), var("x_size_0"), lower=False, upper=True),)
    assert lowered(x, Facts().bind("x_size_0", 1)).guards == ()


def test_offsets_out_of_bounds_overflow_into_the_first_dimension():
    x = Tensor(shape=(1, 5), name="x").flatten().tile((4,))
    (row, column) = source_indices(x.arrangement, [[var("o")], [var("n")]], Facts().bind("o", 0, 1).bind("n", 0, 3))
    assert [(row.evaluate({"o": 1, "n": n}), column.evaluate({"o": 1, "n": n})) for n in range(4)] == [
        (0, 4),
        (1, 0),
        (1, 1),
        (1, 2),
    ]


def test_a_kept_guard_may_prove_a_later_one():
    """The level's own guard says that the lane is within the tile; the source needs no second one."""
    x = Tensor(shape=(12,), name="x").tile((6,))
    facts = Facts().bind("o", 0, 1).bind("n", 0, 7)
    assert lower(x.arrangement, [[var("o")], [var("n")]], facts).guards == (Guard(var("n"), const(6), False, True),)


def test_the_number_of_a_tile_follows_from_the_index_of_its_element():
    """A loop over the tiles of another tensor: `k < cdiv(size, B)` and `B * k + n < size` are one guard."""
    x = Tensor(1, name="x").tile((32,)).tile((-1,))
    facts = sizes("x", 1).bind("k", 0).bind("n", 0, 31)
    element = var("k") * 32 + var("n")
    assert lower(x.arrangement, [[const(0)], [var("k")], [var("n")]], facts).guards == (
        Guard(element, var("x_size_0"), lower=False, upper=True),
    )
    # The last tile of a ragged dimension is not whole: here both sides are needed.
    shifted = lower(x.arrangement, [[const(0)], [var("k")], [var("n") - 5]], facts)
    assert any(guard.index == var("n") - 5 and guard.lower for guard in shifted.guards)
    assert any(guard.index == element - 5 and guard.upper for guard in shifted.guards)


def test_whole_tiles_are_among_those_of_a_dimension():
    x = Tensor(1, name="x").tile((32,)).tile((-1,))
    facts = sizes("x", 1).bind("k", 0, var("x_size_0") // 32 - 1).bind("n", 0, 31)
    assert lower(x.arrangement, [[const(0)], [var("k")], [var("n")]], facts).guards == ()
