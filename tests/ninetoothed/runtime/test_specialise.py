import pytest
import torch

from ninetoothed import dtypes
from ninetoothed.arrangement.symbol import Symbol
from ninetoothed.arrangement.tensor import Tensor
from ninetoothed.errors import ArgumentError
from ninetoothed.expr import const, var
from ninetoothed.runtime.arguments import BoundCall
from ninetoothed.runtime.selection.choices import grid_of, outermost_shapes
from ninetoothed.runtime.sizes import measure
from ninetoothed.runtime.specialise import specialise, with_schedule
from ninetoothed.runtime.specialise_plan import SpecialisationPlan
from ninetoothed.schedule import Schedule, in_parts
from ninetoothed.specialisation import Specialisation
from tests.ninetoothed.products import blocked
from tests.ninetoothed.runtime.definitions import BLOCK, define, elementwise


def classify(definition, *arguments, device="cuda:0", **constants):
    plan, call = SpecialisationPlan(definition), BoundCall(arguments, tuple(sorted(constants.items())))
    return specialise(plan, call, measure(plan, call), torch.device(device))


def aliases(spec):
    """Which symbols are known to be which others."""
    return {name: str(value) for name, value in spec.known if not isinstance(value, int) and value.sole_atom}


def products(spec):
    """Which symbols are known to be products of others."""
    return {name: value for name, value in spec.known if not isinstance(value, int) and not value.sole_atom}


def multiples(spec):
    """Which symbols are known to be multiples of 16."""
    return {name for name, divisor in spec.divisors if divisor == 16}


def rows(count=2, **options):
    """Tensors of two dimensions, cut into whole rows."""
    return define(*(Tensor(2, name=name, **options).tile((1, -1)) for name in "abcdef"[:count]))


def product():
    """A matrix product's arrangement."""
    arrangement = blocked(*(Symbol(name, meta=True) for name in "MNK"))
    return define(*arrangement(*(Tensor(2, name=name) for name in "abc")))


class TestMeasure:
    def test_every_size_and_stride_has_a_name(self):
        plan = SpecialisationPlan(elementwise(2, ndim=2))
        values = measure(plan, BoundCall((torch.zeros(3, 4), torch.zeros(4, 3).t()), (("BLOCK", 8),)))
        assert values == {
            "BLOCK": 8,
            **{"a_size_0": 3, "a_size_1": 4, "a_stride_0": 4, "a_stride_1": 1},
            **{"b_size_0": 3, "b_size_1": 4, "b_stride_0": 1, "b_stride_1": 3},
        }

    def test_a_size_used_twice_must_agree(self):
        n = Symbol("n")
        plan = SpecialisationPlan(
            define(Tensor(shape=(n,), name="a").tile((4,)), Tensor(shape=(n * 2,), name="b").tile((8,)))
        )
        assert measure(plan, BoundCall((torch.zeros(3), torch.zeros(6))))["n"] == 3
        with pytest.raises(ArgumentError, match=r"`y` has size 7 in dimension 0, and n \* 2 is 6"):
            measure(plan, BoundCall((torch.zeros(3), torch.zeros(7))))

    def test_a_tensor_used_for_two_parameters(self):
        a = Tensor(1, name="a")
        plan = SpecialisationPlan(define(a.tile((4,)), a.tile((4,))))
        measure(plan, BoundCall((torch.zeros(3), torch.zeros(3))))
        with pytest.raises(ArgumentError, match="`y` has size 4 in dimension 0 where `x` has 3, and one Tensor stands"):
            measure(plan, BoundCall((torch.zeros(3), torch.zeros(4))))
        with pytest.raises(ArgumentError, match="`y` has stride 2"):
            measure(plan, BoundCall((torch.zeros(3), torch.zeros(6)[::2])))

    def test_sizes_of_an_untouched_parameter_count_where_another_needs_them(self):
        a, b = Tensor(1, name="a"), Tensor(1, name="b")
        definition = define(a.tile((4,)), b.unsqueeze(0).expand((a.shape[0], -1)), touched="y")
        assert measure(SpecialisationPlan(definition), BoundCall((torch.zeros(3), torch.zeros(5))))["a_size_0"] == 3
        with pytest.raises(ArgumentError, match="uses a_size_0, which no argument gives"):
            measure(SpecialisationPlan(definition), BoundCall((None, torch.zeros(5))))
        call = BoundCall((torch.zeros(3), torch.zeros(5), torch.zeros(5)), (("BLOCK", 4),))
        assert "a_size_0" not in measure(SpecialisationPlan(elementwise(touched="yz")), call)


class TestClasses:
    def test_types_and_alignment(self):
        spec = classify(elementwise(2), torch.zeros(8, dtype=torch.bool), torch.zeros(9)[1:], BLOCK=64)
        assert [argument.dtype for argument in spec.arguments] == [dtypes.int1, dtypes.float32]
        assert [argument.aligned for argument in spec.arguments] == [True, False]
        spec = classify(elementwise(2), torch.zeros(8), torch.zeros(9)[1:], BLOCK=64, device="cpu")
        assert all(argument.aligned for argument in spec.arguments), "it matters on GPUs alone"
        assert spec.numbers == {"BLOCK": 64, "a_stride_0": 1, "b_stride_0": 1}

    def test_divisible_by_16(self):
        spec = classify(elementwise(2, ndim=2), torch.zeros(32, 48), torch.zeros(48, 32).t(), BLOCK=64)
        assert multiples(spec) == {"a_size_0", "a_size_1", "a_stride_0", "b_stride_1"}
        assert multiples(classify(rows(1), torch.zeros(5, 33))) == frozenset()
        assert multiples(classify(rows(1), torch.zeros(5, 0))) == {"a_size_1"}

    def test_one_is_exact_and_hides_the_stride(self):
        strange = torch.zeros(100).as_strided((1, 7), (13, 1))
        blocks = define(Tensor(2, name="a").tile((1, BLOCK)))
        for tensor in (torch.zeros(1, 7), strange, torch.zeros(1, 1).expand(1, 7)[:, :7]):
            constants = classify(blocks, tensor, BLOCK=4).numbers
            assert (constants["a_size_0"], constants["a_stride_0"]) == (1, 0)
        assert classify(blocks, torch.zeros(1, 7), BLOCK=4) == classify(blocks, strange, BLOCK=4)

    def test_one_row_is_as_several(self):
        """Each is then computed by the same code, and has the same bits."""
        assert classify(rows(1), torch.zeros(1, 7)) == classify(rows(1), torch.zeros(3, 7))
        assert classify(rows(1), torch.zeros(1, 48)) == classify(rows(1), torch.zeros(3, 48))

    def test_a_stride_of_0_is_exact(self):
        assert classify(rows(1), torch.zeros(1, 7).expand(5, 7)).numbers["a_stride_0"] == 0

    def test_buckets_are_for_sizes_loaded_at_once(self):
        assert classify(rows(1), torch.zeros(5, 781)).bounds == (("a_size_1", 1024),)
        assert classify(rows(1), torch.zeros(5, 1024)).bounds == (("a_size_1", 1024),)
        assert classify(rows(1), torch.zeros(5, 1025)).bounds == (("a_size_1", 2048),)
        assert classify(rows(1), torch.zeros(5, 0)).bounds == (("a_size_1", 0),)
        assert classify(rows(1), torch.zeros(5, 1)).bounds == ()
        assert classify(product(), *(torch.zeros(40, 40) for _ in range(3))).bounds == ()

    def test_constexpr_sizes_are_exact(self):
        definition = rows(1, shape_options={"constexpr": True})
        spec = classify(definition, torch.zeros(6, 800)[:, :781])
        assert spec.numbers == {"a_size_0": 6, "a_size_1": 781, "a_stride_1": 1} and not spec.bounds

    def test_sizes_that_agree_share_a_name(self):
        tensors = [torch.zeros(5, 30) for _ in range(3)]
        spec = classify(rows(3), *tensors)
        assert aliases(spec) == {"b_size_0": "a_size_0", "c_size_0": "a_size_0"} | {
            "b_size_1": "a_size_1",
            "c_size_1": "a_size_1",
        }
        assert spec.bounds == (("a_size_1", 32),)
        spec = classify(rows(3), torch.zeros(5, 30), torch.zeros(5, 31), torch.zeros(5, 30))
        assert aliases(spec) == {"b_size_0": "a_size_0", "c_size_0": "a_size_0", "c_size_1": "a_size_1"}

    def test_sizes_that_agree_by_accident_do_not(self):
        spec = classify(product(), *(torch.zeros(40, 40) for _ in range(3)))
        assert aliases(spec) == {"c_size_0": "a_size_0", "c_size_1": "b_size_1", "b_size_0": "a_size_1"}

    def test_flattened_sizes_share_names_too(self):
        definition = define(*(Tensor(2, name=name).flatten().tile((BLOCK,)) for name in "ab"))
        spec = classify(definition, torch.zeros(5, 60)[:, ::2], torch.zeros(5, 60)[:, ::2], BLOCK=64)
        assert aliases(spec) == {"b_size_0": "a_size_0", "b_size_1": "a_size_1"}

    def test_strides_without_gaps_follow_from_sizes(self):
        definition = define(*(Tensor(2, name=name).flatten().tile((BLOCK,)) for name in "ab"))
        spec = classify(definition, torch.zeros(5, 30), torch.zeros(5, 60)[:, ::2], BLOCK=64)
        assert aliases(spec)["a_stride_0"] == "a_size_1" and "b_stride_0" not in aliases(spec)
        spec = classify(definition, torch.zeros(5, 30), torch.zeros(5, 30), BLOCK=64)
        assert aliases(spec)["b_stride_0"] == "a_size_1"
        assert "a_stride_0" not in aliases(classify(rows(1), torch.zeros(5, 30))), "no use without flattening"

    def test_strides_without_gaps_are_products_of_sizes(self):
        definition = define(*(Tensor(4, name=name).flatten().tile((BLOCK,)) for name in "ab"))
        spec = classify(definition, torch.zeros(2, 3, 4, 5), torch.zeros(2, 3, 8, 5)[:, :, :4], BLOCK=64)
        first, second, third = (var(f"a_size_{dim}") for dim in (1, 2, 3))
        assert products(spec) == {"a_stride_0": first * second * third, "a_stride_1": second * third}
        assert aliases(spec)["a_stride_2"] == aliases(spec)["b_stride_2"] == "a_size_3"
        whole = classify(definition, torch.zeros(48, 3, 1, 16), torch.zeros(48, 3, 1, 16), BLOCK=64)
        assert whole.multiple_of("a_stride_0") == whole.multiple_of("b_stride_1") == 16
        ones = classify(define(Tensor(3, name="a").flatten()), torch.zeros(3, 1, 4))
        assert not products(ones) and aliases(ones)["a_stride_0"] == "a_size_2"
        rows = define(Tensor(3, name="a").tile((1, 1, -1)))
        assert not products(classify(rows, torch.zeros(2, 3, 4))), "no use without flattening"

    def test_strides_follow_from_exact_sizes(self):
        definition = define(Tensor(shape=(None, 4, None), shape_options=({}, {}, {"constexpr": True}), name="a"))
        assert classify(definition, torch.zeros(3, 4, 5)).numbers == {
            "a_size_2": 5,
            **{"a_stride_0": 20, "a_stride_1": 5, "a_stride_2": 1},
        }
        gaps = classify(definition, torch.zeros(3, 6, 5)[:, :4]).numbers
        assert "a_stride_0" not in gaps and gaps["a_stride_1"] == 5
        whole = classify(define(Tensor(2, name="a").flatten()), torch.zeros(3, 1))
        assert whole.numbers == {"a_size_1": 1, "a_stride_0": 1, "a_stride_1": 0}

    def test_wide(self):
        def is_wide(tensor):
            return classify(rows(1), tensor).arguments[0].wide

        def strided(shape, stride):
            return torch.empty_strided(shape, stride, dtype=torch.int8, device="meta")

        assert not is_wide(strided((2, 2**20), (0, 1)))
        assert is_wide(strided((2, 1), (2**31, 1)))
        assert not is_wide(strided((1, 2), (2**31, 1)))
        assert is_wide(strided((2**16, 2**16), (0, 0))), "indices count too"
        assert is_wide(strided((0, 2**31), (1, 1))), "sizes too"

    def test_untouched_parameters_leave_no_trace(self):
        definition = elementwise(touched="xz")
        a, c = torch.zeros(5), torch.zeros(5)
        specs = {classify(definition, a, other, c, BLOCK=4) for other in (None, torch.zeros(7), torch.zeros(3, 16))}
        assert len(specs) == 1 and next(iter(specs)).arguments[1].role == "absent"


class TestScalars:
    definition = define(Tensor(1, name="a").tile((4,)), Tensor(0, name="s"))

    @pytest.mark.parametrize(
        "value, dtype",
        (
            (True, dtypes.int1),
            (0.5, dtypes.float32),
            (2**31 - 1, dtypes.int32),
            (-(2**31), dtypes.int32),
            (2**31, dtypes.int64),
            (2**63, dtypes.uint64),
        ),
    )
    def test_numbers(self, value, dtype):
        argument = classify(self.definition, torch.zeros(5), value).arguments[1]
        assert (argument.role, argument.dtype, argument.value) == ("scalar", dtype, None)

    def test_floats_are_doubles_beside_doubles(self):
        assert classify(self.definition, torch.zeros(5).double(), 0.5).arguments[1].dtype == dtypes.float64

    def test_tensors_are_read_in_the_kernel(self):
        half = torch.tensor(0.5, dtype=torch.float16)
        argument = classify(self.definition, torch.zeros(5), half, device="cpu").arguments[1]
        assert (argument.role, argument.dtype) == ("tensor", dtypes.float16)

    def test_a_tensor_on_the_cpu_is_read_by_the_host(self):
        argument = classify(self.definition, torch.zeros(5), torch.tensor(0.5, dtype=torch.float16)).arguments[1]
        assert (argument.role, argument.dtype) == ("scalar", dtypes.float16)

    def test_compile_time_values_of_different_types_differ(self):
        definition = define(Tensor(1, name="a").tile((4,)), Tensor(0, name="s", constexpr=True))
        specs = {classify(definition, torch.zeros(5), value) for value in (1, 1.0, True, "1")}
        assert len(specs) == 4


class TestGrid:
    def shapes(self, definition, *arguments, **values):
        plan = SpecialisationPlan(definition)
        return outermost_shapes(plan, measure(plan, BoundCall(arguments)) | values)

    def test_tiles_are_counted(self):
        shapes = self.shapes(product(), torch.zeros(70, 40), torch.zeros(40, 90), torch.zeros(70, 90), M=32, N=64, K=16)
        assert shapes == dict.fromkeys("xyz", (3, 2))

    def test_scalars_and_untouched_parameters_do_not_count(self):
        definition = define(Tensor(1).tile((4,)), Tensor(0), Tensor(1).tile((2,)), touched="xy")
        assert self.shapes(definition, torch.zeros(5), 1.0, None) == {"x": (2,)}

    def test_no_element_no_tile(self):
        definition = define(Tensor(2).tile((1, -1), strides=(1, -1)))
        assert self.shapes(definition, torch.zeros(0, 5)) == {"x": (0, 1)}
        assert self.shapes(definition, torch.zeros(5, 0)) == {"x": (5, 1)}

    def test_sizes_of_1_are_dropped(self):
        plan = SpecialisationPlan(elementwise(2))
        assert grid_of(plan, {"x": (1, 4, 2), "y": (4, 1, 2)}) == (1, 4, 2)
        with pytest.raises(ArgumentError, match=r"outermost shapes of parameters `x` \(2, 4\) and `y` \(4, 2\) differ"):
            grid_of(plan, {"x": (2, 4), "y": (4, 2)})
        with pytest.raises(ArgumentError, match=r"`x` \(1,\) and `y` \(2,\)"):
            grid_of(plan, {"x": (1,), "y": (2,)})

    def test_too_many_programs(self):
        plan = SpecialisationPlan(elementwise(1))
        assert grid_of(plan, {"x": (2**31 - 1,)}) == (2**31 - 1,)
        with pytest.raises(ArgumentError, match="`x` makes 2147483648 programs, more than"):
            grid_of(plan, {"x": (2**16, 2**15)})

    def test_blocks_and_shared_grids(self):
        spec = classify(elementwise(2), torch.zeros(5), torch.zeros(5), BLOCK=4)
        shared = with_schedule(spec, Schedule((("M", 32),)), {"x": (2,), "y": (2,)}, (2,))
        assert shared.shared_grid and shared.numbers["M"] == 32 and shared.numbers["BLOCK"] == 4
        assert not with_schedule(spec, Schedule(), {"x": (2,), "y": (1, 2)}, (1, 2)).shared_grid


@pytest.mark.parametrize(("parts", "fits"), [(1, True), (2, True), (3, False)])
def test_parts_of_sums_are_counted_along_the_outer_axes(parts, fits):
    schedule = Schedule(sharing=in_parts(parts))
    shape = (2**15 - 1, 10**6)
    assert with_schedule(Specialisation(()), schedule, {"x": shape}, shape).spread == fits


def test_what_is_known_is_put_into_what_was_known_of_other_symbols():
    spec = Specialisation(
        (),
        known=(("a", var("b")), ("s", 2 * var("b") * var("c"))),
        divisors=(("b", 8), ("c", 16)),
        bounds=(("b", 64), ("c", 32)),
    )
    number = spec.unified("b", const(3))
    assert number.bindings() == {"a": const(3), "b": const(3), "s": 6 * var("c")} and number.numbers == {"a": 3, "b": 3}
    renamed = spec.unified("b", var("c"))
    assert renamed.bindings() == {"a": var("c"), "b": var("c"), "s": 2 * var("c") * var("c")}
    assert dict(renamed.divisors)["c"] == 16 and dict(renamed.bounds)["c"] == 32
    other = spec.unified("b", var("d"))
    assert dict(other.divisors)["d"] == 8 and dict(other.bounds)["d"] == 64
    assert spec.with_numbers({"B": 4}).numbers == {"B": 4}
