import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import re
import threading
import types
import warnings

import numpy
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import ninetoothed
from ninetoothed import Symbol, Tensor, block_size, explain, frontend
from ninetoothed.errors import ArgumentError, ArgumentTypeError, LostGradientWarning
from ninetoothed.runtime import arguments, call_cache, dispatch, executable, fast_path, private, variants
from ninetoothed.runtime.launch_steps import LaunchPlan
from ninetoothed.runtime.selection.machine import A100, B200, H100, H200
from tests.ninetoothed.runtime.launched import loaded_for

BLOCK = Symbol("BLOCK", constexpr=True)


def tiles(*tensors):
    return tuple(tensor.tile((BLOCK,)) for tensor in tensors)


def add_application(x, y, z):
    z = x + y


def scale_application(x, factor, z):
    z = x * factor


def make_add():
    return ninetoothed.make(tiles, add_application, tuple(Tensor(1) for _ in range(3)))


def scaled(tensor):
    """A kernel that multiplies by a scalar, arranged as `Tensor(0)` and its options say."""

    def arrangement(x, factor, z):
        return *tiles(x), factor, *tiles(z)

    return ninetoothed.make(arrangement, scale_application, (Tensor(1), tensor, Tensor(1)))


def nans(*shape, **options):
    return torch.full(shape, float("nan"), **options)


@pytest.fixture
def traces(monkeypatch):
    """A list that grows by one for each trace."""
    seen = []
    trace = frontend.trace
    monkeypatch.setattr(frontend, "trace", lambda *args: seen.append(args) or trace(*args))
    return seen


class TestCalls:
    def test_the_result(self):
        add = make_add()
        for size in (1, 63, 64, 65, 1000):
            x, y, z = torch.randn(size), torch.randn(2 * size)[::2], nans(size)
            assert add(x, y, z, BLOCK=64) is None
            assert torch.equal(z, x + y)

    def test_by_keyword_and_with_numpy(self):
        x, y, z = torch.randn(9), torch.randn(9), nans(9)
        make_add()(x, z=z, y=y, BLOCK=numpy.int64(4))
        assert torch.equal(z, x + y)
        scaled(Tensor(0))(x, numpy.float64(0.5), z, BLOCK=4)
        assert torch.equal(z, x * 0.5)

    def test_constexpr_symbols_that_are_sizes_may_be_given(self):
        size = Symbol("N", constexpr=True)
        add = ninetoothed.make(tiles, add_application, tuple(Tensor(shape=(size,)) for _ in range(3)))
        for count in (5, 8):
            x, y, z = torch.randn(count), torch.randn(count), nans(count)
            for given in ({}, {"N": count}):
                add(x, y, z.fill_(0), BLOCK=4, **given)
                assert torch.equal(z, x + y)
            with pytest.raises(ArgumentError, match=f"`x` has size {count} in dimension 0, and N is 6"):
                add(x, y, z, BLOCK=4, N=6)
        assert str(add.source(x, y, z, BLOCK=4, N=8)) == str(add.source(x, y, z, BLOCK=4))

    def test_nothing_is_traced_or_run_for_no_element(self, traces):
        make_add()(*(torch.empty(0) for _ in range(3)), BLOCK=64)
        assert not traces

    def test_no_element_is_checked_all_the_same(self):
        with pytest.raises(ArgumentError, match="sizes agree"):
            make_add()(torch.empty(0), torch.empty(0), torch.empty(1), BLOCK=64)

    def test_outermost_shapes_must_agree(self):
        with pytest.raises(ArgumentError, match=r"parameters `x` and `y` .* 12 \(x_size_0\) and 13 \(y_size_0\)"):
            make_add()(torch.zeros(12), torch.zeros(13), torch.zeros(12), BLOCK=4)

    def test_an_output_must_not_overlap(self):
        add = make_add()
        z = nans(1).expand(9)
        for _ in range(2):
            with pytest.raises(ArgumentError, match="`z` is written to"):
                add(torch.zeros(9), torch.zeros(9), z, BLOCK=4)
        assert torch.isnan(z).all()
        add(z, z, result := torch.zeros(9), BLOCK=4)
        assert torch.isnan(result).all()

    def test_tensors_that_require_grad(self):
        x, y = torch.randn(9, requires_grad=True), torch.nn.Parameter(torch.randn(9))
        z = nans(9, requires_grad=True)
        with pytest.warns(LostGradientWarning, match="`x`, `y` and `z` require gradients"):
            make_add()(x, y, z, BLOCK=4)
        assert torch.equal(z, x + y) and z.requires_grad and z.is_leaf

    def test_inference_tensors(self):
        with torch.inference_mode():
            z = nans(9)
        x = torch.randn(9)
        make_add()(x, x, z, BLOCK=4)
        assert torch.equal(z, x + x)

    @pytest.mark.parametrize("factor", (3, 0.5, True, -(2**40)))
    def test_run_time_scalars(self, factor, traces):
        kernel, x = scaled(Tensor(0)), torch.randn(9)
        for value in (factor, type(factor)(factor / 2)):
            z = nans(9)
            kernel(x, value, z, BLOCK=4)
            assert torch.allclose(z, x * value)
        assert len(traces) == 1

    def test_tensors_as_scalars(self):
        kernel, x = scaled(Tensor(0)), torch.randn(9)
        for factor in (torch.tensor(0.5), torch.tensor(3), torch.tensor(2.0).double()):
            z = nans(9)
            kernel(x, factor, z, BLOCK=4)
            assert torch.allclose(z, (x * factor).float())

    def test_scalars_before_and_after_everything_else(self):
        def arrangement(first, x, last):
            return first, *tiles(x), last

        def application(first, x, last):
            last = first * ninetoothed.language.sum(x)

        kernel = ninetoothed.make(arrangement, application, (Tensor(0), Tensor(1), Tensor(0)))
        x = torch.randn(9)
        for first in (2.0, torch.tensor(2.0)):
            last = torch.tensor(float("nan"))
            kernel(first, x, last, BLOCK=16)
            assert torch.allclose(last, 2 * x.sum())

    def test_compile_time_scalars(self, traces):
        kernel, x, z = scaled(Tensor(0, constexpr=True)), torch.randn(9), nans(9)
        for factor in (2, 2.0, 1, True, 2, 2.0, 1, True):
            kernel(x, factor, z, BLOCK=4)
            assert torch.equal(z, x * factor)
        assert len(traces) == 4
        with pytest.raises(ArgumentTypeError, match="`factor` is known when compiling"):
            kernel(x, [1], z, BLOCK=4)

    def test_values_that_are_given_when_making(self):
        kernel, x, z = scaled(Tensor(0, constexpr=True, value=3)), torch.randn(9), nans(9)
        kernel(x, z, BLOCK=4)
        assert torch.equal(z, x * 3)
        for _ in range(2):
            with pytest.raises(ArgumentError, match="value=3"):
                kernel(x, 4, z, BLOCK=4)
        kernel(x, 3, z, BLOCK=8)

    def test_last_values_that_are_left_out_are_not_bound_anew(self, monkeypatch):
        def application(x, z, factor, term):
            z = x * factor + term

        numbers = (Tensor(0, constexpr=True, value=each) for each in (3, 0.5))
        kernel = ninetoothed.make(lambda *t: (*tiles(*t[:2]), *t[2:]), application, (Tensor(1), Tensor(1), *numbers))
        x, z = torch.randn(9), nans(9)
        kernel(x, z, term=0.5, factor=3, BLOCK=4)
        kernel(x, z, 3, BLOCK=4)
        kernel(x, z, BLOCK=4)
        monkeypatch.setattr(dispatch.jagged, "bind", None)
        for given in ((), (), (3, 0.5), ()):
            x = torch.randn(9)
            kernel(x, z.fill_(0), *given, BLOCK=4)
            assert torch.equal(z, x * 3 + 0.5)

    def test_parameters_that_are_never_touched(self):
        def arrangement(x, unused, z):
            return *tiles(x), unused.tile((1, 3)), *tiles(z)

        def application(x, unused, z):
            z = x + 1

        kernel = ninetoothed.make(arrangement, application, (Tensor(1), Tensor(2), Tensor(1)))
        x, z = torch.randn(9), nans(9)
        for unused in (None, torch.zeros(7), torch.zeros(2, 2, device="meta"), "text"):
            kernel(x, unused, z.fill_(0), BLOCK=4)
            assert torch.equal(z, x + 1)

    @pytest.mark.parametrize("options", ({}, {"constexpr": True}), ids=("number", "constexpr"))
    def test_numbers_that_are_never_touched_are_not_prepared_for_anew(self, options):
        def arrangement(x, unused, z):
            return *tiles(x), unused, *tiles(z)

        def application(x, unused, z):
            z = x + 1

        kernel = ninetoothed.make(arrangement, application, (Tensor(1), Tensor(0, **options), Tensor(1)))
        x, z, launcher = torch.randn(9), nans(9), dispatch.launcher_of(kernel)
        for unused in (3, 0.5, True):
            kernel(x, unused, z.fill_(torch.nan), BLOCK=4)
            assert torch.equal(z, x + 1)
            assert isinstance(launcher._calls.find((x, unused, z), (("BLOCK", 4),)), LaunchPlan)
        assert len(launcher.variants) == 1

    def test_parameters_that_the_variant_never_touches(self):
        kernel, x, z = masked(), torch.randn(9), nans(9)
        unfit = (None, "text", torch.zeros((), device="meta"), torch.zeros(2, 2), torch.zeros(5), torch.zeros(9) * 1j)
        for mask in (*unfit, torch.zeros(9).to_sparse()):
            for _ in range(2):
                kernel(x, mask, False, z.fill_(torch.nan), BLOCK=4)
                assert torch.equal(z, x)
            assert "mask_ptr" not in kernel.source(x, mask, False, z, BLOCK=4).text
            with pytest.raises(ArgumentError, match="mask"):
                kernel(x, mask, True, z, BLOCK=4)
        kernel(x, x, True, z, BLOCK=4)
        assert torch.equal(z, x * x)

    def test_several_parameters_that_the_variant_never_touches(self):
        def application(x, a, b, mode, z):
            z = x
            if mode == 1:
                z = a
            if mode == 2:
                scatter(z, b)

        def scatter(z, b):
            z = b

        def arrangement(x, a, b, mode, z):
            return *tiles(x, a, b), mode, *tiles(z)

        tensors = (Tensor(1), Tensor(1), Tensor(1), Tensor(0, constexpr=True), Tensor(1))
        kernel, x, z = ninetoothed.make(arrangement, application, tensors), torch.randn(9), nans(9)
        meta, few = torch.zeros(9, device="meta"), torch.zeros(5)
        for a, b, mode in ((meta, few, 0), (few, meta, 0), (None, few, 0), (x, meta, 1), (few, x, 2), (None, x, 2)):
            kernel(x, a, b, mode, z.fill_(torch.nan), BLOCK=4)
            assert torch.equal(z, x)
        for a, b, mode, name in ((x, meta, 2, "b"), (meta, few, 1, "a"), (few, meta, 1, "a"), (meta, meta, 2, "b")):
            with pytest.raises(ArgumentError, match=f"parameters? `{name}`|and `{name}`"):
                kernel(x, a, b, mode, z, BLOCK=4)
        with pytest.raises(ArgumentTypeError, match="`z` is given a tensor on the meta device"):
            kernel(x, meta, meta, 0, meta, BLOCK=4)
        with pytest.raises(ArgumentTypeError, match="`mode` is known when compiling"):
            kernel(x, meta, few, [], z, BLOCK=4)

    def test_absent_parameters_require_no_gradients(self):
        kernel, x, z = masked(), torch.randn(9), nans(9)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(3):
                kernel(x, torch.randn(5, requires_grad=True), False, z, BLOCK=4)
        assert torch.equal(z, x)

    def test_calls_without_a_parameter_are_recognised(self, monkeypatch):
        kernel, x = masked(), torch.randn(9)
        for _ in range(2):
            kernel(x, None, False, nans(9), BLOCK=4)
        monkeypatch.setattr(arguments, "check", None)
        kernel(x, None, False, z := nans(9), BLOCK=4)
        assert torch.equal(z, x)

    def test_absent_parameters_of_no_programs(self):
        kernel, none = masked(), torch.empty(0)
        kernel(none, None, False, none, BLOCK=4)
        with pytest.raises(ArgumentTypeError, match="`mask` is a tensor, and the call gives None"):
            kernel(none, None, True, none, BLOCK=4)

    def test_enums(self):
        def application(x, mode, z):
            if mode is Mode.NEGATE:
                z = -x
            else:
                z = x

        def arrangement(x, mode, z):
            return *tiles(x), mode, *tiles(z)

        kernel = ninetoothed.make(arrangement, application, (Tensor(1), Tensor(0, constexpr=True), Tensor(1)))
        x, z = torch.randn(9), nans(9)
        for mode, expected in ((Mode.NEGATE, -x), (Mode.KEEP, x)):
            kernel(x, mode, z, BLOCK=4)
            assert torch.equal(z, expected)


def masked():
    """z = x * mask where the mask is asked for, else x, in a helper."""

    def chosen(x, mask, is_masked):
        if is_masked:
            return x * mask
        return x

    def application(x, mask, is_masked, z):
        z = chosen(x, mask, is_masked)

    def arrangement(x, mask, is_masked, z):
        return *tiles(x, mask), is_masked, *tiles(z)

    return ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1), Tensor(0, constexpr=True), Tensor(1)))


class Mode(enum.Enum):
    KEEP = 1
    NEGATE = 2


class TestTracing:
    def test_fakes_are_refused_on_hits_too(self):
        add = make_add()
        tensors = [torch.zeros(9) for _ in range(3)]
        add(*tensors, BLOCK=4)
        with FakeTensorMode() as mode, pytest.raises(ArgumentTypeError, match="`x` is given a `FakeTensor`"):
            add(*(mode.from_tensor(tensor) for tensor in tensors), BLOCK=4)
        with pytest.raises(ArgumentTypeError, match="`x` is given a tensor on the meta device"):
            add(*(tensor.to("meta") for tensor in tensors), BLOCK=4)
        with pytest.raises(ArgumentTypeError, match="vmap"):
            torch.vmap(lambda row: add(row, row, row, BLOCK=4) or row)(torch.zeros(2, 9))

    def test_torch_compile_leaves_kernels_between_its_graphs(self):
        add = make_add()
        graphs = []

        def backend(graph, _):
            graphs.append([node.target for node in graph.graph.nodes if node.op == "call_function"])
            return graph

        def function(x):
            z = torch.full_like(x, float("nan"))
            add(x * 2, x, z, BLOCK=4)
            return z + 1

        torch._dynamo.reset()
        compiled = torch.compile(function, backend=backend, dynamic=True)
        for size in (9, 10):
            x = torch.randn(size)
            assert torch.allclose(compiled(x), x * 3 + 1)
        assert len(graphs) == 2, graphs
        with pytest.raises(torch._dynamo.exc.Unsupported, match="ninetoothed_ops.register"):
            torch.compile(function, backend=backend, fullgraph=True)(torch.zeros(9))


class TestCaches:
    def test_a_hit_is_bound_to_nothing(self):
        add = make_add()
        for _ in range(3):
            x, y, z = torch.randn(9), torch.randn(9), nans(9)
            add(x, y, z, BLOCK=4)
            assert torch.equal(z, x + y)
        assert len(dispatch.launcher_of(add).variants) == 1

    def test_a_miss_selects_once(self, traces, monkeypatch):
        add, selected, select = make_add(), [], variants.VariantCache.select
        monkeypatch.setattr(variants.VariantCache, "select", lambda *args: selected.append(args[2]) or select(*args))
        for size in (9, 9, 10, 11, 10, 9):
            x, y, z = torch.randn(size), torch.randn(size), nans(size)
            add(x, y, z, BLOCK=4)
            assert torch.equal(z, x + y)
        assert len(selected) == 3 and len(traces) == 1

    def test_a_miss_binds_once_and_selects_once(self, monkeypatch):
        add, counts = make_add(), collections.Counter()
        add(*torch.zeros(3, 100), BLOCK=16)
        for owner, name in ((arguments, "bind"), (variants.VariantCache, "select")):
            whole = getattr(owner, name)
            count = functools.partial(lambda name, *args: counts.update([name]), name)
            monkeypatch.setattr(owner, name, lambda *args, whole=whole, count=count: count(args) or whole(*args))
        for size in (101, 102):
            x, y, z = torch.randn(3, size)
            add(x, y, z, BLOCK=16) if size % 2 else add(x, z=z, y=y, BLOCK=16)
            assert torch.equal(z, x + y) and counts == {"bind": 1, "select": 1}
            counts.clear()

    def test_types_devices_and_strides_tell_calls_apart(self):
        add = make_add()
        x = torch.arange(20)
        for y in (x, x.double(), x.flip(0), x.half(), x.expand(20), torch.tensor([3]).expand(20)):
            z = torch.zeros(20, dtype=torch.float64)
            add(x, y, z, BLOCK=4)
            assert torch.equal(z, x + y.double())

    def test_signatures_are_bounded(self, monkeypatch):
        monkeypatch.setattr(call_cache, "CAPACITY", 8)
        add = make_add()
        for size in [*range(100, 130), *range(100, 110)]:
            x, z = torch.randn(size), nans(size)
            add(x, x, z, BLOCK=64)
            assert torch.equal(z, x + x)
            assert len(dispatch.launcher_of(add)._calls) <= 8

    def test_precision_counts_where_there_is_a_product_of_float32(self, traces):
        """PyTorch has several ways to set it, of which some cannot be read by the others."""

        def arrangement(x, y, z):
            return x.tile((-1, -1)), y.tile((-1, -1)), z.tile((-1, -1))

        def application(x, y, z):
            z = ninetoothed.language.dot(x, y)

        dot = ninetoothed.make(arrangement, application, tuple(Tensor(2) for _ in range(3)))
        add = make_add()
        matmul, seen = torch.backends.cuda.matmul, []
        try:
            for precision in ("highest", "high", "highest", "medium", "ieee", "tf32", "none", "all"):
                if precision in ("ieee", "tf32", "none"):
                    matmul.fp32_precision = precision
                elif precision == "all":
                    torch.backends.fp32_precision = "tf32"
                else:
                    torch.set_float32_matmul_precision(precision)
                seen.append(private.matmul_precision())
                for dtype in (torch.float32, torch.float16):
                    x, z = torch.eye(16, dtype=dtype), nans(16, 16, dtype=dtype)
                    dot(x, x, z)
                    assert torch.equal(z, x)
                add(x[0], x[0], z[0], BLOCK=4)
        finally:
            torch.backends.fp32_precision = "none"
            torch.set_float32_matmul_precision("highest")
        assert seen == ["highest", "high"] * 4
        assert len(traces) == 2 + 1 + 1
        assert [specialisation.dot_precision for _, specialisation, _ in traces][::3] == ["highest", "high"]

    def test_copies_start_afresh(self):
        add = make_add()
        x = torch.randn(9)
        add(x, x, nans(9), BLOCK=4)
        for other in (copy.copy(add), copy.deepcopy(add)):
            other(x, x, z := nans(9), BLOCK=4)
            assert torch.equal(z, x + x)
        assert dispatch.launcher_of(copy.deepcopy(add)).variants == ()

    def test_threads(self, traces):
        add, failures = make_add(), []

        def work(seed):
            generator = torch.Generator().manual_seed(seed)
            for _ in range(20):
                size = int(torch.randint(1, 50, (), generator=generator))
                x, z = torch.randn(size), nans(size)
                add(x, x, z, BLOCK=8)
                if not torch.equal(z, x + x):
                    failures.append(size)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert len(traces) == len(dispatch.launcher_of(add).variants)


class TestSource:
    def test_the_program_of_a_call(self):
        program = dispatch.program(make_add(), (torch.zeros(9),) * 3, {"BLOCK": 4})
        assert [parameter.name for parameter in program.parameters] == ["x", "y", "z"]

    def test_the_text_and_the_configuration(self):
        size = block_size()
        kernel = ninetoothed.make(
            lambda x, y, z: tuple(tensor.tile((size,)) for tensor in (x, y, z)),
            add_application,
            tuple(Tensor(1) for _ in range(3)),
            num_warps=2,
        )
        source = explain.source(kernel, (torch.zeros(1000),) * 3, {}, gpu=H200)
        assert source.configuration.num_warps == 2 and source.gpu == H200
        assert "def " in source.text and source.text in str(source) and "num_warps=2" in repr(source)
        assert dispatch.launcher_of(kernel).variants == ()
        assert kernel.source(*(torch.zeros(1000),) * 3, gpu=A100).gpu == A100

    @pytest.mark.parametrize("gpu", (A100, H100, H200, B200), ids=lambda gpu: gpu.name)
    def test_a_gpu_by_its_name(self, gpu):
        tensors = (torch.zeros(1000),) * 3
        for name in (gpu.name, gpu.name.lower()):
            assert make_add().source(*tensors, BLOCK=64, gpu=name).gpu == gpu

    @pytest.mark.parametrize("name, meant", (("h20", "did you mean 'H200'?"), ("", "known are A100, H100")))
    def test_a_gpu_that_is_not_known(self, name, meant):
        with pytest.raises(ArgumentError, match=re.escape(meant)):
            make_add().source(*(torch.zeros(1000),) * 3, BLOCK=64, gpu=name)

    def test_a_gpu_that_is_neither_a_name_nor_a_description(self):
        with pytest.raises(ArgumentTypeError, match="pass a name"):
            make_add().source(*(torch.zeros(1000),) * 3, BLOCK=64, gpu=90)


@pytest.mark.parametrize("offset, vectors", ((0, True), (1, False)))
def test_aligned_tensors_are_compiled_as_such(offset, vectors):
    pytest.importorskip("triton")
    add = make_add()
    definition = dispatch.launcher_of(add).definition
    x, y, z = (torch.zeros(1024 + offset)[offset:] for _ in range(3))
    call = dispatch.BoundCall((x, y, z), (("BLOCK", 512),))
    selection = variants.VariantCache().select(dispatch.launcher_of(add).plan, call, torch.device("cuda:0"), H200)
    variant = variants.trace(definition, selection)
    compiled = executable.compile_for_gpu(definition, variant)
    assert (re.search(r"ld\.global(\.\w+)*\.v[24]\.", compiled.asm["ptx"]) is not None) == vectors


def test_a_launch_passes_pointers_scalars_and_integers_in_the_order_of_the_text(monkeypatch):
    monkeypatch.setattr(private, "current_device", lambda: 0)
    monkeypatch.setattr(private, "current_stream", lambda device: 7 + device)
    monkeypatch.setattr(torch.cuda, "device", contextlib.nullcontext)
    kernel, x, half, z = scaled(Tensor(0)), torch.zeros(1001), torch.tensor(0.5, dtype=torch.float16), torch.zeros(1001)
    launcher = dispatch.launcher_of(kernel)
    variant = launcher.trace((x, 2.0, z), {"BLOCK": 64}, gpu=H200)
    emitted = executable.triton.emit(variant.program)
    loaded, driver = loaded_for(emitted)
    call = dispatch.BoundCall((x, half, z), (("BLOCK", 64),))
    ready = executable.plan_of(
        launcher.definition,
        dataclasses.replace(variant, compiled=types.SimpleNamespace(emitted=emitted, on=lambda device: loaded)),
        call,
        variant.selection.values,
        torch.device("cuda:0"),
    )
    fast_path.run(ready, call.arguments)
    expected = {"x": x.data_ptr(), "factor": 0.5, "z": z.data_ptr(), "x_size_0": 1001}
    assert driver.reached == [((16, 1, 1), 7, tuple(expected[argument.source] for argument in emitted.arguments))]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
class TestOnGPU:
    def test_results(self):
        add = make_add()
        for size, offset in ((1, 0), (1000, 0), (1000, 1), (1024, 1), (0, 0), (1000, 0)):
            x, y, z = (torch.randn(size + offset, device="cuda")[offset:] for _ in range(3))
            add(x, y, z, BLOCK=64)
            assert torch.equal(z, x + y)

    def test_scalars_need_no_synchronisation(self):
        kernel, x, z = scaled(Tensor(0)), torch.randn(1000, device="cuda"), nans(1000, device="cuda")
        factors = (2, 0.5, torch.tensor(3.0), torch.tensor(0.25, device="cuda"), torch.tensor(2, dtype=torch.float16))
        try:
            torch.cuda.set_sync_debug_mode("error")
            results = []
            for factor in (*factors, *factors):
                kernel(x, factor, z, BLOCK=64)
                results.append(z.clone())
        finally:
            torch.cuda.set_sync_debug_mode("default")
        for factor, result in zip((*factors, *factors), results, strict=True):
            assert torch.equal(result, x * float(factor))

    def test_capture(self):
        add = make_add()
        x, y, z = (torch.randn(1000, device="cuda") for _ in range(3))
        add(x, y, z, BLOCK=64)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            add(x, y, z, BLOCK=64)
            add(z, y, z, BLOCK=64)
        x.copy_(torch.randn(1000))
        graph.replay()
        assert torch.equal(z, x + y + y)

    def test_the_current_stream(self):
        add, stream = make_add(), torch.cuda.Stream()
        x, y, z = (torch.randn(1000, device="cuda") for _ in range(3))
        add(x, y, z, BLOCK=64)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(20_000_000)
            x.fill_(1)
            add(x, y, z, BLOCK=64)
        stream.synchronize()
        assert torch.equal(z, 1 + y)

    @pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
    def test_the_device_of_the_tensors(self):
        add = make_add()
        for device in ("cuda:1", "cuda:0", "cuda:1"):
            x, z = torch.randn(1000, device=device), nans(1000, device=device)
            add(x, x, z, BLOCK=64)
            assert torch.equal(z, x + x) and torch.cuda.current_device() == 0
        with pytest.raises(ArgumentError, match="`z` is on cuda:0, and `x` is on cuda:1"):
            add(x, x, x.to("cuda:0"), BLOCK=64)
