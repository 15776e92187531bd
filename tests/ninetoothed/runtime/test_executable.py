"""How loaded kernels are launched: past Triton's launcher where nobody watches, and through it otherwise."""

import contextlib
import dataclasses
import types

import pytest
import torch

import ninetoothed
from ninetoothed import Symbol, Tensor
from ninetoothed.backends.triton import emit
from ninetoothed.runtime import call_cache, dispatch, executable, fast_path, private, workspace
from ninetoothed.runtime.compilation.compile import LoadedKernel
from ninetoothed.runtime.fast_path import FunctionBody, write_kernel
from ninetoothed.runtime.selection.machine import H200
from ninetoothed.schedule import Schedule, SplitK
from ninetoothed_ops.kernels import addmm, mm


class Launcher:
    """Stands for Triton's: takes what that takes, and passes it on to what is written in C."""

    global_scratch_size, profile_scratch_size = 0, 0

    def __init__(self, in_c):
        self.launch, self.calls = in_c, 0


class Spread(Launcher):
    """As in Triton 3.4 to 3.6."""

    def __call__(self, x, y, z, stream, function, *args):
        self.calls += 1
        self.launch(x, y, z, stream, function, "cooperative", *args)


class Packed(Launcher):
    """As in Triton 3.7."""

    def __call__(self, x, y, z, stream, function, metadata, launch_metadata, enter, leave, *args):
        self.calls += 1
        self.launch(x, y, z, stream, function, metadata, launch_metadata, enter, leave, "signature", args)


class Fussy(Spread):
    """Cannot be watched."""

    def __call__(self, x, y, z, stream, function, *args):
        super().__call__(x, y, z, int(stream), function, *args)


class Greedy(Spread):
    """Has memory to allocate."""

    global_scratch_size = 64


class Other(Spread):
    """Passes something else."""

    def __call__(self, x, y, z, stream, function, *args):
        self.calls += 1
        self.launch((x, y, z), stream, function, *args)


class Closed:
    """Lets nobody see or change what it calls."""

    __slots__ = ("calls", "_launch")

    def __init__(self, in_c):
        self._launch, self.calls = in_c, 0

    __call__ = Other.__call__
    launch = property(lambda self: self._launch)


def load(launcher):
    """A kernel behind a launcher, what reached the function in C, and Triton's settings."""
    reached, calls = [], types.SimpleNamespace(calls=[])
    settings = types.SimpleNamespace(launch_enter_hook=calls, launch_exit_hook=None)
    kernel = types.SimpleNamespace(
        run=launcher(lambda *args: reached.append(args)),
        function="function",
        packed_metadata="metadata",
        launch_metadata=lambda grid, stream, *args: (grid, stream, args),
    )
    return LoadedKernel(kernel, settings, False), reached, settings


def launch(kernel, programs, arguments, stream):
    source = FunctionBody()
    write_kernel(source, kernel, programs, [f"args[{i}]" for i in range(len(arguments))], str(stream))
    source.function()(arguments, ())


@pytest.mark.parametrize("launcher", (Spread, Packed))
@pytest.mark.parametrize("arguments", ((), (5,), (5, 6.0, 7)))
def test_what_the_launcher_would_pass_is_passed_without_it(launcher, arguments):
    loaded, reached, _ = load(launcher)
    loaded._kernel.run(3, 1, 1, 9, "function", "metadata", None, None, None, *arguments)
    before = loaded._kernel.run.calls
    launch(loaded, (3, 1, 1), arguments, 9)
    assert reached[0] == reached[1] and len(reached) == 2
    assert loaded._kernel.run.calls == before


@pytest.mark.parametrize("launcher", (Fussy, Greedy, Other, Closed))
def test_a_launcher_that_is_not_as_expected_is_called(launcher):
    loaded, reached, _ = load(launcher)
    before = loaded._kernel.run.calls
    launch(loaded, (3, 1, 1), (5, 6), 9)
    assert loaded._kernel.run.calls == before + 1 and len(reached) == 1 and reached[0][-2:] == (5, 6)


@pytest.mark.parametrize("launcher", (Spread, Packed))
def test_hooks_are_passed_to_the_launcher(launcher):
    loaded, reached, settings = load(launcher)
    hook = types.SimpleNamespace(calls=[print])
    for enter, leave, expected in (
        (hook, None, (((3, 1, 1), 9, (5,)), hook, None)),
        (None, print, (None, None, print)),
        (settings.launch_enter_hook, hook, (None, None, hook)),
        (None, None, (None, None, None)),
    ):
        settings.launch_enter_hook, settings.launch_exit_hook = enter, leave
        launch(loaded, (3, 1, 1), (5,), 9)
        passed = reached.pop()
        assert passed[passed.index("metadata") + 1 :][:3] == expected
    assert loaded._kernel.run.calls == 1 + 3


def scale_application(x, factor, z):
    z = x * factor


def scale():
    tile = Symbol("BLOCK", constexpr=True)
    return ninetoothed.make(
        lambda x, factor, z: (x.tile((tile,)), factor, z.tile((tile,))),
        scale_application,
        (Tensor(1), Tensor(0), Tensor(1)),
    )


def halves(*shape):
    return torch.empty(shape, dtype=torch.float16)


def products(*shapes):
    return tuple(halves(*shape) for shape in shapes)


CALLS = {
    "scalar": (scale(), (torch.zeros(1001), 0.5, torch.zeros(1001)), {"BLOCK": 64}, None),
    "scalar on the host": (scale(), (torch.zeros(1001), torch.tensor(0.5), torch.zeros(1001)), {"BLOCK": 64}, None),
    "descriptors": (mm.make(), products((4096, 512), (512, 1024), (4096, 1024)), {}, None),
    "descriptors and scalars": (addmm.make(), (*products((512, 512)) * 3, 0.5, 2.0, halves(512, 512)), {}, None),
    "workspace": (mm.make(), products((64, 4096), (4096, 64), (64, 64)), {}, Schedule(sharing=SplitK(4))),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("launcher", (Spread, Packed, Greedy))
def test_all_fast_paths_launch_the_same(name, launcher, monkeypatch):
    kernel, arguments, constants, schedule = CALLS[name]
    monkeypatch.setattr(private, "current_device", lambda: 0)
    monkeypatch.setattr(private, "current_stream", lambda index: 7)
    monkeypatch.setattr(torch.cuda, "device", contextlib.nullcontext)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    block = torch.empty(2**20, dtype=torch.uint8)
    monkeypatch.setattr(torch, "empty_strided", lambda *args, **options: block)
    semaphores = workspace.Semaphores(torch.device("cpu"))
    monkeypatch.setattr(workspace, "_semaphores", lambda device: semaphores)
    definition = dispatch.launcher_of(kernel).definition
    variant = dispatch.launcher_of(kernel).trace(arguments, constants, H200)
    loaded, reached, settings = load(launcher)
    loaded.ready = lambda position, described: (f"map {position} of {int(described.base)}", *described.shape)
    emitted = emit(variant.program, schedule) if schedule else executable.emitted_for(variant)
    assert bool(emitted.buffers) == (name == "workspace") and bool(emitted.descriptors) == ("descriptors" in name)
    compiled = types.SimpleNamespace(emitted=emitted, on=lambda index: loaded)
    call = dispatch.BoundCall(arguments, tuple(constants.items()))
    place, variant = torch.device("cuda:0"), dataclasses.replace(variant, compiled=compiled)
    found = executable.plan_of(definition, variant, call, variant.selection.values, place)

    for _ in range(2):
        assert fast_path.unguarded(found)(arguments, ())
        repeat = call_cache.guarded(arguments, call.constants, (), found)
        assert repeat(arguments, call.constants) and not repeat(arguments, ("other",))
        settings.launch_exit_hook = print  # Then through the launcher.
        assert repeat(arguments, call.constants)
        settings.launch_exit_hook = None
        *launches, watched = (reached.pop(0) for _ in range(3))
        assert launches[0] == launches[1] == tuple(None if v is print else v for v in watched)
        assert len(launches[0][-1] if launcher is Packed else launches[0]) >= len(emitted.arguments)
