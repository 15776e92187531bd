"""How loaded kernels are launched: by what was written for them, and slowly where somebody watches or it fails."""

import contextlib
import dataclasses
import math
import types

import pytest
import torch

import ninetoothed
from ninetoothed import Symbol, Tensor
from ninetoothed.backends.triton import emit
from ninetoothed.runtime import arguments as read, call_cache, dispatch, executable, fast_path, private, workspace
from ninetoothed.runtime.fast_path import FunctionBody, write_kernel
from ninetoothed.runtime.launching import through_triton
from ninetoothed.runtime.launching.code import POINTER, number
from ninetoothed.runtime.selection.machine import H200
from ninetoothed.schedule import Schedule, SplitK
from ninetoothed_ops.kernels import addmm, mm
from tests.ninetoothed.runtime.launched import loaded, loaded_for

INT, FLOAT = number(32, False, False), number(32, True, False)


class Chain:
    """As Triton's of hooks, which calls each of some functions."""

    def __init__(self):
        self.calls = []

    def __call__(self, metadata):
        for each in self.calls:
            each(metadata)


def settings():
    """Triton's, with hooks as they are where nobody watches."""
    return types.SimpleNamespace(launch_enter_hook=Chain(), launch_exit_hook=None)


def written(kernel, programs, arguments, stream):
    """A function that launches: texts among the arguments are expressions of `args`."""
    source = FunctionBody()
    write_kernel(source, kernel, programs, arguments, str(stream))
    launch = source.function()
    return lambda *args: launch(args, ())


@pytest.mark.parametrize(
    "taken, arguments, expected",
    (
        ((), (), ()),
        ((POINTER, INT, FLOAT), ("args[0]", "args[1]", "args[2]"), (64, -5, 0.5)),
        ((INT, POINTER, FLOAT, INT), (7, "args[0]", 1e300, "args[1]"), (7, 64, math.inf, -5)),
        ((FLOAT, number(8, False, False), number(64, False, True)), ("-1e300", True, 2**63), (-math.inf, 1, 2**63)),
        ((number(16, True, False), number(64, True, False)), ("args[2]", 0.1), (0.5, 0.1)),
        ((number(16, True, False, True), number(16, True, False, True)), ("-0.7", 0.3), (-0.69921875, 0.298828125)),
    ),
)
def test_values_arrive_whether_they_are_the_same_at_all_launches_or_not(taken, arguments, expected):
    kernel, driver = loaded(taken)
    launch = written(kernel, (3, 2, 1), arguments, 9)
    for _ in range(2):
        launch(64, -5, 0.5)
    assert driver.reached == [((3, 2, 1), 9, expected)] * 2


def test_launches_of_one_kernel_keep_to_themselves():
    kernel, driver = loaded((POINTER, INT))
    first, second = written(kernel, (3, 1, 1), ("args[0]", 5), 9), written(kernel, (4, 1, 1), ("args[0]", 6), 8)
    for address in (16, 32):
        first(address), second(address)
    assert driver.reached == [
        each for address in (16, 32) for each in (((3, 1, 1), 9, (address, 5)), ((4, 1, 1), 8, (address, 6)))
    ]


def test_a_thread_without_a_context_gets_one_and_other_failures_are_told(monkeypatch):
    contexts = []
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: contexts.append("made"))
    kernel, driver = loaded((POINTER,))
    launch = written(kernel, (1, 1, 1), ("args[0]",), 9)
    driver.statuses = [201, 201]
    launch(16)
    assert contexts == ["made"] and driver.reached[-1] == ((1, 1, 1), 9, (16,))
    driver.statuses = [700, 700]
    with pytest.raises(RuntimeError, match="could not launch kernel `kernel`: 700"):
        launch(16)
    launch(32)
    assert driver.reached[-1] == ((1, 1, 1), 9, (32,)) and contexts == ["made"]


def test_hooks_are_told_of_launches_while_they_watch():
    pytest.importorskip("triton")
    hooks, seen = settings(), []
    kernel, driver = loaded((POINTER,), hooks)
    launch = written(kernel, (1, 1, 1), ("args[0]",), 9)
    launch(16)
    chain = hooks.launch_enter_hook

    def enter(metadata):
        seen.append((metadata.get(), len(driver.reached)))

    def leave(metadata):
        seen.append(len(driver.reached))

    hooks.launch_exit_hook = leave
    launch(16)
    assert seen == [2]
    hooks.launch_enter_hook, hooks.launch_exit_hook = enter, None
    launch(16)
    assert seen[1:] == [({"name": "kernel", "function": 5, "stream": 9}, 2)]
    hooks.launch_enter_hook = chain
    launch(16)
    assert len(seen) == 2
    chain.calls.append(enter)
    launch(16)
    chain.calls.clear()
    launch(16)
    assert len(seen) == 3 and driver.reached == [((1, 1, 1), 9, (16,))] * 6


def test_what_our_launches_cannot_do_is_done_by_triton():
    hooks, reached = settings(), []
    kernel = types.SimpleNamespace(
        name="kernel",
        run=lambda *args: reached.append(args),
        function="function",
        packed_metadata="metadata",
        launch_metadata=lambda grid, stream, *args: (grid, stream, args),
    )
    launch = written(through_triton.ThroughTriton(kernel, hooks), (3, 1, 1), ("args[0]", 5, "args[1]"), 9)
    launch(16, 0.5)
    hooks.launch_enter_hook = hook = types.SimpleNamespace(calls=[print])
    launch(32, 0.5)
    assert reached == [
        (3, 1, 1, 9, "function", "metadata", None, None, None, 16, 5, 0.5),
        (3, 1, 1, 9, "function", "metadata", ((3, 1, 1), 9, (32, 5, 0.5)), hook, None, 32, 5, 0.5),
    ]


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
def test_all_fast_paths_launch_the_same(name, monkeypatch):
    kernel, arguments, constants, schedule = CALLS[name]
    monkeypatch.setattr(private, "current_device", lambda: 0)
    monkeypatch.setattr(private, "current_stream", lambda index: 7)
    monkeypatch.setattr(torch.cuda, "device", contextlib.nullcontext)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    block = torch.empty(2**20, dtype=torch.uint8)
    monkeypatch.setattr(torch, "empty_strided", lambda *args, **options: block)
    semaphores = workspace.Semaphores(torch.device("cpu"))
    monkeypatch.setattr(workspace, "_semaphores", lambda device: semaphores)
    monkeypatch.setattr(read, "device_of", lambda *args: torch.device("cuda", 0))  # numbers on the host are read there
    definition = dispatch.launcher_of(kernel).definition
    variant = dispatch.launcher_of(kernel).trace(arguments, constants, H200)
    emitted = emit(variant.program, schedule) if schedule else executable.emitted_for(variant)
    assert bool(emitted.buffers) == (name == "workspace") and bool(emitted.descriptors) == ("descriptors" in name)
    hooks, told = settings(), []
    loaded, driver = loaded_for(emitted, hooks)
    compiled = types.SimpleNamespace(emitted=emitted, on=lambda index: loaded)
    call = dispatch.BoundCall(arguments, tuple(constants.items()))
    place, variant = torch.device("cuda:0"), dataclasses.replace(variant, compiled=compiled)
    found = executable.plan_of(definition, variant, call, variant.selection.values, place)

    for number_ in range(2):
        assert fast_path.unguarded(found)(arguments, ())
        repeat = call_cache.guarded(arguments, call.constants, (), found)
        assert repeat(arguments, call.constants) and not repeat(arguments, ("other",))
        hooks.launch_exit_hook = told.append
        assert repeat(arguments, call.constants)
        hooks.launch_exit_hook = None
        first, *others = driver.reached
        assert others == [first] * 2 and len(told) == number_ + 1
        assert len(first[2]) >= len(emitted.arguments)
        addresses = [each.data_ptr() for each in arguments if isinstance(each, torch.Tensor) and each.ndim]
        values = [*map(str, first[2])]
        assert all(any(str(address) in each for each in values) for address in addresses)
        assert "scalar" not in name or 0.5 in first[2]
        driver.reached.clear()
