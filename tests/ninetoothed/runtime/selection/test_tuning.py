"""Tuning without a GPU: launches run on the CPU, clocks are made up, and everything between is real."""

import contextlib
import dataclasses
import itertools
import re
import threading
import types

import pytest
import torch

import ninetoothed
from ninetoothed import Tensor, block_size
from ninetoothed.arrangement import symbol
from ninetoothed.errors import ArgumentError, ResourceError
from ninetoothed.runtime import arguments, dispatch, executable, fast_path
from ninetoothed.runtime.selection import machine, measuring, tuning
from ninetoothed.schedule import Schedule
from tests.ninetoothed.products import blocked, multiply

PLAN_OF = executable.plan_of


@dataclasses.dataclass(frozen=True)
class Compiled:
    """Stands for a compiled kernel; the PyTorch backend runs it."""

    evaluation: object
    spills: int


@dataclasses.dataclass
class GPU:
    """What the made-up GPU is made to do, and what it has seen. seconds, spills: by configuration."""

    seconds: dict = dataclasses.field(default_factory=dict)
    spills: dict = dataclasses.field(default_factory=dict)
    too_large: set = dataclasses.field(default_factory=set)
    compiled: list = dataclasses.field(default_factory=list)
    measured: list = dataclasses.field(default_factory=list)
    threads: set = dataclasses.field(default_factory=set)
    capturing: bool = False
    short: bool = False

    def compile(self, definition, variant):
        configuration = variant.selection.schedule
        self.threads.add(threading.get_ident())
        self.compiled.append(configuration)
        if configuration in self.too_large:
            raise ResourceError("too large")
        evaluation = executable.prepare_for_host(definition, variant)
        return Compiled(evaluation, self.spills.get(configuration, 0))

    def launch(self, definition, variant, call, integers, place):
        run = dataclasses.replace(variant, compiled=getattr(variant.compiled, "evaluation", variant.compiled))
        ready = PLAN_OF(definition, run, call, integers, torch.device("cpu"))
        ready.configuration = variant.selection.schedule
        return ready

    def clock(self, gpu, before):
        if self.short:
            raise torch.OutOfMemoryError("no room")

        def clock(run, repetitions):
            configuration = run.func.__self__.configuration
            self.measured.append((configuration, repetitions))
            for _ in range(repetitions):
                before()
                run()
            seconds = self.seconds.get(configuration, 1.0)
            return seconds(repetitions) if callable(seconds) else seconds

        return clock


def launched(plan, args, constants):
    fast_path.run(plan, args)


@pytest.fixture(autouse=True)
def gpu(tmp_path, monkeypatch):
    gpu = GPU()
    monkeypatch.setenv("NINETOOTHED_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("NINETOOTHED_TUNE", raising=False)
    monkeypatch.setattr(arguments, "device_of", lambda definition, values: torch.device("cuda", 0))
    monkeypatch.setattr(machine, "current", lambda place=None: machine.H200)
    monkeypatch.setattr(torch.cuda, "device", contextlib.nullcontext)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: gpu.capturing)
    monkeypatch.setattr(executable, "compile_for_gpu", gpu.compile)
    monkeypatch.setattr(executable, "plan_of", gpu.launch)
    monkeypatch.setattr(tuning, "unguarded", lambda plan: types.MethodType(launched, plan))
    monkeypatch.setattr(tuning, "Clock", gpu.clock)
    monkeypatch.setattr(tuning, "_tools", lambda: {"triton": "1", "ptxas": "2"})
    return gpu


def make_add(**options):
    """z = x + y, and z is added to where it is an input too."""
    size = block_size()

    def application(x, y, z):
        z = x + y

    def arrangement(*tensors):
        return tuple(tensor.tile((size,)) for tensor in tensors)

    return ninetoothed.make(arrangement, application, tuple(Tensor(1) for _ in range(3)), **options)


def make_product(**options):
    arrangement = blocked(block_size(), block_size(), block_size())
    return ninetoothed.make(arrangement, multiply, tuple(Tensor(2) for _ in range(3)), **options)


def ranked(kernel, *args):
    launcher = dispatch.launcher_of(kernel)
    call, _ = arguments.check(kernel.definition, arguments.bind(kernel.definition, args, {}))
    known = launcher._variants
    selection = known.select(launcher.plan, call, torch.device("cuda:0"), machine.H200)
    return selection.choices.candidates(selection.values)


def candidates_of(kernel, *args):
    return tuning.shortlist(kernel.definition, ranked(kernel, *args))


def tensors(size=1000):
    return torch.randn(size), torch.randn(size), torch.full((size,), float("nan"))


def test_nothing_is_measured_unless_asked_for(gpu):
    kernel, (x, y, z) = make_add(), tensors()
    kernel(x, y, z)
    assert torch.equal(z, x + y) and not gpu.measured and len(gpu.compiled) == 1


@pytest.mark.parametrize("way", ("option", "variable", "function"))
def test_the_fastest_is_chosen_when_asked_for(way, gpu, monkeypatch):
    kernel, (x, y, z) = make_add(tune=way == "option"), tensors()
    expected = candidates_of(kernel, x, y, z)[3]
    gpu.seconds[expected] = 0.5
    if way == "variable":
        monkeypatch.setenv("NINETOOTHED_TUNE", "1")
    if way == "function":
        assert ninetoothed.tune(kernel, x, y, z) == expected and torch.isnan(z).all()
    kernel(x, y, z)
    assert torch.equal(z, x + y)
    (variant,) = dispatch.launcher_of(kernel).variants
    assert variant.selection.schedule == expected
    assert gpu.measured


@pytest.mark.parametrize("value", ("0", ""))
def test_the_variable_may_say_no(value, gpu, monkeypatch):
    monkeypatch.setenv("NINETOOTHED_TUNE", value)
    make_add()(*tensors())
    assert not gpu.measured


def test_at_most_nine_are_measured_the_two_best_again(gpu):
    kernel, args = make_product(tune=True), [torch.randn(64, 64) for _ in range(3)]
    short = candidates_of(kernel, *args)
    assert len(short) == 9
    # The best at first sight is not the best.
    gpu.seconds[short[4]] = lambda repetitions: 0.1 if repetitions == measuring.FEW else 0.6
    gpu.seconds[short[5]] = 0.5
    assert ninetoothed.tune(kernel, *args) == short[5]
    assert [c for c, repetitions in gpu.measured if repetitions == measuring.FEW] == list(short)
    assert [c for c, repetitions in gpu.measured if repetitions == measuring.MANY] == [short[4], short[5]]


def test_a_class_is_tuned_once(gpu):
    kernel = make_add(tune=True)
    for size in (1000, 1001, 999, 1008, 1000):
        kernel(*tensors(size))
    assert len({id(c) for c, _ in gpu.measured}) == len(gpu.measured) - 6  # divisible by 16, by 8, or neither
    kernel(*tensors(5000))
    assert len(dispatch.launcher_of(kernel).variants) <= 4


def test_another_kernel_of_the_same_source_takes_the_result_from_disk(gpu, capsys):
    first, args = make_add(), tensors()
    gpu.seconds[candidates_of(first, *args)[2]] = 0.5
    ninetoothed.tune(first, *args)
    assert re.search(r": compiling and measuring \d schedules, once on this machine\n$", capsys.readouterr().err)
    count, compiled, second = len(gpu.measured), len(gpu.compiled), make_add()
    expected, chosen = candidates_of(second, *args)[2], ninetoothed.tune(second, *args)
    assert chosen == expected and chosen.meta != candidates_of(first, *args)[2].meta  # block sizes have other names
    assert len(gpu.measured) == count and len(gpu.compiled) == compiled
    assert not capsys.readouterr().err


@pytest.mark.parametrize("change", ("gpu", "tools", "type", "layout", "size", "candidates", "source"))
def test_what_a_result_depends_on(change, gpu, monkeypatch):
    ninetoothed.tune(make_add(), *tensors())
    count, args, kernel = len(gpu.measured), tensors(), make_add()
    if change == "gpu":
        monkeypatch.setattr(machine, "current", lambda place=None: dataclasses.replace(machine.H200, name="another"))
    elif change == "tools":
        monkeypatch.setattr(tuning, "_tools", lambda: {"triton": "1", "ptxas": "3"})
    elif change == "type":
        args = tuple(tensor.double() for tensor in args)
    elif change == "layout":
        args = tuple(torch.zeros(2000)[::2] for _ in range(3))
    elif change == "size":
        args = tensors(100_000)
    elif change == "candidates":
        kernel = make_add(max_num_configs=3)
    elif change == "source":
        kernel = make_product()
        args = tuple(torch.zeros(16, 16) for _ in range(3))
    ninetoothed.tune(kernel, *args)
    assert len(gpu.measured) > count


@pytest.mark.parametrize("content", ("", "{}", '{"key": 1, "result": {}}'))
def test_a_broken_result_is_measured_anew(content, gpu, tmp_path):
    ninetoothed.tune(make_add(), *tensors())
    (path,) = (tmp_path / "tuned").iterdir()
    good, count = path.read_text(), len(gpu.measured)
    path.write_text(content)
    with pytest.warns(UserWarning, match="ignored and written anew"):
        ninetoothed.tune(make_add(), *tensors())
    assert path.read_text() == good and len(gpu.measured) == 2 * count


def test_those_that_spill_or_do_not_fit_are_not_measured(gpu):
    kernel, args = make_add(), tensors()
    short = candidates_of(kernel, *args)
    gpu.spills, gpu.too_large = {short[0]: 8, short[2]: 16}, {short[1]}
    assert ninetoothed.tune(kernel, *args) == short[3]
    assert not {c for c, _ in gpu.measured} & set(short[:3])


def test_where_all_spill_the_least_is_measured(gpu):
    kernel, args = make_add(), tensors()
    short = candidates_of(kernel, *args)
    gpu.spills = {c: 100 - i for i, c in enumerate(short)}
    assert ninetoothed.tune(kernel, *args) == short[-1]


def test_where_nothing_fits_compiling_says_why(gpu):
    kernel, args = make_add(tune=True), tensors()
    gpu.too_large = set(candidates_of(kernel, *args))
    with pytest.raises(ResourceError):
        kernel(*args)


def test_they_are_compiled_in_threads(gpu, monkeypatch):
    monkeypatch.setattr(measuring.os, "cpu_count", lambda: 4)
    ninetoothed.tune(make_add(), *tensors())
    assert threading.get_ident() not in gpu.threads


@pytest.mark.parametrize("mode", (torch.inference_mode, torch.no_grad, torch.enable_grad))
def test_arguments_are_as_before(mode):
    size = block_size()

    def accumulate(x, total):
        total += x

    kernel = ninetoothed.make(lambda x, y: (x.tile((size,)), y.tile((size,))), accumulate, (Tensor(1), Tensor(1)))
    with mode():
        x, total = torch.randn(500), torch.randn(1000)[::2]
        before = x.clone(), total.clone()
        for _ in range(2):
            ninetoothed.tune(kernel, x, total)
            assert torch.equal(x, before[0]) and torch.equal(total, before[1])
        ninetoothed.tune(kernel, total, total)
        assert torch.equal(total, before[1])
        kernel(x, total)
        assert torch.equal(total, before[0] + before[1])


def test_what_autograd_saved_is_not_touched():
    x = torch.randn(100, requires_grad=True)
    y = x.exp()  # saves its result
    with measuring.preserved([y]) as restore:
        y.data.zero_()
        restore()
    y.sum().backward()
    assert torch.equal(y, x.exp()) and torch.allclose(x.grad, x.exp())


def test_outputs_that_overlap_are_refused_before_anything_is_measured(gpu):
    with pytest.raises(ArgumentError, match="`z` is written to"):
        ninetoothed.tune(make_add(), torch.zeros(9), torch.zeros(9), torch.zeros(1).expand(9))
    assert not gpu.measured


def test_nothing_is_measured_for_no_element_and_while_a_graph_is_captured(gpu):
    kernel = make_add(tune=True)
    kernel(*tensors(0))
    gpu.capturing = True
    kernel(*tensors(1000))
    assert not gpu.measured
    gpu.capturing = False
    kernel(*tensors(1001))
    assert gpu.measured


def test_where_memory_is_short_the_formula_chooses(gpu):
    kernel, (x, y, z) = make_add(tune=True), tensors()
    gpu.short = True
    with pytest.warns(UserWarning, match="was not tuned: no room"):
        kernel(x, y, z)
    assert torch.equal(z, x + y)


def test_calls_that_were_prepared_before_get_the_result(gpu):
    kernel, (x, y, z) = make_add(), tensors()
    best = candidates_of(kernel, x, y, z)[1]
    gpu.seconds[best] = 0.5
    for _ in range(3):
        kernel(x, y, z)
    ninetoothed.tune(kernel, x, y, z)
    assert dispatch.launcher_of(kernel)._calls.find((x, y, z), ()) is None
    kernel(x, y, z)
    found = dispatch.launcher_of(kernel)._calls.find((x, y, z), ())
    assert found.configuration == best


def test_on_the_cpu_there_is_nothing_to_measure(gpu, monkeypatch):
    monkeypatch.setattr(arguments, "device_of", lambda definition, values: torch.device("cpu"))
    kernel, (x, y, z) = make_add(tune=True), tensors()
    chosen = ninetoothed.tune(kernel, x, y, z)
    kernel(x, y, z)
    (variant,) = dispatch.launcher_of(kernel).variants
    assert variant.selection.schedule == chosen and not gpu.measured and not gpu.compiled


class TestShortlist:
    PICK = Schedule((("B", 64),), num_warps=4, num_stages=3)

    def short(self, candidates=(PICK,), **options):
        symbol = ninetoothed.Symbol("B", meta=True, lower_bound=32, upper_bound=128, power_of_two=True)
        with pytest.warns(ninetoothed.EmptyKernelWarning):
            kernel = ninetoothed.make(lambda x: x.tile((symbol,)), lambda x: x, (Tensor(1),), **options)
        return tuning.shortlist(kernel.definition, candidates)

    def test_the_pick_is_first_and_one_number_changes_at_a_time(self):
        pick, *others = self.short()
        assert pick == self.PICK
        for other in others:
            changed = [f.name for f in dataclasses.fields(other) if getattr(other, f.name) != getattr(pick, f.name)]
            assert len(changed) == 1
        assert {other.blocks["B"] for other in others} == {32, 64, 128}

    def test_what_the_formula_ranks_next_comes_before_variations(self):
        ranked = tuple(dataclasses.replace(self.PICK, num_stages=stages) for stages in range(1, 16))
        assert self.short(ranked) == ranked[:9]

    def test_the_user_is_obeyed(self):
        short = self.short(num_warps=(4, 8), num_stages=3)
        assert {each.num_warps for each in short} == {4, 8} and {each.num_stages for each in short} == {3}

    @pytest.mark.parametrize("made_before", (0, 8, 9))
    def test_variations_are_the_same_however_many_block_sizes_were_made_before(self, made_before, monkeypatch):
        monkeypatch.setattr(symbol, "_fresh", itertools.count(made_before))
        definition = (kernel := make_product()).definition
        pick, *others = tuning.shortlist(definition, ranked(kernel, *(torch.empty(512, 512) for _ in range(3)))[:1])
        assert list(pick.blocks) == list(definition.meta_symbols)
        changed = [name for each in others for name, block in each.meta if block != pick.blocks[name]]
        assert list(dict.fromkeys(changed)) == list(definition.meta_symbols)

    @pytest.mark.parametrize("most", (1, 3, 100))
    def test_max_num_configs(self, most):
        assert len(self.short(max_num_configs=most)) == min(most, len(self.short()))
