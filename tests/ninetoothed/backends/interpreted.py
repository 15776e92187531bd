"""A pytest plugin under which kernels run as emitted Triton text, in Triton's interpreter, and not in PyTorch.

Load it with `-p` in a process of its own in which `TRITON_INTERPRET=1` was set from the start: Triton reads it when it
is imported. `interpret` runs one kernel so, whatever backend its launches use.
"""

import functools
import os

import numpy
import torch

from ninetoothed.backends import triton
from ninetoothed.runtime import device, launch, prepared, specialise
from ninetoothed.runtime.compile import write_module


class _WholeNumber(type):
    def __instancecheck__(cls, value):
        return isinstance(value, int)


class WholeNumber(metaclass=_WholeNumber):
    """`int`, of an array of one element too: Triton before 3.7 asks for that, and NumPy from 2.4 on refuses it."""

    def __new__(cls, value):
        return int(value.item() if isinstance(value, numpy.ndarray) else value)


def allow_arrays_of_one():
    """Let older interpreters of Triton run on newer versions of NumPy."""
    from triton.runtime import interpreter

    interpreter.int = WholeNumber


def load(emitted):
    """The kernel of an emitted module, for Triton's interpreter."""
    assert os.environ.get("TRITON_INTERPRET") == "1"
    allow_arrays_of_one()
    path = write_module(emitted.name, emitted.source)
    namespace = {"__name__": path.stem}
    exec(compile(emitted.source, str(path), "exec"), namespace)
    if "libdevice" in namespace:
        namespace["libdevice"] = Libdevice()
    return namespace[emitted.name]


def run(emitted, function, arguments, integers):
    """Run a kernel on arguments by parameter name."""
    values = {**arguments, **integers}
    function[(emitted.programs(integers),)](*(plain(a.kind, values[a.source], a.dtype) for a in emitted.arguments))


def plain(kind, value, dtype):
    """What the interpreter takes: tensors that no graph holds, integers, and floats that know their type."""
    if kind == "pointer":
        return value.detach()
    value = value.item() if isinstance(value, torch.Tensor) else value
    if not dtype.is_floating:
        return int(value)
    return scalar(numpy.array([value], dtype.name if dtype.bits > 16 else "float32"))


def scalar(array):
    from triton import language as tl
    from triton.runtime.interpreter import TensorHandle

    dtype = getattr(tl, array.dtype.name)
    return tl.tensor(TensorHandle(array, dtype), dtype)


class Libdevice:
    """Triton's interpreter has none of its functions: PyTorch's stand in."""

    def __getattr__(self, name):
        from triton import language as tl
        from triton.runtime.interpreter import TensorHandle

        def function(*operands):
            arrays = [torch.from_numpy(operand.handle.data) for operand in operands]
            result = getattr(torch, name)(*arrays).numpy()
            return tl.tensor(TensorHandle(result, operands[0].handle.dtype), operands[0].type)

        return function


def interpret(kernel, arguments, gpu=device.H200):
    """Call a kernel on CPU tensors as it would be emitted for a GPU; what was emitted."""
    launcher = launch.launcher_of(kernel)
    program = launcher.trace(arguments, {}, gpu).program
    emitted = triton.emit(program)
    call, _ = launcher._checked(arguments, {})
    names = [parameter.name for parameter in kernel.definition.parameters]
    run(emitted, load(emitted), dict(zip(names, call.arguments)), specialise.measure(launcher.plan, call))
    return emitted


def _compile(definition, variant):
    emitted = triton.emit(variant.program)
    return functools.partial(run, emitted, load(emitted))


def pytest_configure(config):
    prepared.Evaluation.compile = staticmethod(_compile)
