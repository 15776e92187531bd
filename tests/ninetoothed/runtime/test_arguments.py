import enum
import itertools
from contextlib import nullcontext

import numpy
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from ninetoothed.arrangement.symbol import Symbol
from ninetoothed.arrangement.tensor import Tensor
from ninetoothed.errors import ArgumentError, ArgumentTypeError
from ninetoothed.runtime.arguments import BoundCall, bind, check, check_stored
from tests.ninetoothed.runtime.definitions import define, elementwise

X, Y, Z = (torch.zeros(5) for _ in range(3))


def scalar_kernel(**options):
    return define(Tensor(1, name="a").tile((4,)), Tensor(0, **options))


class Mode(enum.Enum):
    UP = 1


class Level(enum.IntEnum):
    LOW = 3


class Marked(torch.Tensor):
    pass


class TestBind:
    def test_positional_parameters_and_constexpr_keywords(self):
        call = bind(elementwise(), (X, Y, Z), {"BLOCK": numpy.int64(64)})
        assert call.arguments[2] is Z and call.constants == (("BLOCK", 64),)
        assert type(call.constants[0][1]) is int

    def test_last_parameters_by_keyword(self):
        call = bind(elementwise(), (X,), {"z": Z, "y": Y, "BLOCK": 64})
        assert call.arguments[1] is Y and call.arguments[2] is Z

    @pytest.mark.parametrize("args, kwargs", (((X, Y), {}), ((X, Y, Z, X), {}), ((X, Y, Z), {"x": X}), ((), {"x": X})))
    def test_wrong_counts_name_the_parameters(self, args, kwargs):
        with pytest.raises(ArgumentError, match=r"`kernel` takes 3 arguments \(x, y, z\); got .*BLOCK="):
            bind(elementwise(), args, kwargs | {"BLOCK": 64})

    def test_unknown_and_missing_keywords(self):
        with pytest.raises(ArgumentError, match="no keyword `BLOK`; did you mean 'BLOCK'"):
            bind(elementwise(), (X, Y, Z), {"BLOK": 64})
        with pytest.raises(ArgumentError, match="lacks the value of constexpr symbol BLOCK; call it with BLOCK="):
            bind(elementwise(), (X, Y, Z), {})

    def test_a_meta_symbol_cannot_be_given(self):
        definition = define(Tensor(1).tile((Symbol("SIZE", meta=True),)))
        with pytest.raises(ArgumentError, match="`SIZE` is chosen by the compiler.*constexpr=True"):
            bind(definition, (X,), {"SIZE": 64})

    @pytest.mark.parametrize("value", (64.0, True, "64", torch.tensor(64), None))
    def test_constexpr_symbols_are_integers(self, value):
        with pytest.raises(ArgumentTypeError, match="`BLOCK` must be an integer"):
            bind(elementwise(), (X, Y, Z), {"BLOCK": value})

    def test_a_parameter_with_a_value_may_be_left_out(self):
        definition = define(Tensor(0, constexpr=True, value=2), Tensor(1, name="a").tile((4,)))
        for args, kwargs in (((X,), {}), ((2, X), {}), ((X,), {"x": 2}), ((), {"y": X})):
            assert bind(definition, args, kwargs).arguments == (2, X)
        with pytest.raises(ArgumentError, match="`x` was made with value=2, and is called with 3"):
            check(definition, bind(definition, (3, X), {}))
        with pytest.raises(ArgumentError, match=r"takes 2 arguments \(x, y\), or 1 without"):
            bind(definition, (), {})

    def test_a_value_of_none_must_be_told(self):
        definition = define(Tensor(1, name="a").tile((4,)), Tensor(0, constexpr=True, value=None))
        with pytest.raises(ArgumentError, match="takes 2 arguments"):
            bind(definition, (X,), {})
        assert bind(definition, (X, 7), {}).arguments == (X, 7)


class TestCheck:
    def test_ranks(self):
        with pytest.raises(ArgumentError, match=r"`y` has 1 dimension, and the call gives one of shape \(2, 3\)"):
            check(elementwise(), BoundCall((X, torch.zeros(2, 3), Z)))

    def test_numeric_sizes(self):
        definition = define(Tensor(shape=(4, None)).tile((1, 4)))
        check(definition, BoundCall((torch.zeros(4, 9),)))
        with pytest.raises(ArgumentError, match=r"`x` has size 4 in dimension 0, and the call gives shape \(5, 9\)"):
            check(definition, BoundCall((torch.zeros(5, 9),)))

    @pytest.mark.parametrize("value", (1.0, [1, 2], numpy.zeros(5), None))
    def test_a_tensor_is_a_tensor(self, value):
        with pytest.raises(ArgumentTypeError, match="`x` is a tensor, and the call gives .*; pass a tensor with 1"):
            check(elementwise(), BoundCall((value, Y, Z)))

    def test_types_without_an_equivalent(self):
        with pytest.raises(ArgumentTypeError, match="`y` has elements of torch.complex64.*view_as_real"):
            check(elementwise(), BoundCall((X, Y.to(torch.complex64), Z)))

    @pytest.mark.gpu
    @pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
    def test_one_device(self):
        with pytest.raises(ArgumentError, match="`y` is on cuda:0, and `x` is on cpu; move them to one device"):
            check(elementwise(), BoundCall((X, Y.cuda(), Z)))
        call, device = check(scalar_kernel(), BoundCall((X.cuda(), torch.tensor(2))))
        assert device.type == "cuda" and call.arguments[1].device.type == "cpu"

    def test_meta_tensors_are_never_launched(self):
        meta = torch.zeros(5, device="meta")
        with pytest.raises(
            ArgumentTypeError, match="`z` is given a tensor on the meta device.*ninetoothed_ops.register"
        ):
            check(elementwise(), BoundCall((X, Y, meta)))

    def test_fake_tensors_are_never_launched(self):
        with FakeTensorMode():
            fake = torch.zeros(5)
        with pytest.raises(ArgumentTypeError, match="`x` is given a `FakeTensor`.*ninetoothed_ops.register"):
            check(elementwise(), BoundCall((fake, Y, Z)))

    def test_transformed_tensors_are_never_launched(self):
        with pytest.raises(ArgumentTypeError, match="vmap"):
            torch.vmap(lambda row: check(elementwise(), BoundCall((row, Y, Z))))(torch.zeros(2, 5))
        with pytest.raises(ArgumentTypeError, match="functionalize"):
            torch.func.functionalize(lambda row: check(elementwise(), BoundCall((row, Y, Z))))(X)

    def test_layouts(self):
        with pytest.raises(ArgumentTypeError, match="layout torch.sparse_coo"):
            check(elementwise(), BoundCall((X.to_sparse(), Y, Z)))
        negated = torch.zeros(5, dtype=torch.complex64).conj().imag
        assert negated.is_neg()
        with pytest.raises(ArgumentTypeError, match="resolve_neg"):
            check(elementwise(), BoundCall((X, Y, negated)))

    def test_subclasses_and_parameters_become_plain_tensors(self):
        parameter, marked = torch.nn.Parameter(torch.ones(5)), torch.ones(5).as_subclass(Marked)
        call, _ = check(elementwise(), BoundCall((parameter, marked, Z)))
        assert [type(value) for value in call.arguments] == [torch.Tensor] * 3
        assert [value.data_ptr() for value in call.arguments] == [parameter.data_ptr(), marked.data_ptr(), Z.data_ptr()]

    @pytest.mark.parametrize(
        "value, expected",
        (
            (2, 2),
            (True, True),
            (0.5, 0.5),
            (2**64 - 1, 2**64 - 1),
            (numpy.float64(0.25), 0.25),
            (numpy.float16(0.25), 0.25),
            (numpy.int32(-7), -7),
            (numpy.bool_(True), True),
            (numpy.array(3), 3),
            (Level.LOW, 3),
        ),
    )
    def test_scalars(self, value, expected):
        call, _ = check(scalar_kernel(), BoundCall((X, value)))
        assert call.arguments[1] == expected and type(call.arguments[1]) is type(expected)

    @pytest.mark.parametrize("value", (1j, "1", None, Mode.UP, [1], numpy.zeros(2)))
    def test_what_is_no_scalar(self, value):
        with pytest.raises(ArgumentTypeError, match="`y` is a scalar, and the call gives"):
            check(scalar_kernel(), BoundCall((X, value)))

    def test_scalars_that_no_type_holds(self):
        for value in (2**64, -(2**63) - 1):
            with pytest.raises(ArgumentError, match="no 64-bit type"):
                check(scalar_kernel(), BoundCall((X, value)))

    def test_tensors_as_scalars(self):
        half = torch.tensor(0.5, dtype=torch.float16)
        assert check(scalar_kernel(), BoundCall((X, half)))[0].arguments[1] is half
        with pytest.raises(ArgumentError, match=r"`y` is a scalar, and the call gives a tensor of shape \(1,\)"):
            check(scalar_kernel(), BoundCall((X, torch.zeros(1))))

    @pytest.mark.parametrize("value", (2, 0.5, True, None, "ieee", Mode.UP, Level.LOW, torch.float16))
    def test_compile_time_values(self, value):
        assert check(scalar_kernel(constexpr=True), BoundCall((X, value)))[0].arguments[1] is value

    def test_numpy_scalars_as_compile_time_values(self):
        (_, value) = check(scalar_kernel(constexpr=True), BoundCall((X, numpy.float32(0.5))))[0].arguments
        assert type(value) is float

    @pytest.mark.parametrize("value", (torch.tensor(1), [1], {}))
    def test_what_is_no_compile_time_value(self, value):
        with pytest.raises(ArgumentTypeError, match="`y` is known when compiling"):
            check(scalar_kernel(constexpr=True), BoundCall((X, value)))

    def test_nan_equals_nan(self):
        for args in ((X,), (X, float("nan"))):
            bind(scalar_kernel(value=float("nan")), args, {})
        found = [check(scalar_kernel(constexpr=True), BoundCall((X, float("nan"))))[0].arguments[1] for _ in range(2)]
        assert found[0] is found[1]

    def test_what_is_never_touched_is_not_looked_at(self):
        definition = elementwise(touched="xz")
        for value in (None, torch.zeros(2, 3), X.to_sparse(), torch.zeros(5, device="meta"), 1j, object()):
            check(definition, BoundCall((X, value, Z)))


def test_outputs_must_not_overlap():
    definition = elementwise(ndim=2)
    fine, overlapping = torch.zeros(3, 4), torch.zeros(3, 1).expand(3, 4)
    check_stored(definition, BoundCall((overlapping, fine, fine)), frozenset("z"))
    check_stored(definition, BoundCall((fine, fine, torch.zeros(1, 4).expand(1, 4))), frozenset("z"))
    check_stored(definition, BoundCall((fine, fine, torch.zeros(0, 1).expand(0, 4))), frozenset("z"))
    with pytest.raises(ArgumentError, match=r"`z` is written to.*overlap \(shape \(3, 4\), strides \(1, 0\)\)"):
        check_stored(definition, BoundCall((fine, fine, overlapping)), frozenset("yz"))


@pytest.mark.parametrize(
    "shape, strides, overlaps",
    (
        ((3, 4), (4, 1), False),
        ((3, 4), (1, 3), False),
        ((3, 4), (5, 1), False),
        ((3, 4), (1, 1), True),
        ((3, 4), (3, 1), True),
        ((2, 3), (3, 2), False),
        ((3, 4), (3, 2), True),
        ((5, 1, 3), (2, 0, 1), True),
    ),
)
def test_elements_that_share_a_place(shape, strides, overlaps):
    z = torch.zeros(64).as_strided(shape, strides)
    places = {sum(i * s for i, s in zip(index, strides)) for index in itertools.product(*map(range, shape))}
    assert overlaps == (len(places) < z.numel())
    definition = define(Tensor(len(shape)).tile((1,) * len(shape)), names="z")
    with pytest.raises(ArgumentError, match="elements of the argument overlap") if overlaps else nullcontext():
        check_stored(definition, BoundCall((z,)), frozenset("z"))
