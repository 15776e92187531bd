"""The verifier refuses programs that break the grammar: each is sound but for one thing."""

import pytest

from ninetoothed import ir
from ninetoothed.dtypes import PointerType, float16, float32, int1, int32, int64
from ninetoothed.expr import Facts, const
from ninetoothed.ir import Apply, Constant, If, Lambda, Value, While
from ninetoothed.ir.verify import verify
from tests.ninetoothed.backends.torch_programs import value

SIZES = (const(4), const(8))


def program(*body):
    parameter = ir.Parameter("x", "tensor", float32, SIZES, (const(8), const(1)))
    return ir.Program("kernel", (parameter,), (const(1),), ("program",), body, Facts())


def tiles(*values):
    """Operations that define values: tiles and numbers of whatever type."""
    for each in values:
        number = Value(ir.TileType(each.type.dtype))
        if isinstance(each.type.dtype, PointerType):
            number = Value(each.type) if each.type.is_scalar else number
            yield Apply((each if each.type.is_scalar else number,), "data_ptr", (), (("parameter", "x"),))
        else:
            yield Constant(each if each.type.is_scalar else number, 0)
        if not each.type.is_scalar:
            yield Apply((each,), "full", (number,))


def verified(function, operands, results, **attributes):
    verify(program(*tiles(*operands), Apply(tuple(results), function, tuple(operands), tuple(attributes.items()))))


X, Y, HALF, NUMBER = value(float32, 4, 8), value(float32, 4, 8), value(float16, 4, 8), value(float32)
ROW, MASK, POINTERS = value(float32, 8), value(int1, 4, 8), value(PointerType(float32, "x"), 4, 8)


def new(dtype=float32, *lanes):
    return value(dtype, *(lanes or (4, 8)))


SOUND = (
    ("add", (X, Y), (new(),), {}),
    ("exp", (X,), (new(),), {}),
    ("lt", (X, Y), (new(int1),), {}),
    ("where", (MASK, X, Y), (new(),), {}),
    ("cast", (X,), (new(float16),), {}),
    ("sum", (X,), (new(float32, 8),), {"axis": 0}),
    ("load_pointer", (POINTERS, MASK), (new(),), {}),
    ("atomic_add", (POINTERS, X), (new(),), {"sem": "relaxed"}),
    ("store_pointer", (POINTERS, X), (), {}),
    ("full", (NUMBER,), (new(),), {}),
)
BROKEN = (
    ("atan3", (X,), (new(),), {}, "no primitive"),
    ("add", (X,), (new(),), {}, "`add` takes x: number T"),
    ("add", (X, HALF), (new(),), {}, "is given float32, float16 -> float32"),
    ("add", (X, Y), (new(float16),), {}, "is given"),
    ("add", (X, Y), (), {}, "is given"),
    ("add", (X, ROW), (new(),), {}, "lanes that do not fit together"),
    ("add", (X, NUMBER), (new(),), {}, "lanes that do not fit together"),
    ("add", (X, Y), (new(float32, 8),), {}, "lanes that do not fit together"),
    ("add", (X, Y), (new(),), {"nonnegative": True}, "has the attributes ['nonnegative']"),
    ("exp", (HALF,), (new(float16),), {}, "`exp` takes x: float32|float64 T"),
    ("lt", (X, Y), (new(),), {}, "is given"),
    ("where", (X, X, Y), (new(),), {}, "`where` takes condition: int1"),
    ("bitcast", (X,), (new(float16),), {}, "`bitcast` takes"),
    ("sum", (X,), (new(float32, 4),), {"axis": 0}, "lanes that do not fit together"),
    ("sum", (X,), (new(float32, 8),), {"axis": 2}, "lanes that do not fit together"),
    ("cumsum", (X,), (new(),), {}, "needs ['axis']"),
    ("expand_dims", (X,), (new(float32, 1, 4, 8),), {}, "needs ['axis']"),
    ("permute", (X,), (new(float32, 8, 4),), {"dims": (0, 1)}, "lanes that do not fit together"),
    ("reshape", (X,), (new(float32, 64),), {}, "lanes that do not fit together"),
    ("full", (X,), (new(),), {}, "is given a tile for a scalar"),
    ("load_pointer", (X,), (new(),), {}, "`load_pointer` takes pointers: pointer P"),
    ("load_pointer", (POINTERS, X), (new(),), {}, "`load_pointer` takes"),
    ("load_pointer", (POINTERS,), (new(float16),), {}, "`load_pointer` takes"),
    ("store_pointer", (POINTERS, HALF), (), {}, "`store_pointer` takes"),
    ("atomic_add", (POINTERS, X), (), {}, "`atomic_add` takes"),
    ("device_assert", (X,), (), {}, "`device_assert` takes condition: int1"),
    ("dot", (X, Y), (new(float32, 4, 8),), {}, "lanes that do not fit together"),
    ("rand", (value(int32, 4, 8), value(int32, 4, 8)), (new(),), {}, "is given a tile for a scalar"),
)


@pytest.mark.parametrize("function, operands, results, attributes", SOUND)
def test_a_sound_application_passes(function, operands, results, attributes):
    verified(function, operands, results, **attributes)


@pytest.mark.parametrize("function, operands, results, attributes, message", BROKEN)
def test_an_application_that_its_row_does_not_allow_is_refused(function, operands, results, attributes, message):
    with pytest.raises(AssertionError) as error:
        verified(function, operands, results, **attributes)
    assert message in str(error.value)


def test_a_value_is_defined_before_it_is_used():
    with pytest.raises(AssertionError, match="not defined before it"):
        verify(program(Apply((new(),), "exp", (X,))))


def test_a_store_converts_nothing():
    access = ir.Access("x", X.type, SIZES)
    verify(program(*tiles(X), ir.Store(access, X)))
    with pytest.raises(AssertionError, match="a store converts nothing"):
        verify(program(*tiles(HALF), ir.Store(access, HALF)))


def test_lanes_are_powers_of_two():
    with pytest.raises(AssertionError, match="no powers of two"):
        verify(program(*tiles(value(float32, 3))))


def test_branches_yield_one_type_on_one_condition():
    def branch(condition, yielded, result):
        return program(*tiles(condition, X, yielded), If(condition, (), (), (ir.Outcome(X, yielded, result),)))

    verify(branch(value(int1), Y, new()))
    with pytest.raises(AssertionError, match="changes its type"):
        verify(branch(value(int1), HALF, new()))
    with pytest.raises(AssertionError, match="a branch's condition is one int1"):
        verify(branch(MASK, Y, new()))


def test_the_condition_of_a_loop_is_loop_carried():
    def loop(*initial):
        inside, after = (tuple(Value(each.type) for each in initial) for _ in range(2))
        return program(*tiles(*initial), While(ir.Carried.of(initial, inside, inside, after), ()))

    verify(loop(value(int1), X))
    with pytest.raises(AssertionError, match="a loop's condition is one int1"):
        verify(loop(X))


def test_a_combining_function_takes_what_is_combined():
    def reduced(dtype):
        a, b, both = value(dtype), value(dtype), value(dtype)
        combine = Lambda("both", (a, b), (Apply((both,), "add", (a, b)),), (both,))
        verified("reduce", (X,), (new(float32, 8),), axis=0, combine=combine)

    reduced(float32)
    with pytest.raises(AssertionError, match="a combining function of"):
        reduced(int64)
