"""Rules for awkward operands, the same on every backend: Python's numbers, single numbers, NaN, zero, places outside.

`test_triton_interpreter` does all of it once more; random cases are in `benchmarks/trust/agreement.py`.
"""

import math
import operator
import os

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor
from ninetoothed.errors import ApplicationError, ExecutionError
from tests.conftest import DEVICE
from tests.ninetoothed.applications import application_of

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
on_cpu = pytest.mark.skipif(INTERPRETED or DEVICE != "cpu", reason="the CPU's backend alone")
HALVES = (torch.float16,) if INTERPRETED else (torch.float16, torch.bfloat16)
FLOATS = (*HALVES, torch.float32, torch.float64)
INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
NAN, INF = math.nan, math.inf
OUTSIDE = -1


def run(application, *tensors, output=None, elements=8, dtype=torch.float64, **options):
    """An output of tiles of `elements` for tensors in tiles of eight."""
    if isinstance(application, str):
        application = application_of(application, *"abc"[: len(tensors)], "y")
    count = -(-tensors[0].numel() // 8)
    size = tensors[0].numel() if elements == 8 else count * elements
    output = torch.full((size,), 77, dtype=dtype, device=DEVICE) if output is None else output

    def arrangement(*parameters):
        return (*(each.tile((8,)) for each in parameters[:-1]), parameters[-1].tile((elements,)))

    arranged = {1: lambda a, y: arrangement(a, y), 2: lambda a, b, y: arrangement(a, b, y)}[len(tensors)]
    parameters = (*(Tensor(1, **options) for _ in tensors), Tensor(1))
    ninetoothed.make(arranged, application, parameters)(*(t.to(DEVICE) for t in tensors), output)
    return output.cpu()


# -- Python's numbers ------------------------------------------------------------------------------

COMPARISONS = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt}
OPERATORS = {**COMPARISONS, ">=": operator.ge, "+": operator.add, "-": operator.sub, "*": operator.mul}


def each(operators, x, number):
    """Combine eight elements with a number by each operator, in one kernel."""
    lines = [f"y[{place}] = a {sign} {number}" for place, sign in enumerate(operators)]
    arrangement = lambda a, y: (a.tile((8,)), y.tile((8,)).tile((len(operators),)))  # noqa: E731
    kernel = ninetoothed.make(arrangement, application_of("\n".join(lines), "a", "y"), (Tensor(1), Tensor(1)))
    output = torch.full((8 * len(operators),), 77, dtype=torch.float64, device=DEVICE)
    kernel(x.to(DEVICE), output)
    return dict(zip(operators, output.cpu().view(-1, 8)))


@pytest.mark.parametrize("number", (0.1, 1e-8, 2049, 65504, 70000, 1e5, 1 / 3, 2))
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_numbers_beside_floats_are_as_in_pytorch(dtype, number):
    near = torch.tensor([number, 0.1, 1.5, -3.3, 0, INF, NAN, 70000], dtype=torch.float64).to(dtype)
    for sign, found in each(OPERATORS, near, number).items():
        # On a GPU PyTorch computes with the number as float32, on a CPU some functions round it to the half before.
        wide = near.float() if near.dtype in HALVES and sign in "+-*" else near
        expected = OPERATORS[sign](wide, number)
        expected = expected if expected.dtype == torch.bool else expected.to(dtype)
        torch.testing.assert_close(found, expected.double(), rtol=0, atol=0, equal_nan=True, msg=sign)


@pytest.mark.parametrize("number", (0.5, 1.0, 44.3, 44, -1, 300, True, 2**24 + 1.0))
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_numbers_beside_integers_are_as_in_pytorch(dtype, number):
    x = torch.tensor([44, 1, 0, 45, 127, 3, 2, 100], dtype=torch.int64).to(dtype)
    # A number that the type does not hold is compared as it is; PyTorch wraps it around.
    wide = x.long() if isinstance(number, int) else x
    for sign, found in each(COMPARISONS, x, number).items():
        assert torch.equal(found, COMPARISONS[sign](wide, number).double()), sign


def test_numbers_that_are_stored_keep_their_digits():
    """Triton takes a number beside a pointer for float32."""
    x = torch.zeros(8, dtype=torch.float64)
    assert run("y = 0.1", x).tolist() == [0.1] * 8
    assert run("y[3] = 0.1\ny[4] = y[3] * 3", x).tolist()[3:5] == [0.1, 0.1 * 3]
    assert run("y = ntl.full((8,), 0.1, ntl.float64)", x).tolist() == [0.1] * 8
    assert run("y = 2147483647", x).tolist() == [2147483647.0] * 8
    assert run("y = a[8 + ntl.program_id(0)]", x, other=0.1).tolist() == [0.1] * 8
    text = (
        "i = a.offsets(0)\nntl.store(y.source.data_ptr() + i, ntl.load(a.source.data_ptr() + i, mask=i < 0, other=0.1))"
    )
    assert run(text, x).tolist() == [0.1] * 8


@pytest.mark.parametrize("exponent", (0.5, -0.5))
def test_roots_are_those_of_pytorch(exponent):
    x = torch.tensor([4, 0.25, 0, -0.0, INF, -INF, -1, NAN], dtype=torch.float64)
    torch.testing.assert_close(run(f"y = a ** {exponent}", x), x**exponent, equal_nan=True)


# -- divisors of zero ------------------------------------------------------------------------------

TEN = torch.full((11,), 10)
DIVISORS = torch.tensor([1, 2, 3, 0, 5, 6, 7, 8, 9, 10, 0])


@on_cpu
@pytest.mark.parametrize(
    "body",
    (
        "y = a // b",
        "y = a % b",
        "y = ntl.cdiv(a, b)",
        "y = ntl.sum(a // b)",
        "y = 7 % b",
        "y = ntl.where(b == 0, a // b, 1)",
        "y = ntl.where(b != 0, a // b, (a // b) + 1)",
        "y = ntl.where(a > 0, a // b, 1) + (a // b)",
        "q = ntl.where(a > 3, a // b, 0)\ny = ntl.where(b != 0, q, -1) + q",
    ),
)
def test_a_divisor_of_zero_is_an_error(body):
    elements = 1 if "sum" in body else 8
    run(body, TEN, DIVISORS.clamp(1), elements=elements)
    with pytest.raises(ExecutionError, match="integers are divided by zero") as caught:
        run(body, TEN, DIVISORS, elements=elements)
    assert "program (0)" in str(caught.value) and body in str(caught.value)


@pytest.mark.parametrize(
    "body",
    (
        "y = ntl.where(b != 0, a // b, -1)",
        "y = ntl.where(b == 0, -1, (a // b) * 1)",
        "y = ntl.where(b != 0, ntl.where(a > 3, a // b, 0), -1)",
        "q = a // b\nfor _ in ntl.static_range(30):\n    q = q ^ (q & 0)\ny = ntl.where(b != 0, q, -1)",
        "i = a.offsets(0)\nz = ntl.load(b.source.data_ptr() + i, mask=i < 3)\n"
        "y = -1\nntl.store(y.source.data_ptr() + i, a // z, mask=i < 3)",
    ),
)
def test_divisors_of_zero_that_nothing_takes(body):
    found = run(body, TEN[:8], DIVISORS[:8], dtype=torch.int64)
    expected = [10, 5, 3, -1, 2, 1, 1, 1] if "where" in body else [10, 5, 3, -1, -1, -1, -1, -1]
    assert found.tolist() == expected


@pytest.mark.parametrize("body", ("y = a // b", "y = ntl.sum(a % b)"))
def test_divisors_of_zero_past_the_end(body):
    """Lanes past the end of a tensor read 0, and so do those that round a tile up."""
    elements = 1 if "sum" in body else 8
    output = torch.zeros(2 if elements == 1 else 11, dtype=torch.int64, device=DEVICE)
    found = run(body, TEN, DIVISORS.clamp(3), output=output, elements=elements)
    each = TEN // DIVISORS.clamp(3) if elements == 8 else TEN % DIVISORS.clamp(3)
    expected = each if elements == 8 else torch.stack([each[:8].sum(), each[8:].sum()])
    assert torch.equal(found, expected)


BEFORE_A_BRANCH = "q = a // b\nr = q + 1\ny = -1\nn = a[2]\n"


@pytest.mark.parametrize(
    "body, expected",
    (
        ("if n > 5:\n    y = ntl.where(b != 0, r - 1, -1)", [10, 5, 3, -1, 2, 1, 1, 1]),
        ("if n > 5:\n    y = a\n    if n > 6:\n        y = ntl.where(b == 0, -1, q)", [10, 5, 3, -1, 2, 1, 1, 1]),
        ("if n > 50:\n    y = r", [-1] * 8),
    ),
)
def test_divisors_of_zero_before_a_branch_that_does_not_take_them(body, expected):
    found = run(BEFORE_A_BRANCH + body, TEN[:8], DIVISORS[:8], dtype=torch.int64)
    assert found.tolist() == expected


@on_cpu
@pytest.mark.parametrize(
    "body",
    (
        "if n > 5:\n    y = r",
        "if n > 5:\n    y = ntl.where(b != 0, r, -1)\nelse:\n    y = q",
        "if n > 50:\n    y = ntl.where(b != 0, r, -1)\ny = q",
        "for k in range(2):\n    y = r + k",
    ),
)
def test_divisors_of_zero_before_a_branch_that_takes_them(body):
    with pytest.raises(ExecutionError, match="integers are divided by zero") as caught:
        run(BEFORE_A_BRANCH + body, TEN[:8], DIVISORS[:8])
    assert "q = a // b" in str(caught.value)


def test_a_branch_that_no_program_with_zero_takes():
    body = "z = b[3]\nif z != 0:\n    y = a // z\nelse:\n    y = -1"
    assert run(body, TEN[:8], DIVISORS[:8]).tolist() == [-1] * 8


# -- functions of one number -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, expected",
    (
        ("ntl.sort(ntl.sum(a))", ([40, 8], 1)),
        ("ntl.sort(ntl.sum(a), descending=True)", ([40, 8], 1)),
        ("ntl.topk(ntl.sum(a), 1)", ([40, 8], 1)),
        ("ntl.reduce(ntl.sum(a), None, lambda p, q: p * q)", ([40, 8], 1)),
        ("ntl.reduce(3, None, lambda p, q: p * q)", ([3, 3], 1)),
        ("ntl.interleave(ntl.sum(a), 1.5)", ([40, 1.5, 8, 1.5], 2)),
        ("ntl.interleave(2, 1.5)", ([2, 1.5, 2, 1.5], 2)),
        ("ntl.argmax(ntl.sum(a), None)", ([0, 0], 1)),
        ("ntl.max(ntl.sum(a), None, return_indices=True)[0]", ([40, 8], 1)),
        ("ntl.min(5, None, return_indices=True)[1]", ([0, 0], 1)),
        ("ntl.sum(ntl.sum(a))", ([40, 8], 1)),
    ),
)
def test_functions_of_one_number(text, expected):
    numbers, elements = expected
    x = torch.tensor([5.0, 1.0]).repeat_interleave(8)
    assert run(f"y = {text}", x, elements=elements).tolist() == numbers


def test_no_function_sees_a_number_as_a_tile():
    with pytest.raises(ApplicationError, match="`topk` takes the `k` largest of 1, and `k` is 2"):
        run("y = ntl.topk(ntl.sum(a), 2)", TEN[:8])
    with pytest.raises(ApplicationError, match="`globals` has no meaning in an application") as caught:
        run("y = globals()['ntl'].sum(a)", TEN[:8])
    assert "globals()" in caught.value.text


# -- NaN -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ("max", "min"))
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("place", (None, 0, 3, 7))
def test_an_extremum_and_its_place_are_of_one_element(name, dtype, place):
    x = torch.tensor([5, -1, 3, 4, 9, -7, 9, -7, 2, 8, 1], dtype=dtype)
    if place is not None:
        x[place] = x[8] = x[10] = NAN
    text = f"value, place = ntl.{name}(a, None, return_indices=True)\ny = ntl.join(value, place)"
    found = run(text, x, elements=2)
    expected = [torch.stack([e.double() for e in getattr(torch, name)(part, 0)]) for part in (x[:8], x[8:])]
    torch.testing.assert_close(found, torch.cat(expected), equal_nan=True, rtol=0, atol=0)


# -- places and numbers outside --------------------------------------------------------------------


@pytest.mark.parametrize("options, other", (({}, 0), ({"other": -5.0}, -5)))
def test_gathers_outside_a_tile_read_other(options, other):
    x, places = torch.arange(8.0) + 1, torch.tensor([-1, 0, 7, 8, 9, -8, 2**31 - 1, 3], dtype=torch.int32)
    expected = [other, 1, 8, other, other, other, other, 4]
    assert run("y = ntl.gather(a, b, 0)", x, places, **options).tolist() == expected
    # A tile that was computed has no `other`.
    expected = [0 if number == other else number for number in expected]
    assert run("y = ntl.gather(a + 0, b, 0)", x, places, **options).tolist() == expected


@pytest.mark.parametrize("bins", (4, 16))
@pytest.mark.parametrize("dtype", (torch.int32, torch.uint8))
def test_histograms_count_what_has_a_bin(bins, dtype):
    x = torch.tensor([0, 1, 2, 9, 100, 8, 7, 4, 4, 1, 200], dtype=torch.int64).to(dtype)
    parts = [torch.bincount(part.long(), minlength=201)[:bins] for part in (x[:8], x[8:])]
    output = torch.zeros(2 * bins, dtype=torch.int32, device=DEVICE)
    assert (
        run("y = ntl.histogram(a, y.shape[0])", x, elements=bins, output=output).tolist() == torch.cat(parts).tolist()
    )


@pytest.mark.parametrize(
    "index",
    (
        "i - 1",
        "k - 1",
        "OUTSIDE",
        "known",
        "known + 0",
        "min(-1, known)",
        "a.shape[0] - 9",
        "a.shape[0]",
        "8 + k",
        "ntl.argmax(a, 0) - 8",
    ),
)
@pytest.mark.parametrize("owner", ("a", "(a + 0)", "a.source"))
def test_an_index_that_is_no_literal_means_its_value(owner, index):
    """Out of bounds a parameter reads as its `other`, and is not written; a computed tile reads as 0."""

    def arrangement(a, y, n, known):
        return a.tile((8,)), y.tile((8,)), n, known

    store = "" if owner == "(a + 0)" else f"    {owner.replace('a', 'y')}[{index}] = 5.0\n"
    body = f"for k in ntl.static_range(1):\n  for i in range(n):\n    y = {owner}[{index}]\n{store}"
    application = application_of(body, "a", "y", "n", "known")
    application.__globals__["OUTSIDE"] = OUTSIDE
    parameters = (Tensor(1, other=-3.0), Tensor(1), Tensor(0), Tensor(0, constexpr=True))
    x, y = torch.arange(8.0, device=DEVICE) + 1, torch.zeros(8, device=DEVICE)
    ninetoothed.make(arrangement, application, parameters)(x, y, 1, -1)
    assert y.tolist() == [0.0 if owner == "(a + 0)" else -3.0] * 8


def test_tiles_of_tiles_take_indices_by_value():
    def application(x, y):
        for i in ntl.static_range(x.shape[0]):
            y[i] = x[i - 1] + x[i + 1]

    x, y = torch.arange(12.0, device=DEVICE), torch.zeros(12, device=DEVICE)
    arrangement = lambda x, y: (x.tile((2,)).tile((3,)), y.tile((2,)).tile((3,)))  # noqa: E731
    ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1)))(x, y)
    assert y.tolist() == [2, 3, 0 + 4, 1 + 5, 2, 3, 8, 9, 6 + 10, 7 + 11, 8, 9]


def test_literals_count_from_the_end():
    x = torch.arange(8.0) + 1
    assert run("y = a[-1] * 100 + a[-8] * 10 + a.source[-2] + (a + 0)[-1]", x).tolist() == [800 + 10 + 7 + 8] * 8


# -- others ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ("randint({})", "randint4x({})[1]"))
def test_random_integers_have_signs(name):
    drawn = name.format("7, a.offsets(0)")
    whole = run(f"y = ntl.{drawn}", torch.zeros(64), dtype=torch.int64)
    assert whole.min() < 0 <= whole.max() < 2**31 <= -whole.min() * 4
    for text, expected in (("% 6", whole % 6), ("// 7", whole // 7), (">> 3", whole >> 3), ("< 0", (whole < 0).long())):
        assert torch.equal(run(f"y = ntl.{drawn} {text}", torch.zeros(64), dtype=torch.int64), expected)


def test_every_tile_is_a_tile():
    def application(a, y):
        total = ntl.sum(a)
        local = a + 1
        for tile in (a, y, local, total, a[0], a.source[0], ntl.zeros((8,), ntl.float32)):
            ntl.static_assert(isinstance(tile, ntl.Tile) and isinstance(tile, (int, ntl.Tile)))
            ntl.static_assert(not isinstance(tile, (int, float, torch.Tensor)))
        for other in (1, 2.5, None, a.source, a.shape, a.shape[0], a.dtype):
            ntl.static_assert(not isinstance(other, ntl.Tile))
        for number in (a.shape[0], a.source.shape[0], ntl.program_id(0)):
            ntl.static_assert(isinstance(number, int) and not isinstance(number, ntl.Tile))
        ntl.static_assert(isinstance(a.source, ntl.Source))
        y = a

    assert run(application, torch.ones(8)).tolist() == [1.0] * 8


def test_products_of_bytes():
    def arrangement(a, b, c):
        return a.tile((-1, -1)), b.tile((-1, -1)), c.tile((-1, -1))

    def application(a, b, c):
        c = ntl.dot(a, b) + ntl.dot(a, b, c)

    for m, k, n in ((16, 32, 16), (16, 16, 16), (17, 70, 33)):
        a, b = (torch.randint(-128, 128, s, dtype=torch.int8, device=DEVICE) for s in ((m, k), (k, n)))
        c = torch.randint(-9, 9, (m, n), dtype=torch.int32, device=DEVICE)
        expected = 2 * (a.long().cpu() @ b.long().cpu()) + c.cpu()
        ninetoothed.make(arrangement, application, (Tensor(2), Tensor(2), Tensor(2)))(a, b, c)
        assert torch.equal(c.cpu().long(), expected)
