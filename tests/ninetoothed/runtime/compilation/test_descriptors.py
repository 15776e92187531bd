"""Descriptors on the host: made once for each address, passed as Triton would; and what does not fit a GPU."""

import concurrent.futures
import dataclasses
import types

import pytest
import torch

from ninetoothed.errors import LoadError, ResourceError
from ninetoothed.runtime import dispatch, executable, private, variants
from ninetoothed.runtime.fast_path import FunctionBody, written
from ninetoothed.runtime.launching import descriptors
from ninetoothed.runtime.launching.driver import _NEEDED, Driver, Encoding
from ninetoothed.runtime.selection import machine, ranking
from ninetoothed.schedule import Persistent, Schedule, StreamK
from ninetoothed_ops.kernels import addmm, mm
from tests.ninetoothed.runtime.launched import loaded_for


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
        kernel, driver = loaded_for(emitted)
        loaded = types.SimpleNamespace(emitted=emitted, on=lambda index: kernel)
        monkeypatch.setattr(torch.cuda, "device", lambda place: torch.inference_mode(False))
        call = dispatch.BoundCall(arguments, ())
        found = executable.plan_of(
            launcher.definition,
            dataclasses.replace(variant, compiled=loaded),
            call,
            variant.selection.values,
            torch.device("cuda:0"),
        )
        return found, driver

    def test_what_is_passed(self, gpu, monkeypatch):
        arguments = halves(4096, 512), halves(1024, 512).mT, halves(4096, 1024)
        found, driver = self.prepare(monkeypatch, *arguments)
        blocks = [each.block for each in traced(mm.make(), *arguments)[2].descriptors]
        run(found, [16, 32, 48])
        ((programs, stream, passed),) = driver.reached
        for i, (address, rows) in enumerate(((16, 4096), (32, 1024), (48, 4096))):
            columns = 1024 if address == 48 else 512
            told, *sizes = passed[5 * i : 5 * i + 5]
            assert told == f"map {blocks[i]} of {address}, {[rows, columns]}, {[columns, 1]}"
            assert sizes == [rows, columns, columns, 1]
        assert sorted(passed[15:]) == [512, 1024, 4096]
        assert programs == found.steps[0].programs > (0, 0, 0) and stream == 7

    def test_once_for_each_set_of_addresses(self, gpu, monkeypatch):
        arguments = halves(4096, 512), halves(512, 1024), halves(4096, 1024)
        found, driver = self.prepare(monkeypatch, *arguments)
        encoded, encode = [], driver.encode
        driver.encode = lambda *given: encoded.append(given) or encode(*given)
        for addresses in ([16, 32, 48], [16, 32, 48], [16, 32, 64], [16, 32, 48]):
            run(found, addresses)
        assert len(encoded) == 6 and len(driver.reached) == 4
        assert driver.reached[0] == driver.reached[1] == driver.reached[3] != driver.reached[2]

    def test_few_are_kept(self, gpu, monkeypatch):
        arguments = halves(4096, 512), halves(512, 1024), halves(4096, 1024)
        found, driver = self.prepare(monkeypatch, *arguments)
        for address in range(16, 16 * 3 * descriptors.CAPACITY, 16):
            run(found, [address, 16, 32])
            assert f" of {address}," in driver.reached[-1][2][0]
            assert len(found.steps[0].table.known) <= descriptors.CAPACITY

    def test_a_thread_without_a_context_gets_one(self, monkeypatch):
        statuses, contexts = [201, 0, 1], []
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: contexts.append("made"))
        library = types.SimpleNamespace(**dict.fromkeys(_NEEDED), cuTensorMapEncodeTiled=lambda *_: statuses.pop(0))
        library.cuGetErrorString = library.cuDriverGetVersion = lambda *_: 0
        encoding = Encoding(3, 6, 2, (8,))
        assert len(Driver(library).encode(encoding, 16, [8], [1])) == 128
        assert contexts == ["made"]
        with pytest.raises(LoadError, match=r"encode a descriptor of sizes \[8\] and strides \[1\]"):
            Driver(library).encode(encoding, 16, [8], [1])
        assert contexts == ["made"] and not statuses

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
