"""Descriptors on the host: made once for each address, passed as Triton would; and what does not fit a GPU."""

import concurrent.futures
import dataclasses
import types

import pytest
import torch

from ninetoothed.errors import ResourceError
from ninetoothed.runtime import dispatch, executable, private, variants
from ninetoothed.runtime.compilation import descriptors
from ninetoothed.runtime.fast_path import FunctionBody, written
from ninetoothed.runtime.selection import machine, ranking
from ninetoothed.schedule import Persistent, Schedule, StreamK
from ninetoothed_ops.kernels import addmm, mm


def halves(*shape):
    return torch.empty(shape, dtype=torch.float16)


def traced(kernel, *arguments):
    launcher = dispatch.launcher_of(kernel)
    variant = launcher.trace(arguments, {}, machine.H200)
    return (
        launcher,
        variant,
        executable.emitted_for(variant),
    )


class LoadedKernel:
    """Stands for a kernel on a device: `ready` tells what it was asked to describe."""

    launch = None

    def __init__(self):
        self.described, self.calls = [], []

    def on(self, index):
        return self

    def ready(self, position, described):
        self.described.append((position, described))
        return (f"map of {int(described.base)}", *described.shape, *described.strides)

    def watched(self, programs, arguments, stream):
        self.calls.append((programs, arguments))


@pytest.fixture
def gpu(monkeypatch):
    """As if there were an H200."""
    monkeypatch.setattr(machine, "current", lambda place=None: machine.H200)
    monkeypatch.setattr(private, "current_device", lambda: 0)
    monkeypatch.setattr(private, "current_stream", lambda index: 7)


def run(found, addresses):
    """Launch on tensors at these addresses."""
    source = FunctionBody()
    for number, address in enumerate(addresses):
        source.add(f"p{number} = {address}")
    written(source, found)
    source.function()((), ())


class TestLaunching:
    def prepare(self, monkeypatch, *arguments):
        launcher, variant, emitted = traced(mm.make(), *arguments)
        loaded = LoadedKernel()
        loaded.emitted = emitted
        monkeypatch.setattr(torch.cuda, "device", lambda place: torch.inference_mode(False))
        call = dispatch.BoundCall(arguments, ())
        found = executable.plan_of(
            launcher.definition,
            dataclasses.replace(variant, compiled=loaded),
            call,
            variant.selection.values,
            torch.device("cuda:0"),
        )
        return found, loaded

    def test_what_is_passed(self, gpu, monkeypatch):
        arguments = halves(4096, 512), halves(1024, 512).mT, halves(4096, 1024)
        found, loaded = self.prepare(monkeypatch, *arguments)
        run(found, [16, 32, 48])
        ((programs, passed),) = loaded.calls
        assert passed[:5] == ("map of 16", 4096, 512, 512, 1)
        assert passed[5:10] == ("map of 32", 1024, 512, 512, 1)
        assert passed[10:15] == ("map of 48", 4096, 1024, 1024, 1)
        assert sorted(passed[15:]) == [512, 1024, 4096]
        assert programs == found.steps[0].programs > (0, 0, 0)

    def test_once_for_each_set_of_addresses(self, gpu, monkeypatch):
        arguments = halves(4096, 512), halves(512, 1024), halves(4096, 1024)
        found, loaded = self.prepare(monkeypatch, *arguments)
        for addresses in ([16, 32, 48], [16, 32, 48], [16, 32, 64], [16, 32, 48]):
            run(found, addresses)
        assert len(loaded.described) == 6 and len(loaded.calls) == 4
        assert loaded.calls[0] == loaded.calls[1] == loaded.calls[3] != loaded.calls[2]

    def test_few_are_kept(self, gpu, monkeypatch):
        arguments = halves(4096, 512), halves(512, 1024), halves(4096, 1024)
        found, loaded = self.prepare(monkeypatch, *arguments)
        for address in range(16, 16 * 3 * descriptors.CAPACITY, 16):
            run(found, [address, 16, 32])
            assert loaded.calls[-1][1][0] == f"map of {address}"
            assert len(found.steps[0].table.known) <= descriptors.CAPACITY

    def test_a_thread_without_a_context_gets_one(self, monkeypatch):
        contexts = []

        def encode(position, described):
            if not contexts:
                raise RuntimeError("Failed to create tensor map descriptor: invalid device context")
            return (position, described.base)

        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: contexts.append("made"))
        table = descriptors.DescriptorTable(encode, (([8], [1], [8]), ([8], [1], [8])))
        assert table.make((16, 32)) == (0, 16, 1, 32)
        assert contexts == ["made"]

    def test_any_other_failure_is_told_at_once(self, monkeypatch):
        calls = []

        def encode(position, described):
            calls.append(position)
            raise RuntimeError("Failed to create tensor map descriptor: invalid argument")

        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: calls.append("context"))
        table = descriptors.DescriptorTable(encode, (([8], [1], [8]),))
        with pytest.raises(RuntimeError, match="invalid argument"):
            table.make((16,))
        assert calls == [0]

    @pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
    def test_a_thread_that_has_called_nothing_of_cuda_yet(self):
        operands = [torch.randn(512, 512, device="cuda", dtype=torch.float16) for _ in range(4)]
        make = mm.make()
        make(*operands[:3])
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            pool.submit(make, operands[1], operands[2], operands[3]).result()
        expected = operands[1].double() @ operands[2].double()
        assert (operands[3] - expected).norm() < 1e-3 * expected.norm()

    def test_empty_operands_have_none(self):
        arguments = halves(4096, 0), halves(0, 4096), halves(4096, 4096)
        _, variant, emitted = traced(mm.make(), *arguments)
        assert not emitted.descriptors and not emitted.persistent and not variant.selection.schedule.use_tma


def make_tensordesc_arg(described, metadata):
    return [("map", described.base.data_ptr(), metadata), *described.shape, *described.strides]


def wrapped(launcher, tensordesc_meta):
    def inner(*arguments):
        return launcher, tensordesc_meta, make_tensordesc_arg

    return inner


class TestTheLauncherUnderneath:
    described = descriptors.DescribedMemory(descriptors.Address(64), [8, 16], [16, 1], [8, 16])

    def test_takes_what_is_ready(self):
        launcher = object()
        run = types.SimpleNamespace(launch=wrapped(launcher, ["a", "b"]))
        ready = descriptors.encoder(run)
        assert run.launch is launcher
        assert ready(1, self.described) == (("map", 64, "b"), 8, 16, 16, 1)

    def test_is_left_alone_where_it_is_not_as_expected(self):
        tools = pytest.importorskip("triton.tools.tensor_descriptor")
        run = types.SimpleNamespace(launch=len)
        (passed,) = descriptors.encoder(run)(0, self.described)
        assert run.launch is len and isinstance(passed, tools.TensorDescriptor)
        assert vars(passed) == vars(self.described)

    def test_is_triton_s_own(self):
        driver = pytest.importorskip("triton.backends.nvidia.driver")
        plain = driver.wrap_handle_tensordesc(print, {0: "tensordesc<fp16[8, 16]>", 1: "i32"}, None)
        run = types.SimpleNamespace(launch=plain)
        ready = descriptors.encoder(run)
        assert run.launch is print
        # Without descriptors in hardware Triton passes the address, the shape and the strides.
        assert ready(0, self.described)[:5] == (64, 8, 16, 16, 1) if plain.__closure__ else True


class TestWhatDoesNotFit:
    def select(self, kernel, arguments, monkeypatch, fits, spills=lambda chosen: 0):
        tried = []

        def compile(definition, variant):
            tried.append(variant.selection.schedule)
            if not fits(variant.selection.schedule):
                raise ResourceError("too large")
            return types.SimpleNamespace(spills=spills(variant.selection.schedule))

        monkeypatch.setattr(executable, "compile_for_gpu", compile)
        monkeypatch.setattr(executable, "plan_of", lambda definition, variant, *rest: variant)
        launcher = dispatch.Launcher(kernel.definition)
        place = torch.device("cuda:0")
        try:
            return launcher._executable(
                launcher.plan, dispatch.BoundCall(arguments, ()), place
            ).selection.schedule, tried
        except ResourceError:
            return None, tried

    def test_the_next_candidate_is_taken_and_remembered(self, gpu, monkeypatch):
        arguments = tuple(halves(4096, 4096) for _ in range(3))
        found, tried = self.select(mm.make(), arguments, monkeypatch, lambda chosen: not chosen.programs)
        assert found == tried[-1] and all(chosen.programs for chosen in tried[:-1]) and not found.programs

    def test_an_error_where_none_is_left(self, gpu, monkeypatch):
        arguments = tuple(halves(4096, 4096) for _ in range(3))
        found, tried = self.select(mm.make(), arguments, monkeypatch, lambda chosen: False)
        assert found is None and len(tried) == len(set(tried)) > 2

    def test_one_that_spills_gives_way_to_one_that_does_not(self, gpu, monkeypatch):
        arguments = tuple(halves(4096, 4096) for _ in range(3))
        found, tried = self.select(
            mm.make(), arguments, monkeypatch, lambda chosen: True, lambda chosen: 8 * bool(chosen.programs)
        )
        assert found == tried[-1] and all(chosen.programs for chosen in tried[:-1]) and not found.programs

    @pytest.mark.parametrize("spilled, is_kept", ((8, True), (16, False)))
    def test_one_that_may_spill_a_little(self, gpu, monkeypatch, spilled, is_kept):
        candidates = ranking.candidates

        def lenient(*given):
            first, *others = candidates(*given)
            return dataclasses.replace(first, most_spilled=8), *others

        monkeypatch.setattr(ranking, "candidates", lenient)
        arguments = tuple(halves(4096, 4096) for _ in range(3))
        found, tried = self.select(
            mm.make(), arguments, monkeypatch, lambda chosen: True, lambda chosen: spilled * bool(chosen.most_spilled)
        )
        assert (found == tried[0]) == is_kept

    def test_where_all_spill_the_one_that_spills_least(self, gpu, monkeypatch):
        arguments = tuple(halves(4096, 4096) for _ in range(3))
        amounts = iter((16, 8, 32, 64, 4))
        seen = {}

        def spills(chosen):
            return seen.setdefault(chosen, next(amounts))

        found, tried = self.select(mm.make(), arguments, monkeypatch, lambda chosen: True, spills)
        assert len(tried) == variants.MOST_SPILLING and found == tried[1]

    def test_a_real_one(self, gpu, monkeypatch, tmp_path):
        pytest.importorskip("triton")
        monkeypatch.setenv("NINETOOTHED_CACHE_DIR", str(tmp_path))
        monkeypatch.setattr(executable, "plan_of", lambda definition, variant, *rest: variant)
        launcher = dispatch.Launcher(addmm.make().definition)
        # A float32 addend takes twice the room beside the stages of the loop.
        addend = torch.empty(4096, 4096)
        arguments = addend, halves(4096, 4096), halves(4096, 4096), 1.0, 1.0, halves(4096, 4096)
        first = launcher.trace(arguments, {}, machine.H200).selection.schedule
        found = launcher._executable(launcher.plan, dispatch.BoundCall(arguments, ()), torch.device("cuda:0"))
        assert first.programs and found.selection.schedule != first
        assert found.compiled.shared <= machine.H200.shared_memory


def test_configurations_say_how_tiles_are_shared_out():
    assert str(Schedule((("M", 64),), 4, 3, Persistent(132))) == "M=64, num_warps=4, num_stages=3, programs=132"
    assert str(Schedule((("M", 64),), 4, 3)) == "M=64, num_warps=4, num_stages=3"
    shared = Schedule((), 8, 4, sharing=StreamK(132, 8, 6))
    assert str(shared) == "num_warps=8, num_stages=4, tiles_per_wave=132, ctas_per_tile=8, subtile_stages=6"
