"""Host time of launches, without a GPU: calls on CPU tensors, as for an H200 on which launching a kernel does nothing.

    python -m benchmarks.host [--rounds N]

Of a call like earlier ones: the fast path as it is, which is source text compiled for the call, and closures that do
the same. Of a call that differs: a kernel's call whose size is new, in a class of calls that is not. What is compared
takes turns; the shortest of the rounds counts, in microseconds of this thread, so that other work disturbs little.
"""

import argparse
import contextlib
import ctypes
import functools
import importlib
import sys
import time
import types
from unittest import mock

import torch

from benchmarks import tasks
from benchmarks.cpu import positive
from benchmarks.report import table
from ninetoothed.runtime import arguments, call_cache, executable, private
from ninetoothed.runtime.compilation import parameters
from ninetoothed.runtime.dispatch import Launcher
from ninetoothed.runtime.launch_plan import ReplayedFunction
from ninetoothed.runtime.launch_steps import TensorAddress
from ninetoothed.runtime.launching.code import LoadedCode, MachineCode
from ninetoothed.runtime.launching.driver import Driver
from ninetoothed.runtime.selection import machine
from ninetoothed_ops import kernels
from ninetoothed_ops.registration import OPERATORS

NAMES = ("silu", "conv2d")
DEVICE = torch.device("cuda", 0)
# Sizes of one class of calls: multiples of 16 that round up to the same.
SIZES = range(4112, 5120, 16)
BURST = 300


class Unlaunched(Driver):
    """Stand for CUDA's driver, and launch nothing."""

    def __init__(self):
        pass

    def launcher(self, memory, start, function, parameters):
        return int

    def encode(self, encoding, address, sizes, strides):
        return bytes(128)


class Uncompiled:
    """Stand for a compiled kernel of which only the text was emitted."""

    spills = 0

    def __init__(self, emitted):
        self.emitted = emitted

    def on(self, device):
        described = [
            {"swizzle": 0, "elem_size": 2, "elem_type": 6, "block_size": each.block}
            for each in self.emitted.descriptors
        ]
        taken = tuple(parameters.parameters(self.emitted, types.SimpleNamespace(tensordesc_meta=described)))
        code = MachineCode(self.emitted.name, self.emitted.name, taken, 128, 0, b"", "nothing")
        hooks = types.SimpleNamespace(launch_enter_hook=None, launch_exit_hook=None)
        return LoadedCode(code, Unlaunched(), ctypes.c_void_p(1), hooks)


@contextlib.contextmanager
def without_a_gpu():
    """Let calls on CPU tensors be those on a GPU."""
    check = arguments.check
    stand_ins = (
        (machine, "current", lambda device=None: machine.H200),
        (arguments, "check", lambda definition, call: (check(definition, call)[0], DEVICE)),
        (executable, "compile_for_gpu", lambda definition, variant: Uncompiled(executable.emitted_for(variant))),
        (torch.cuda, "device", contextlib.nullcontext),
        (private, "current_device", lambda: DEVICE.index),
        (private, "current_stream", lambda device: 0),
    )
    with contextlib.ExitStack() as stack:
        for name in NAMES:
            # Kernels that were compiled before would be launched, and those made here are for no other calls.
            make = importlib.import_module(f"ninetoothed_ops.kernels.{name}").make
            make = getattr(make, "func", make)
            make.cache_clear()
            stack.callback(make.cache_clear)
        for owner, name, stand_in in stand_ins:
            stack.enter_context(mock.patch.object(owner, name, stand_in))
        yield


def closure_of_launch(step, device):
    """Do by a closure what `fast_path` writes of a `Launch`: launch a kernel on these addresses."""
    kernel, table, current_stream = step.kernel, step.table, private.current_stream
    count = 0 if table is None else len(table.shapes)
    # Where addresses are from, and all that the kernel takes, None for what each launch gives.
    places = [each for each in step.passed if isinstance(each, TensorAddress)]
    described = [each for sizes, strides in (table.shapes if count else ()) for each in (None, *sizes, *strides)]
    others = [None if isinstance(each, TensorAddress) else each for each in step.passed[count:]]
    prepared, hooks = kernel.prepare(step.programs, [*described, *others]), kernel.hooks

    def launch_on(addresses):
        values = [addresses[number] + offset for number, offset in places]
        if count:
            key = tuple(values[:count])
            values[:count] = table.known.get(key) or table.make(key)
        stream, status = current_stream(device), None
        enter, leave = hooks.launch_enter_hook, hooks.launch_exit_hook
        if not (getattr(enter, "calls", enter) or getattr(leave, "calls", leave)):
            memory, at, call = slot = prepared.spare.pop()
            prepared.pack(memory, at, stream, *values)
            status = call()
            prepared.spare.append(slot)
        if status != 0:
            prepared.launch(stream, *values)

    return launch_on


def closure_of(args, names, plan):
    """Do by a closure what the fast path of a launch plan of one output does."""
    count, constants, device, precision = len(args), names, plan.device, plan.precision
    tensors = [i for i, value in enumerate(args) if isinstance(value, torch.Tensor)]
    others = [(i, type(value), value) for i, value in enumerate(args) if i not in tensors]
    is_like = private.tensor_guard([args[i] for i in tensors])
    used = {each.number for step in plan.steps for each in step.passed if isinstance(each, TensorAddress)}
    allocations = [
        (number, functools.partial(torch.empty_strided, each.size, each.stride, dtype=each.dtype, device=each.device))
        for number, each in enumerate(plan.allocations, count)
        if number == count or number in used
    ]
    places = count + len(plan.allocations)
    steps = [closure_of_launch(step, device) for step in plan.steps]
    current_device, current_precision = private.current_device, private.matmul_precision

    def fast_path(args, names):
        if len(args) != count or names != constants or not is_like(*[args[i] for i in tensors]):
            return None
        for i, kind, value in others:
            if type(args[i]) is not kind or args[i] != value:
                return None
        if precision is not None and current_precision() != precision:
            return None
        addresses = [0] * places
        for i in tensors:
            address = addresses[i] = args[i].data_ptr()
            if address % arguments.ALIGNMENT:
                return None
        if current_device() != device:
            with torch.cuda.device(device):
                return fast_path(args, names)
        made = []
        for number, allocate in allocations:
            tensor = allocate()
            made.append(tensor)
            addresses[number] = tensor.data_ptr()
        for launch_on in steps:
            launch_on(addresses)
        return made[0]

    return fast_path


def hits(name):
    """`{form: function}` of the forms in which a call of an operator is repeated, and of the call itself."""
    op = OPERATORS[f"ninetoothed::{name}"]
    args, _ = tasks.arguments(tasks.load(name), "quick", torch.float16, "cpu")
    replayed = ReplayedFunction(op.allocate, op.launch)
    for _ in range(4):
        replayed(*args)
    plan = replayed.calls.find(args, ())
    text, closure = call_cache.guarded(args, (), None, plan), closure_of(args, (), plan)
    assert text(args, ()).shape == closure(args, ()).shape
    return {"text": lambda: text(args, ()), "closures": lambda: closure(args, ()), "call": lambda: replayed(*args)}


def misses():
    """A function that calls a kernel with sizes that are new, and the number of these calls."""
    launcher = Launcher(kernels.silu.make().definition)
    calls = [(torch.empty(size, dtype=torch.float16), torch.empty(size, dtype=torch.float16)) for size in SIZES]

    def run():
        launcher._forget()
        for args in calls:
            launcher(args, {})

    run()
    assert len(launcher.variants) == 1
    return run, len(calls)


def microseconds(call, repetitions):
    start = time.thread_time()
    for _ in range(repetitions):
        call()
    return 1e6 * (time.thread_time() - start) / repetitions


def shortest(calls, rounds, repetitions=BURST):
    """`{name: microseconds}` of each call, the shortest of the rounds in which they take turns."""
    samples = [{name: microseconds(call, repetitions) for name, call in calls.items()} for _ in range(rounds)]
    return {name: min(sample[name] for sample in samples) for name in calls}


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.host", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=positive, default=100, help="how often each takes its turn")
    rounds = parser.parse_args(arguments).rounds

    with torch.inference_mode(), without_a_gpu():
        times = {name: shortest(hits(name), rounds) for name in NAMES}
        run, count = misses()
        miss = shortest({"miss": run}, rounds, 1)["miss"] / count
    rows = [(name, *(f"{each[form]:.2f}" for form in ("text", "closures", "call"))) for name, each in times.items()]
    print(f"PyTorch {torch.__version__}, Python {sys.version.split()[0]}, shortest of {rounds} rounds, microseconds\n")
    print(table(("operator", "fast path, text", "fast path, closures", "whole call"), rows))
    print(f"\na new size in a known class of calls, silu: {miss:.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
