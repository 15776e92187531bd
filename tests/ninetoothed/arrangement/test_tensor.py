import copy
import doctest
import importlib
import pickle
import subprocess
import sys

import numpy
import pytest
import torch

import ninetoothed
from ninetoothed.arrangement.symbol import Symbol
from ninetoothed.arrangement.tensor import Tensor
from ninetoothed.errors import ArrangementError


def test_shapes_print_as_documented():
    code = """
from ninetoothed import Symbol, Tensor
Tensor(1, name="named")
x = Tensor(2)
print(x.shape, x.strides)
print(x.tile((Symbol("M"), Symbol("N"))).shape[1])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "(ninetoothed_tensor_0_size_0, ninetoothed_tensor_0_size_1) "
        "(ninetoothed_tensor_0_stride_0, ninetoothed_tensor_0_stride_1)",
        "(ninetoothed_tensor_0_size_1 - (N - 1) - 1 + N - 1) // N + 1",
    ]


def test_what_a_tensor_is_made_of():
    x = Tensor(shape=(3, None, Symbol("n")), name="x", dtype="anything", other=float("-inf"), jagged_dim=-2)
    assert x.shape == (3, Symbol("x_size_1"), Symbol("n")) and x.ndim == 3 and x.size(-1) == Symbol("n")
    assert x.dtype == "anything" and x.other == float("-inf") and x.jagged_dim == 1 and x.name == "x"
    assert x.stride(1) == Symbol("x_stride_1") and x.size() == x.shape
    assert Tensor(0).shape == () and Tensor(0, constexpr=True).constexpr


@pytest.mark.parametrize("other", ("0", 1j, (0,), 2**64, None.__class__))
def test_other_is_a_number(other):
    with pytest.raises(ArrangementError, match="give the number to read out of bounds"):
        Tensor(1, other=other)


@pytest.mark.parametrize(
    "options, message", (({"constant": True}, "option 'constant'; give constexpr"), (3, "is 3; give one dict"))
)
def test_what_is_no_shape_option(options, message):
    with pytest.raises(ArrangementError, match=message):
        Tensor(2, shape_options=options)


def test_other_may_be_a_number_of_numpy_or_pytorch():
    found = [Tensor(1, other=other).other for other in (numpy.float32(0.5), numpy.int8(-3), torch.tensor(2))]
    assert found == [0.5, -3, 2] and [type(other) for other in found] == [float, int, int]


def test_a_value_of_none_must_be_told():
    assert Tensor(0, constexpr=True, value=3).arrangement.source.value == 3
    assert Tensor(0, constexpr=True, value=False).arrangement.source.value is False
    assert Tensor(0, constexpr=True, value=None).arrangement.source.value is None
    assert Tensor(0, constexpr=True).arrangement.source.value is None


@pytest.mark.parametrize(
    "options", [{"constexpr": True, "upper_bound": 64}, iter([{"constexpr": True, "upper_bound": 64}, None])]
)
def test_options_of_sizes(options):
    first, second = Tensor(2, name="x", shape_options=options).shape
    assert first.constexpr and first.upper_bound == 64 and first.name == "x_size_0"
    assert second.constexpr is (True if isinstance(options, dict) else None)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"ndim": -1},
        {"ndim": 1.5},
        {"ndim": 2, "shape": (3,)},
        {"shape": (-1, 3)},
        {"shape": ("a b",)},
        {"shape": (1.5,)},
        {"ndim": 1, "name": "not a name"},
        {"ndim": 2, "shape_options": ({},)},
        {"ndim": 1, "constexpr": True},
        {"ndim": 1, "value": 3},
        {"ndim": 1, "jagged_dim": 1},
    ],
)
def test_what_is_no_tensor(options):
    with pytest.raises(ValueError):
        Tensor(**options)


def test_a_tensor_of_the_source_of_another():
    x = Tensor(shape=(3, None), name="x", other=1.0, dtype="anything")
    tiled = x.tile((2, 2))
    for same in (Tensor(source=tiled), Tensor(2, source=x), Tensor(shape=x.shape, other=1.0, name="x", source=tiled)):
        assert same.arrangement == x.arrangement and same.level == 0
    assert Tensor(source=tiled, target_dims=(0, 1)).arrangement == x.arrangement
    assert Tensor(2, target_dims=[0, 1]).ndim == 2


@pytest.mark.parametrize(
    "options, message",
    (
        ({"source": 3}, "the source of a tensor is 3; give a symbolic tensor"),
        ({"source": Tensor(2, name="x"), "ndim": 3}, "whose source is `x` has ndim=3; leave it out"),
        ({"source": Tensor(2, name="x"), "name": "y"}, "has name='y'; leave it out"),
        ({"source": Tensor(2, name="x"), "shape_options": {}}, "has shape_options={}; leave it out"),
        ({"ndim": 2, "name": "x", "target_dims": (1, 0)}, "has target_dims=.*; leave it out, and arrange the tensor"),
    ),
)
def test_what_is_no_tensor_of_a_source(options, message):
    with pytest.raises(ArrangementError, match=message):
        Tensor(**options)


def test_names():
    x = Tensor(2, name="x").tile((Symbol("B", meta=True), -1))
    names = {"x_pointer", "x_size_0", "x_size_1", "x_stride_0", "x_stride_1", "B"}
    assert {symbol.name for symbol in x.names()} == names == {symbol.name for symbol in x.dtype.names()}
    assert next(symbol for symbol in x.names() if symbol == Symbol("B")).meta
    assert Tensor(0, name="eps").names() == {Symbol("eps")}
    assert Tensor(shape=(4,), name="x").names() == {Symbol("x_pointer"), Symbol("x_stride_0")}


def test_the_innermost_level():
    x = Tensor(shape=(4, 8), name="x")
    assert x.innermost() is x
    tiled = x.tile((2, 4)).tile((1, -1))
    assert tiled.innermost().shape == (2, 4) and tiled.dtype.innermost().level == 2
    tiled.dtype.dtype = tiled.innermost().permute((1, 0))
    assert tiled.innermost().shape == (4, 2)


def test_offsets():
    x = Tensor(2, name="x").pad(((1, 0), (0, 0))).tile((4, -1)).permute((1, 0))
    assert x.offsets(0).expr == Symbol("4 * index_0_1 + index_1_0 - 1").expr
    assert x.offsets(-1) == x.offsets(1) == x.dtype.offsets(1) == Symbol("index_1_1")
    place = "(4 * index_0_1 + index_1_0 - 1) * x_stride_0 + index_1_1 * x_stride_1"
    assert x.offsets().expr == Symbol(place).expr
    assert Tensor(shape=(4,))[2].offsets(0) == 2 and Tensor(0).offsets() == 0
    with pytest.raises(ArrangementError, match="`x` of 2 dimensions has no dimension 2"):
        x.offsets(2)


def test_offsets_are_those_of_eval():
    x = Tensor(shape=(5, 6), name="x").tile((2, 4)).flatten()
    for place, flat in numpy.ndenumerate(x.eval()):
        values = dict(zip(("index_0_0", "index_1_0", "index_1_1"), place, strict=True))
        row, column = (x.offsets(dim).subs(values) for dim in range(2))
        assert (row * 6 + column if row < 5 and column < 6 else -1) == flat


def test_pad_and_subs_by_the_names_of_the_original():
    x = Tensor(1, name="x")
    assert x.pad(pad=((1, 2),)).subs({x: {"shape": (4,)}}).shape == (7,)
    for found in (ninetoothed.subs(x, subs={x: {"shape": (5,)}}), x.subs(subs={x: {"shape": (5,)}})):
        assert found.shape == (5,)


def test_meta_operations_leave_the_original():
    x = Tensor(2, name="x")
    before = x.arrangement
    y = x.tile((2, 2))
    y.dtype = y.dtype.squeeze(()).permute((1, 0))
    assert x.arrangement is before and x.shape == (Symbol("x_size_0"), Symbol("x_size_1"))
    z = y.permute((1, 0))
    z.dtype = z.dtype.flatten()
    assert y.dtype.shape == (2, 2) and z.dtype.shape == (4,)
    assert y.source.arrangement == before


def test_a_level_is_a_view_of_its_arrangement():
    x = Tensor(shape=(4, 6, 8), name="x").tile((1, 2, 4)).tile((4, 1, 1))
    assert [x.shape, x.dtype.shape, x.dtype.dtype.shape] == [(1, 3, 2), (4, 1, 1), (1, 2, 4)]
    x.dtype = x.dtype.squeeze((1, 2))
    x.dtype.dtype = x.dtype.dtype.squeeze(0)
    assert [x.shape, x.dtype.shape, x.dtype.dtype.shape] == [(1, 3, 2), (4,), (2, 4)]
    assert x.dtype.dtype.dtype is None


def test_outer_and_inner_rearrangements_commute():
    inner_first = Tensor(shape=(4, 6), name="x").tile((1, 3))
    level = inner_first.dtype.squeeze(0)
    outer_first = inner_first.permute((1, 0))
    inner_first.dtype = level
    inner_first = inner_first.permute((1, 0))
    outer_first.dtype = level
    assert (inner_first.eval() == outer_first.eval()).all() and outer_first.dtype.shape == (3,)


@pytest.mark.parametrize(
    "other",
    [
        lambda x: Tensor(shape=(4, 6), name="y").tile((2, 3)).dtype,
        lambda x: x.source.tile((2, 2)).dtype,
        lambda x: x,
        lambda x: x.source,
        lambda x: x.ravel(),
        lambda x: "float32",
        lambda x: None,
    ],
)
def test_only_a_level_of_its_own_may_be_assigned(other):
    x = Tensor(shape=(4, 6), name="x").tile((2, 3))
    with pytest.raises(ArrangementError, match="x"):
        x.dtype = other(x)
    assert x.dtype.shape == (2, 3)


def test_the_dtype_of_a_plain_tensor_is_what_is_given():
    x = Tensor(1)
    assert x.dtype is None
    x.dtype = ninetoothed.float16
    assert x.dtype is ninetoothed.float16 and x.tile((2,)).dtype.dtype is ninetoothed.float16


def test_the_shape_of_a_fresh_tensor_may_be_assigned():
    x = Tensor(2, name="x")
    x.shape = (3, None, 4)
    assert x.shape == (3, Symbol("x_size_1"), 4) and len(x.strides) == 3
    y = x.permute((1, 0, 2))
    with pytest.raises(ArrangementError, match="arranged"):
        y.shape = (1, 2, 3)


def test_strides_of_levels():
    x = Tensor(2, name="x")
    assert x.permute((1, 0)).strides == (Symbol("x_stride_1"), Symbol("x_stride_0"))
    tiled = x.tile((4, 2), strides=(3, -1), dilation=(1, 5))
    assert [str(s) for s in tiled.strides] == ["3 * x_stride_0", "2 * x_stride_1"]
    assert [str(s) for s in tiled.dtype.strides] == ["x_stride_0", "5 * x_stride_1"]
    assert [str(s) for s in x[::-1, None, 0].strides] == ["-x_stride_0", "0"]
    with pytest.raises(ArrangementError, match="strides"):
        x.flatten().tile((3,)).strides


def test_copies_share_the_frozen_arrangement():
    x = Tensor(2, other=float("nan")).tile((2, 2))
    tensors = copy.deepcopy((x, x))
    assert tensors[0] is tensors[1] and tensors[0] is not x and tensors[0].arrangement is x.arrangement
    twin = copy.copy(x)
    twin.dtype = twin.dtype.flatten()
    assert x.dtype.shape == (2, 2)
    assert pickle.loads(pickle.dumps(x)).shape == x.shape
    next_number = Tensor(1).name
    copy.deepcopy(x)
    assert int(Tensor(1).name.rsplit("_", 1)[1]) == int(next_number.rsplit("_", 1)[1]) + 1


def test_arrangements_are_values():
    def arranged(name):
        return Tensor(2, name=name).tile((Symbol("B"), -1)).arrangement

    assert arranged("x") == arranged("x") and hash(arranged("x")) == hash(arranged("x"))
    assert arranged("x") != arranged("y")
    assert arranged("x").symbols.keys() == {"x_size_0", "x_size_1", "B"}


def test_a_symbolic_tensor_has_no_elements():
    with pytest.raises(TypeError):
        list(Tensor(1))


@pytest.mark.parametrize("name", ("symbol", "condition", "handle", "tensor", "evaluate"))
def test_the_examples_of_docstrings_run(name):
    found = doctest.testmod(importlib.import_module(f"ninetoothed.arrangement.{name}"))
    assert found.attempted >= 2 and not found.failed
