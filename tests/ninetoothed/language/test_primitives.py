"""The rows of primitives: each is whole, has its lowerings, and a forgotten fact is an error when it is made."""

import dataclasses
import math

import numpy as np
import pytest

from ninetoothed import ir
from ninetoothed.backends.torch.functions import FUNCTIONS as TORCH
from ninetoothed.backends.triton.functions import FUNCTIONS as TRITON
from ninetoothed.dtypes import PointerType, float8e5, float16, float32, float64, int1, int8, int32, int64, uint32
from ninetoothed.expr import const
from ninetoothed.ir.lanes import backwards, forwards
from ninetoothed.language import axis_rules
from ninetoothed.language.primitive import Effect, Primitive
from ninetoothed.language.primitives import PRIMITIVES
from ninetoothed.language.signature import AttributeNames, Signature
from ninetoothed.passes.overhang.resolve import rule_of

POINTER = PointerType(float32, "x")


def test_each_backend_lowers_the_primitives_whose_rows_name_it_and_no_others():
    combining = {name for name, row in PRIMITIVES.items() if row.has_combine}  # printed by backends/triton/combine.py
    tables = {"torch": TORCH.keys(), "triton": TRITON.keys() | combining}
    for backend, table in tables.items():
        assert table == {name for name, row in PRIMITIVES.items() if backend in row.backends}
    assert [name for name, row in PRIMITIVES.items() if not row.backends] == ["assign", "passed", "count"]


def test_the_pass_overhang_has_a_rule_for_every_primitive():
    for name, row in PRIMITIVES.items():
        assert row.name == name and callable(rule_of(row))


def test_a_shuffle_without_a_rule_of_its_own_is_an_error():
    with pytest.raises(KeyError, match="no rule for 'weave'"):
        rule_of(dataclasses.replace(PRIMITIVES["join"], name="weave"))


@pytest.mark.parametrize("field", ("name", "signatures", "attributes", "doc"))
def test_a_fact_left_out_is_an_error(field):
    facts = {each.name: getattr(PRIMITIVES["sum"], each.name) for each in dataclasses.fields(Primitive)}
    Primitive(**facts)
    del facts[field]
    with pytest.raises(TypeError, match=field):
        Primitive(**facts)


@pytest.mark.parametrize(
    "name, change, message",
    (
        ("exp", {"doc": ""}, "needs a name, signatures and a docstring"),
        ("exp", {"signatures": ()}, "needs a name, signatures and a docstring"),
        ("exp", {"backends": frozenset({"tritn"})}, "backends that do not exist: ['tritn']"),
        ("exp", {"axes": axis_rules.reduction}, "folds lanes: it needs an identity"),
        ("sum", {"identity": None}, "folds lanes: it needs an identity"),
        ("reduce", {"identity": 0}, "folds lanes: it needs an identity, or a combining function of the user's"),
        ("sum", {"effect": Effect.READS}, "has an effect, but not lane by lane"),
        ("load_pointer", {"effect": Effect.NONE}, "reads or writes where pointers point, and has no effect"),
        ("atomic_add", {"effect": Effect.NONE}, "reads or writes where pointers point, and has no effect"),
        ("debug_barrier", {"effect": Effect.NONE}, "gives no results, and has no effect"),
        ("inline_asm_elementwise", {"effect": Effect.NONE}, "must have the attribute `is_pure` if its effect is"),
        ("exp", {"effect": Effect.DECLARED}, "must have the attribute `is_pure` if its effect is declared"),
        ("exp", {"is_commutative": True}, "is commutative, and has not two operands"),
    ),
)
def test_facts_that_contradict_each_other_are_an_error(name, change, message):
    with pytest.raises(ValueError) as error:
        dataclasses.replace(PRIMITIVES[name], **change)
    assert f"primitive {name!r}" in str(error.value) and message in str(error.value)


@pytest.mark.parametrize(
    "text", ("x: flot -> int1", "x: any T", "x: any T -> U", "-> *P", "x: any T U -> T", "T, any T -> T")
)
def test_a_signature_without_a_meaning_is_an_error(text):
    with pytest.raises(ValueError):
        Signature.parse(text)


TAKEN = (
    ("any T -> T", (float16,), (float16,), True),
    ("any T -> T", (float16,), (float32,), False),
    ("any T -> T", (float16, float16), (float16,), False),
    ("any T -> T", (float16,), (), False),
    ("float32|float64 T, T -> T", (float64, float64), (float64,), True),
    ("float32|float64 T, T -> T", (float16, float16), (float16,), False),
    ("integer T -> int1", (uint32,), (int1,), True),
    ("number T -> T", (float8e5,), (float8e5,), False),
    ("number|float8 T -> T", (float8e5,), (float8e5,), True),
    ("integer32 T -> T", (int8,), (int8,), False),
    ("pointer P, float32|int32 *P -> *P", (POINTER, float32), (float32,), True),
    ("pointer P, int32 *P -> *P", (POINTER, float32), (float32,), False),
    ("integer T -> int1", (int1,), (int1,), False),
    ("number -> any", (POINTER,), (float32,), False),
    ("pointer P, mask: int1? -> *P", (POINTER,), (float32,), True),
    ("pointer P, mask: int1? -> *P", (POINTER, int1), (float32,), True),
    ("pointer P, mask: int1? -> *P", (POINTER, int8), (float32,), False),
    ("pointer P, mask: int1? -> *P", (POINTER,), (float64,), False),
    ("pointer P, mask: int1? -> *P", (int64,), (float32,), False),
    ("any T -> ~T", (float32,), (int32,), True),
    ("any T -> ~T", (float32,), (int64,), False),
    ("number T, T... -> T", (int32,) * 3, (int32,), True),
    ("number T, T... -> T", (int32,), (int32,), True),
    ("number T, T... -> T", (), (int32,), False),
    ("number T, T... -> T", (int32, int8), (int32,), False),
    ("any... -> any...", (), (), True),
    ("scalar any T -> T", (int32,), (int32,), True),
    ("->", (), (), True),
)


@pytest.mark.parametrize("text, operands, results, is_taken", TAKEN)
def test_a_signature_takes_the_types_that_it_says(text, operands, results, is_taken):
    assert Signature.parse(text).takes(operands, results) == is_taken


@pytest.mark.parametrize(
    "name, operands, said",
    (
        (
            "histogram",
            (float32,),
            "`histogram` takes integers and bools, not float32; convert it with `.to(ntl.int32)`",
        ),
        ("umulhi", (int8, int8), "takes integers of 32 and 64 bits, not int8; convert it with `.to(ntl.int32)`"),
        ("fast_expf", (float64,), "`fast_expf` takes float32, not float64; convert it with `.to(ntl.float32)`"),
        (
            "atomic_add",
            (POINTER, int8),
            "integers of 32 and 64 bits and floats, not int8; give it a tensor of such a type",
        ),
        ("add", (float8e5, float8e5), "`add` takes integers, bools and floats, not float8e5; convert it with"),
        ("add", (int8, float32), None),
        ("where", (int1, float8e5, float8e5), None),
    ),
)
def test_a_type_that_a_row_does_not_take_is_said_with_what_to_convert_it_to(name, operands, said):
    unfit = PRIMITIVES[name].unfit(operands)
    assert unfit is None if said is None else said in unfit


def test_floats_that_a_row_does_not_take_are_computed_in_float32():
    computed = {
        name: [PRIMITIVES[name].computed_in(each) for each in (float8e5, float16, int8)] for name in ("add", "exp")
    }
    assert computed == {"add": [float32, float16, int8], "exp": [float32, float32, None]}
    assert PRIMITIVES["and"].computed_in(float16) is None and PRIMITIVES["fast_expf"].computed_in(float64) is None


def test_the_limits_of_a_row_name_its_types_and_what_gpus_lack():
    said = {name: PRIMITIVES[name].limits for name in ("exp", "add", "where", "atomic_or", "dot")}
    assert said == {
        "exp": "",
        "add": "",
        "where": "",
        "atomic_or": "Takes integers of 32 and 64 bits.",
        "dot": "Takes floats, float8 and int8. Not of float64 on GPUs of sm_100 to sm_109.",
    }


@pytest.mark.parametrize(
    "name, dtype, backend, architecture, said",
    (
        ("dot", float64, "triton", 100, "`dot` of float64 is not there on GPUs of sm_100; multiply in float32"),
        ("dot", float64, "triton", 90, None),
        ("dot", float64, "torch", 0, None),
        ("dot_scaled", float32, "torch", 0, "`dot_scaled` works on GPUs only"),
    ),
)
def test_what_a_backend_lacks(name, dtype, backend, architecture, said):
    lacking = PRIMITIVES[name].lacking((dtype,), backend, architecture)
    assert lacking is None if said is None else lacking.startswith(said)


def test_attributes_are_all_there_and_known():
    names = AttributeNames.parse("axis keep_dims?")
    assert names.take({"axis": 0}) and names.take({"axis": 0, "keep_dims": True})
    assert not names.take({"keep_dims": True}) and not names.take({"axis": 0, "dim": 0})


LANES = (
    ("broadcast", [(1, 8)], [(4, 8)], {}, [(4, 4)]),
    ("expand_dims", [(4, 8)], [(4, 1, 8)], {"axis": 1}, [(4, 8, 1)]),
    ("reshape", [(4, 8)], [(2, 16)], {}, [(2, 8)]),
    ("permute", [(4, 8)], [(8, 4)], {"dims": (1, 0)}, [(4, 8)]),
    ("flip", [(4, 8)], [(4, 8)], {"axis": -1}, [(8, 4)]),
    ("join", [(4, 8), (4, 8)], [(4, 8, 2)], {}, [(8, 8)]),
    ("split", [(4, 8, 2)], [(4, 8), (4, 8)], {}, [(4, 8), (8, 4)]),
    ("cat", [(8,), (8,)], [(16,)], {}, [(8,)]),
    ("gather", [(64, 8), (4, 8)], [(4, 8)], {"axis": 0}, [(64, 8)]),
    ("sum", [(4, 8)], [(4,)], {"axis": 1}, [(8,)]),
    ("sum", [(4, 8)], [(4, 1)], {"axis": -1, "keep_dims": True}, [(4,)]),
    ("sum", [(4, 8)], [()], {}, [(4,)]),
    ("sum", [(4, 8)], [(1, 1)], {"keep_dims": True}, [()]),
    ("cumsum", [(4, 8)], [(4, 8)], {"axis": 0}, [(4, 1)]),
    ("histogram", [(64,)], [(16,)], {"num_bins": 16}, [(64,)]),
    ("dot", [(4, 8), (8, 16)], [(4, 16)], {}, [(4, 8)]),
    ("dot", [(4, 8), (8, 16), (4, 16)], [(4, 16)], {}, [(16, 4)]),
    ("dot", [(1, 4, 8), (2, 8, 16)], [(2, 4, 16)], {}, [(1, 4, 16)]),
    ("add", [(4, 8), (4, 8)], [(4, 8)], {}, [(4, 1)]),
)


@pytest.mark.parametrize("name, operands, results, attributes, wrong", LANES)
def test_lanes_fit_together(name, operands, results, attributes, wrong):
    of = PRIMITIVES[name].axes_of
    assert of(operands, results, attributes) and not of(operands, wrong, attributes)


MOVED = (
    ("full", (), (4, 8), {}, np.broadcast_to),
    ("broadcast", (1, 8), (4, 8), {}, np.broadcast_to),
    ("expand_dims", (4, 8), (4, 1, 8), {"axis": 1}, np.reshape),
    ("permute", (2, 4, 8), (4, 8, 2), {"dims": (1, 2, 0)}, lambda x, lanes: x.transpose(1, 2, 0)),
    ("reshape", (4, 8), (2, 16), {}, np.reshape),
    ("reshape", (4, 1, 8), (1, 4, 8), {}, np.reshape),
    ("flip", (4, 8), (4, 8), {"axis": 1}, lambda x, lanes: x[:, ::-1]),
)


@pytest.mark.parametrize("name, source, target, attributes, moved", MOVED)
def test_axes_tell_where_lanes_move(name, source, target, attributes, moved):
    values = [ir.Value(ir.TileType(float32, tuple(map(const, lanes)), lanes)) for lanes in (source, target)]
    operation = ir.Apply((values[1],), name, (values[0],), tuple(attributes.items()))
    assert operation.primitive.moves_lanes
    found = moved(np.arange(math.prod(source)).reshape(source), target)
    for place in np.ndindex(*target):
        origin = np.unravel_index(found[place], source)
        _assert_told(forwards(operation), source, origin, target, place)
        _assert_told(backwards(operation), target, place, source, origin)


def _assert_told(axes, own, place, other, other_place):
    """Of each axis of so many lanes as there are of its numbers, a lane is told by those of the other tile."""
    numbers = {ir.Lane.of(a, count).name: const(int(n)) for (a, n), count in zip(enumerate(other_place), other)}
    told = {axis: int(e.subs(numbers).constant) for axis, e in axes.items()}
    assert told == {axis: place[axis] for axis in told}
    assert math.prod(own) > math.prod(other) or {axis for axis, count in enumerate(own) if count > 1} <= told.keys()


def test_every_primitive_that_moves_lanes_is_tested():
    assert {name for name, *_ in MOVED} == {name for name, row in PRIMITIVES.items() if row.moves_lanes}


def test_what_is_derived_of_rows():
    def names(of):
        return {name for name, row in PRIMITIVES.items() if of(row)}

    assert names(lambda row: row.is_comparison) == {"eq", "ne", "lt", "le", "gt", "ge"}
    assert names(lambda row: row.moves_lanes) == {"full", "broadcast", "expand_dims", "reshape", "permute", "flip"}
    assert names(lambda row: row.effect.writes) >= {"store_pointer", "atomic_cas", "atomic_add"}
    assert not names(lambda row: row.is_map) & {"load_pointer", "rand", "inline_asm_elementwise", "data_ptr"}
    assert names(lambda row: row.is_scan) == {"cumsum", "cumprod", "associative_scan"}
    assert not names(lambda row: row.computes_indices) & {"where", "exp", "eq", "load_pointer", "randint"}


@pytest.mark.parametrize(
    "name, operands, types",
    (
        ("mul", (float16, float16), [float16]),
        ("lt", (float16, float16), [int1]),
        ("add", (POINTER, int64), [POINTER]),
        ("load_pointer", (POINTER, int1), [float32]),
        ("argmax", (float64,), [int32]),
        ("split", (int8,), [int8, int8]),
        ("randint4x", (int32, int32), [uint32] * 4),
        ("dot", (int8, int8, int32), [int32]),
        ("store_pointer", (POINTER, float32), []),
    ),
)
def test_signatures_tell_the_types_of_results(name, operands, types):
    assert PRIMITIVES[name].gives(list(operands)) == types


@pytest.mark.parametrize(
    "name, operands, attributes, results",
    (
        ("join", ((4, 8), (4, 8)), {}, (("...0", "...1", "[2]"),)),
        ("split", ((4, 2),), {}, (("...0",), ("...0",))),
        ("sum", ((4, 8, 2),), {"axis": -2}, (("a0", "a2"),)),
        ("sum", ((4, 8),), {"axis": 0, "keep_dims": True}, (("1", "a1"),)),
        ("expand_dims", ((4, 8),), {"axis": 1}, (("a0", "1", "a2"),)),
        ("permute", ((4, 8),), {"dims": (1, 0)}, (("a1", "a0"),)),
        ("cat", ((8,), (8,)), {}, (("[16]",),)),
        ("randint", ((), (4, 8)), {}, (("...0", "...1"),)),
    ),
)
def test_signatures_tell_the_axes_of_results(name, operands, attributes, results):
    assert PRIMITIVES[name].axes_of(operands, [None] * len(results), attributes).results == results
