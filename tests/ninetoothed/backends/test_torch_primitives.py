"""Each primitive of the PyTorch backend against a plain computation in NumPy or float64."""

import math
from fractions import Fraction

import numpy
import pytest
import torch

from ninetoothed import dtypes, ir
from ninetoothed.backends.torch.functions import FUNCTIONS
from ninetoothed.language.primitives import PRIMITIVES
from tests.ninetoothed.backends.torch_programs import apply, close, value

FLOATING = "exp exp2 log log2 sqrt sqrt_rn rsqrt sin cos tanh erf sigmoid floor ceil neg abs".split()
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def random_integers(dtype, *shape):
    """Bits at random, so that every operation overflows somewhere."""
    bits = torch.randint(-128, 128, (*shape, dtypes.BY_NAME[dtype].bits // 8), dtype=torch.int8)
    return bits.view(getattr(torch, dtype)).view(shape)


def test_every_primitive_of_the_table_is_there():
    assert FUNCTIONS.keys() == {name for name, row in PRIMITIVES.items() if "torch" in row.backends}


@pytest.mark.parametrize("dtype", (dtypes.float32, dtypes.float64))
@pytest.mark.parametrize(
    "name", "exp exp2 log log2 sqrt sqrt_rn rsqrt sin cos tanh erf sigmoid floor ceil neg abs".split()
)
def test_functions_of_floats(name, dtype):
    input = torch.rand(5, 8, dtype=getattr(torch, dtype.name)) * 3 + 0.01
    expected = getattr(torch, name.removesuffix("_rn"))(input.double()).to(input.dtype)
    close(apply(name, [input], [(dtype, (8,))]), expected)


NUMPY = {
    "add": numpy.add,
    "sub": numpy.subtract,
    "mul": numpy.multiply,
    "and": numpy.bitwise_and,
    "or": numpy.bitwise_or,
    "xor": numpy.bitwise_xor,
    "floordiv": numpy.floor_divide,
    "mod": numpy.remainder,
    "maximum": numpy.maximum,
    "minimum": numpy.minimum,
}
COMPARISONS = {
    "eq": numpy.equal,
    "ne": numpy.not_equal,
    "lt": numpy.less,
    "le": numpy.less_equal,
    "gt": numpy.greater,
    "ge": numpy.greater_equal,
}


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", (*NUMPY, *COMPARISONS))
def test_arithmetic_of_integers_wraps(name, dtype):
    lhs, rhs = random_integers(dtype, 6, 16), random_integers(dtype, 6, 16)
    if name in ("floordiv", "mod"):
        rhs = torch.from_numpy(numpy.where(rhs.numpy() == 0, 3, rhs.numpy()).astype(dtype))
    with numpy.errstate(over="ignore"):
        expected = (NUMPY | COMPARISONS)[name](lhs.numpy(), rhs.numpy())
    result = dtypes.int1 if name in COMPARISONS else dtypes.BY_NAME[dtype]
    found = apply(name, [lhs, rhs], [(result, (16,))])
    assert numpy.array_equal(found.numpy(), expected)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", ("lshift", "rshift", "invert", "neg"))
def test_shifts_and_signs_of_integers(name, dtype):
    input = random_integers(dtype, 6, 16)
    amount = torch.randint(0, 8, (6, 16)).to(input.dtype)
    one_operand = name in ("invert", "neg")
    functions = {"lshift": numpy.left_shift, "rshift": numpy.right_shift, "invert": numpy.invert, "neg": numpy.negative}
    arrays = [input.numpy()] if one_operand else [input.numpy(), amount.numpy()]
    operands = [input] if one_operand else [input, amount]
    found = apply(name, operands, [(dtypes.BY_NAME[dtype], (16,))])
    assert numpy.array_equal(found.numpy(), functions[name](*arrays))


@pytest.mark.parametrize("dtype", ("int32", "uint32", "int64", "uint64"))
def test_umulhi_is_the_upper_half_of_an_unsigned_product(dtype):
    lhs, rhs = random_integers(dtype, 3, 8), random_integers(dtype, 3, 8)
    bits = dtypes.BY_NAME[dtype].bits
    found = apply("umulhi", [lhs, rhs], [(dtypes.BY_NAME[dtype], (8,))])
    pairs = zip(lhs.flatten().tolist(), rhs.flatten().tolist())
    expected = [(a % 2**bits) * (b % 2**bits) >> bits for a, b in pairs]
    assert [x % 2**bits for x in found.flatten().tolist()] == expected


def test_logic_of_int1():
    lhs, rhs = torch.rand(2, 4, 8) > 0.5
    for name, function in {"and": lhs & rhs, "or": lhs | rhs, "xor": lhs ^ rhs}.items():
        assert torch.equal(apply(name, [lhs, rhs], [(dtypes.int1, (8,))]), function)
    assert torch.equal(apply("invert", [lhs], [(dtypes.int1, (8,))]), ~lhs)


@pytest.mark.parametrize("name", ("floordiv", "mod"))
def test_division_by_zero_in_lanes_that_do_not_count_raises_nothing(name):
    lhs, rhs = torch.tensor([[7, -7, 5, 0]]), torch.tensor([[2, 2, 0, 0]])
    found = apply(name, [lhs, rhs], [(dtypes.int64, (4,))])
    assert found[0, :2].tolist() == ([3, -4] if name == "floordiv" else [1, 1])


def test_floor_division_of_floats():
    lhs, rhs = torch.tensor([[7.5, -7.5]]), torch.tensor([[2.0, 2.0]])
    assert apply("floordiv", [lhs, rhs], [(dtypes.float32, (2,))]).tolist() == [[3, -4]]
    assert apply("mod", [lhs, rhs], [(dtypes.float32, (2,))]).tolist() == [[1.5, 0.5]]


@pytest.mark.parametrize("name, worst", (("maximum", -math.inf), ("minimum", math.inf)))
def test_extrema_take_the_operand_that_is_a_number(name, worst):
    lhs, rhs = torch.tensor([[math.nan, 1, math.nan, 2]]), torch.tensor([[3, math.nan, math.nan, worst]])
    found = apply(name, [lhs, rhs], [(dtypes.float32, (4,))])
    assert found[0, :2].tolist() == [3, 1] and found[0, 2].isnan() and found[0, 3] == 2
    found = apply(name, [lhs, rhs], [(dtypes.float32, (4,))], propagate_nan=True)
    assert found[0, :3].isnan().all() and found[0, 3] == 2


def test_where_and_fma():
    x, y, z = torch.randn(3, 4, 8)
    condition = x > 0
    close(apply("where", [condition, y, z], [(dtypes.float32, (8,))]), torch.where(condition, y, z))
    close(apply("fma", [x, y, z], [(dtypes.float32, (8,))]), (x.double() * y + z).float())
    close(apply("truediv", [x, y], [(dtypes.float32, (8,))]), x / y)
    close(apply("pow", [x.abs(), y], [(dtypes.float32, (8,))]), x.abs() ** y)


@pytest.mark.parametrize("target", (*INTEGERS, "float16", "bfloat16", "float32", "float64", "int1"))
@pytest.mark.parametrize("source", ("int8", "uint16", "int64", "uint64", "float32", "float16"))
def test_casts(source, target):
    if source.startswith("float"):
        input = (torch.randn(4, 16) * 50).to(getattr(torch, source))
        input[0, 0] = 0
        if target.startswith("u"):
            input = input.abs()
    else:
        input = random_integers(source, 4, 16)
    name = dtypes.to_torch_name(dtypes.BY_NAME[target])
    found = apply("cast", [input], [(dtypes.BY_NAME[target], (16,))])
    if target == "int1":
        expected = torch.from_numpy(input.numpy() != 0)
    elif target == "bfloat16":
        expected = torch.from_numpy(input.numpy().astype("float64")).to(torch.bfloat16)
    elif target == "int8" and source.startswith("float"):
        expected = input.to(torch.int32).to(torch.int8)
    else:
        with numpy.errstate(over="ignore"):  # NumPy warns of an integer past the largest float16
            expected = torch.from_numpy(input.numpy().astype(target))
    assert found.dtype == getattr(torch, name) and torch.equal(found.view(torch.int8), expected.view(torch.int8))


def test_large_floats_become_unsigned_integers():
    input = torch.tensor([[0.0, 3.7, 2.0**62, 2.0**63, 1e19, 2.0**64 - 2048]], dtype=torch.float64)
    found = apply("cast", [input], [(dtypes.uint64, (6,))])
    assert found.tolist() == [[int(x) for x in input[0].tolist()]]


def test_bitcast_keeps_the_bits():
    input = torch.randn(3, 8)
    bits = apply("bitcast", [input], [(dtypes.uint32, (8,))])
    assert torch.equal(bits.view(torch.float32), input)
    assert torch.equal(apply("bitcast", [bits], [(dtypes.float32, (8,))]), input)


def test_libdevice_rounds_halves_away_from_zero_and_has_gamma():
    halves = torch.tensor([[-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997, 8388609.0]])
    found = apply("libdevice", [halves], [(dtypes.float32, (8,))], name="round")
    assert found.tolist() == [[-3, -2, -1, 1, 2, 3, 0, 8388609]]
    points = torch.tensor([[0.5, 1.5, 4.0, -0.5, -1.5, 3.2, 0.1, 5.0]])
    expected = torch.tensor([[math.gamma(x) for x in points[0].tolist()]])
    close(apply("libdevice", [points], [(dtypes.float32, (8,))], name="tgamma"), expected)


def test_shapes():
    x = torch.randn(3, 4, 8)
    assert torch.equal(apply("permute", [x], [(dtypes.float32, (8, 4))], dims=(1, 0)), x.transpose(1, 2))
    assert torch.equal(apply("reshape", [x], [(dtypes.float32, (2, 16))]), x.reshape(3, 2, 16))
    assert torch.equal(apply("expand_dims", [x], [(dtypes.float32, (4, 1, 8))], axis=1), x.unsqueeze(2))
    assert torch.equal(apply("flip", [x], [(dtypes.float32, (4, 8))], axis=-1), x.flip(2))
    one = torch.randn(3, 1, 8)
    assert torch.equal(apply("broadcast", [one], [(dtypes.float32, (4, 8))]), one.expand(3, 4, 8))
    scalar = torch.randn(3)
    assert torch.equal(apply("full", [scalar], [(dtypes.float32, (2, 4))]), scalar[:, None, None].expand(3, 2, 4))


def test_a_broadcast_tile_is_summed_and_reshaped_as_what_it_stands_for():
    from tests.ninetoothed.backends.torch_programs import execute, rows

    one, out = torch.randn(3, 1, 8), torch.zeros(3, 8)
    loaded, wide, total = value(dtypes.float32, 1, 8), value(dtypes.float32, 4, 8), value(dtypes.float32, 8)
    execute(
        [
            ir.Load(loaded, rows("one", one)),
            ir.Apply((wide,), "broadcast", (loaded,)),
            ir.Apply((total,), "sum", (wide,), (("axis", 0),)),
            ir.Store(rows("out", out), total),
        ],
        {"one": one, "out": out},
        (3,),
    )
    close(out, 4 * one[:, 0])


def test_join_split_cat_and_gather():
    x, y = torch.randn(2, 3, 8)
    joined = apply("join", [x, y], [(dtypes.float32, (8, 2))])
    assert torch.equal(joined, torch.stack((x, y), -1))
    first, second = apply("split", [joined], [(dtypes.float32, (8,)), (dtypes.float32, (8,))])
    assert torch.equal(first, x) and torch.equal(second, y)
    assert torch.equal(apply("cat", [x, y], [(dtypes.float32, (16,))]), torch.cat((x, y), 1))
    index = torch.randint(0, 8, (3, 8), dtype=torch.int32)
    assert torch.equal(apply("gather", [x, index], [(dtypes.float32, (8,))], axis=0), x.gather(1, index.long()))


@pytest.mark.parametrize("axis, keep", ((0, False), (1, True), (-1, False), (None, False), (None, True)))
@pytest.mark.parametrize("name", ("sum", "max", "min"))
def test_reductions(name, axis, keep):
    x = torch.randn(3, 4, 8)
    dims = (1, 2) if axis is None else axis % 2 + 1
    function = {"sum": torch.sum, "max": torch.amax, "min": torch.amin}[name]
    expected = function(x.double(), dims, keepdim=keep).float()
    found = apply(name, [x], [(dtypes.float32, tuple(expected.shape[1:]))], axis=axis, keep_dims=keep)
    close(found, expected)


def test_extrema_skip_nan_unless_there_is_nothing_else():
    x = torch.tensor([[1, math.nan, 3, 2], [math.nan] * 4])
    found = apply("max", [x], [(dtypes.float32, ())], axis=0)
    assert found[0] == 3 and found[1].isnan()
    assert apply("min", [x], [(dtypes.float32, ())], axis=None)[0] == 1


@pytest.mark.parametrize("name", ("argmax", "argmin"))
def test_positions_are_those_of_the_first(name):
    x = torch.randint(0, 3, (50, 16)).float()
    expected = getattr(numpy, name)(x.numpy(), 1)
    assert numpy.array_equal(apply(name, [x], [(dtypes.int32, ())], axis=0).numpy(), expected)
    square = x.reshape(50, 4, 4)
    found = apply(name, [square], [(dtypes.int32, (1, 4))], axis=0, keep_dims=True)
    assert numpy.array_equal(found.numpy(), getattr(numpy, name)(square.numpy(), 1)[:, None])


def test_unsigned_extrema_and_sums():
    x = random_integers("uint64", 3, 16)
    assert numpy.array_equal(apply("max", [x], [(dtypes.uint64, ())], axis=0).numpy(), x.numpy().max(1))
    with numpy.errstate(over="ignore"):
        assert numpy.array_equal(apply("sum", [x], [(dtypes.uint64, ())], axis=0).numpy(), x.numpy().sum(1))
    y = random_integers("int32", 3, 16)
    for name, function in (("xor_sum", numpy.bitwise_xor), ("reduce_or", numpy.bitwise_or)):
        assert numpy.array_equal(apply(name, [y], [(dtypes.int32, ())], axis=0).numpy(), function.reduce(y.numpy(), 1))


@pytest.mark.parametrize("reverse", (False, True))
def test_prefixes(reverse):
    x = torch.rand(3, 4, 8) + 0.5
    y = x.flip(2) if reverse else x
    sums, products = (f(y.double(), 2).float() for f in (torch.cumsum, torch.cumprod))
    sums, products = (z.flip(2) if reverse else z for z in (sums, products))
    close(apply("cumsum", [x], [(dtypes.float32, (4, 8))], axis=1, reverse=reverse), sums)
    close(apply("cumprod", [x], [(dtypes.float32, (4, 8))], axis=1, reverse=reverse), products)


def affine_composition():
    """(a, b) after (c, d): x -> a * x + b, then c * x + d. It does not commute."""
    a, b, c, d = (value(dtypes.float32) for _ in range(4))
    product, scaled, total = (value(dtypes.float32) for _ in range(3))
    body = (
        ir.Apply((product,), "mul", (a, c)),
        ir.Apply((scaled,), "mul", (b, c)),
        ir.Apply((total,), "add", (scaled, d)),
    )
    return ir.Lambda("compose", (a, b, c, d), body, (product, total))


@pytest.mark.parametrize("reverse", (False, True))
def test_scans_and_reductions_with_a_function(reverse):
    a, b = torch.rand(3, 16), torch.randn(3, 16)
    steps, x, y = [], torch.ones(3), torch.zeros(3)
    for i in range(15, -1, -1) if reverse else range(16):
        x, y = x * a[:, i], y * a[:, i] + b[:, i]
        steps.append((x, y))
    types = [(dtypes.float32, (16,))] * 2
    combine = affine_composition()
    found = apply("associative_scan", [a, b], types, axis=0, reverse=reverse, combine=combine)
    for i in range(2):
        expected = torch.stack([step[i] for step in steps], 1)
        close(found[i], expected.flip(1) if reverse else expected, 1e-5)
    if not reverse:
        last = apply("reduce", [a, b], [(dtypes.float32, (1,))] * 2, axis=0, keep_dims=True, combine=combine)
        close(last[0], steps[-1][0][:, None], 1e-5)
        close(last[1], steps[-1][1][:, None], 1e-5)


def test_sort_and_histogram():
    x = torch.randn(3, 4, 16)
    for descending in (False, True):
        expected = x.sort(-1, descending=descending).values
        assert torch.equal(apply("sort", [x], [(dtypes.float32, (4, 16))], descending=descending), expected)
    unsigned = random_integers("uint64", 2, 16)
    found = apply("sort", [unsigned], [(dtypes.uint64, (16,))], descending=False)
    assert numpy.array_equal(found.numpy(), numpy.sort(unsigned.numpy(), 1))
    counted = torch.randint(0, 8, (3, 64), dtype=torch.int32)
    found = apply("histogram", [counted], [(dtypes.int32, (8,))], num_bins=8)
    assert torch.equal(found, torch.stack([row.bincount(minlength=8) for row in counted]).int())


PRODUCT_TYPES = (
    ("float32", "float32", 1e-6),
    ("float64", "float64", 1e-14),
    ("float16", "float32", 1e-6),
    ("bfloat16", "float32", 1e-6),
    ("int8", "int32", 0),
)


@pytest.mark.parametrize("given, result, tolerance", PRODUCT_TYPES)
def test_products_accumulate_widely(given, result, tolerance):
    lhs, rhs = (torch.randn(shape) * 20 for shape in ((3, 16, 64), (3, 64, 8)))
    lhs, rhs = (x.to(getattr(torch, given)) for x in (lhs, rhs))
    accumulator = (torch.randn(3, 16, 8) * 20).to(getattr(torch, result))
    product = lhs.double() @ rhs.double()
    dtype = dtypes.BY_NAME[result]
    close(apply("dot", [lhs, rhs], [(dtype, (16, 8))]), product.to(accumulator.dtype), tolerance)
    found = apply("dot", [lhs, rhs, accumulator], [(dtype, (16, 8))])
    close(found, (product + accumulator.double()).to(accumulator.dtype), tolerance)


def test_eight_bit_floats():
    x, y = (torch.randn(2, 16).to(torch.float8_e4m3fn) for _ in range(2))
    found = apply("add", [x, y], [(dtypes.float8e4nv, (16,))])
    assert torch.equal(found.float(), (x.float() + y.float()).to(torch.float8_e4m3fn).float())
    assert torch.equal(apply("lt", [x, y], [(dtypes.int1, (16,))]), x.float() < y.float())


@pytest.mark.parametrize("name", ("fma", "libdevice"))
@pytest.mark.parametrize("dtype", (dtypes.float32, dtypes.float64))
def test_fma_rounds_once(name, dtype):
    """The result is as near to x * y + z as its neighbours, where most digits cancel and where none do."""
    own = getattr(torch, dtype.name)
    x, y = torch.randn(2, 400, dtype=own)
    z = torch.cat((-(x * y)[:200], torch.randn(100, dtype=own), (x * y)[300:] * torch.finfo(own).eps / 2))
    attributes = {"name": "fma"} if name == "libdevice" else {}
    found = apply(name, [x.view(1, -1), y.view(1, -1), z.view(1, -1)], [(dtype, (400,))], **attributes).view(-1)
    below, above = (found.nextafter(torch.full_like(found, end)) for end in (-math.inf, math.inf))
    for a, b, c, *near in zip(*(each.tolist() for each in (x, y, z, found, below, above)), strict=True):
        exact = Fraction(a) * Fraction(b) + Fraction(c)
        distance, *others = (abs(Fraction(number) - exact) for number in near)
        assert distance <= min(others)
    special = torch.tensor([[math.inf, 1e38, 3e38, 0.0, math.nan]], dtype=own)
    found = apply(name, [special, special, -special], [(dtype, (5,))], **attributes)
    assert torch.equal(found.isnan(), (special * special - special).isnan())
