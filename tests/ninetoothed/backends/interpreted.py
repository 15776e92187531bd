"""A pytest plugin under which kernels run as emitted Triton text, in Triton's interpreter, and not in PyTorch.

Load it with `-p` in a process of its own in which `TRITON_INTERPRET=1` was set from the start: Triton reads it when it
is imported. `interpret` runs one kernel so, whatever backend its launches use.
"""

import dataclasses
import functools
import os
from unittest import mock

import numpy
import torch

from ninetoothed import ir
from ninetoothed.backends import triton
from ninetoothed.backends.torch import libdevice
from ninetoothed.backends.torch.representation import from_memory, memory_dtype, to_memory
from ninetoothed.dtypes import BY_NAME, int1
from ninetoothed.language import LIBDEVICE
from ninetoothed.runtime import dispatch, executable
from ninetoothed.runtime.arguments import check
from ninetoothed.runtime.compilation.compile import write_module
from ninetoothed.runtime.compilation.target import target_of
from ninetoothed.runtime.jagged import bind
from ninetoothed.runtime.selection import machine, ranking
from ninetoothed.runtime.selection.pattern import pattern_of
from ninetoothed.runtime.selection.problem import aligned_tensors
from ninetoothed.runtime.sizes import measure
from ninetoothed.schedule import DataParallel, Persistent, Schedule, SplitK


class _WholeNumber(type):
    def __instancecheck__(cls, value):
        return isinstance(value, int)


class WholeNumber(metaclass=_WholeNumber):
    """`int`, of an array of one element too: Triton before 3.7 asks for that, and NumPy from 2.4 on refuses it."""

    def __new__(cls, value):
        return int(value.item() if isinstance(value, numpy.ndarray) else value)


@functools.cache
def mend():
    """Mend the interpreters of some versions of Triton."""
    from triton.runtime import interpreter

    # Older ones, on newer versions of NumPy.
    interpreter.int = WholeNumber
    # That of 3.9 gives `(a < b) & c` the type of `a`, and takes no mask of another type than bool.
    builder = interpreter.InterpreterBuilder
    builder.create_masked_load = _with_mask(builder.create_masked_load, 1)
    builder.create_masked_store = _with_mask(builder.create_masked_store, 2)
    builder.create_atomic_rmw = _with_mask(builder.create_atomic_rmw, 3)
    # It holds bfloat16 as integers of their bits, and 3.9 compares and multiplies these.
    extrema = ("create_maximumf", "create_maxnumf", "create_minimumf", "create_minnumf")
    for name in (*extrema, "create_fadd", "create_fsub", "create_fmul"):
        setattr(builder, name, _in_float32(getattr(builder, name)))


def _with_mask(create, place):
    """Wrap a method of the interpreter's that takes a mask at a place: it gets booleans."""

    @functools.wraps(create)
    def wrapped(self, *arguments, **options):
        mask = arguments[place]
        if not isinstance(mask, numpy.ndarray):  # as older ones pass that of a descriptor
            mask.data = mask.data.astype(numpy.bool_)
        return create(self, *arguments, **options)

    return wrapped


def _in_float32(create):
    """Wrap a method of the interpreter's for two operands: those of bfloat16 are computed in float32."""

    @functools.wraps(create)
    def wrapped(self, *operands):
        from triton.language import bfloat16, float32

        if operands[0].dtype.scalar != bfloat16:
            return create(self, *operands)
        wide = create(self, *(self.create_fp_ext(each, float32) for each in operands))
        return self.create_fp_trunc(wide, bfloat16)

    return wrapped


def load(emitted):
    """The kernel of an emitted module, for Triton's interpreter."""
    assert os.environ.get("TRITON_INTERPRET") == "1"
    mend()
    path = write_module(emitted.name, emitted.source)
    namespace = {"__name__": path.stem}
    exec(compile(emitted.source, str(path), "exec"), namespace)
    if "libdevice" in namespace:
        namespace["libdevice"] = Libdevice()
    return namespace[emitted.name]


def run(emitted, function, arguments, integers):
    """Run a kernel on arguments by parameter name."""
    values = {**arguments, **integers}
    for each in emitted.buffers:
        make = torch.zeros if each.is_zeroed else torch.empty
        values[each.name] = make(each.count.evaluate(integers), dtype=getattr(torch, each.dtype.name))
    passed = (
        described(a, values[a.source], integers) if a.role == "descriptor" else plain(a.role, values[a.source], a.dtype)
        for a in emitted.arguments
    )
    # Where programs take several tiles, two of them do, one after another.
    function[emitted.programs(integers, 2)](*passed)
    assert all(not values[each.name].any() for each in emitted.buffers if each.is_zeroed)


def described(argument, tensor, integers):
    from triton.tools.tensor_descriptor import TensorDescriptor

    sizes, strides = ([e.evaluate(integers) for e in expressions] for expressions in (argument.sizes, argument.strides))
    return TensorDescriptor(tensor.detach(), sizes, strides, list(argument.block))


def plain(role, value, dtype):
    """What the interpreter takes: tensors that no graph holds, integers, and floats that know their type."""
    if role == "pointer":
        return value.detach()
    value = value.item() if isinstance(value, torch.Tensor) else value
    if not dtype.is_floating:
        return scalar(numpy.array([value], "int64")) if role == "integer" and dtype.bits == 64 else int(value)
    return scalar(numpy.array([value], dtype.name if dtype.bits > 16 else "float32"))


def scalar(array):
    from triton import language as tl
    from triton.runtime.interpreter import TensorHandle

    dtype = getattr(tl, array.dtype.name)
    return tl.tensor(TensorHandle(array, dtype), dtype)


class Libdevice:
    """Triton's interpreter has none of its functions: those of the CPU's backend stand in."""

    def __getattr__(self, name):
        from triton import language as tl
        from triton.runtime.interpreter import TensorHandle

        row = LIBDEVICE[name].primitive

        def function(*operands):
            arrays = [operand.handle.data for operand in operands]
            types = [BY_NAME[array.dtype.name] for array in arrays]
            (target,) = row.gives(types)
            result = computed(name, [torch.from_numpy(array) for array in arrays], types, target)
            widest = max(operands, key=lambda operand: operand.handle.data.size)
            dtype = getattr(tl, target.name)
            type = tl.block_type(dtype, list(widest.shape)) if widest.type.is_block() else dtype
            return tl.tensor(TensorHandle(result, dtype), type)

        return function


def computed(name, tensors, types, target):
    """What a function of libdevice gives, as an array: predicates as 0 or 1."""
    held = [from_memory(tensor.view(memory_dtype(dtype)), dtype) for tensor, dtype in zip(tensors, types)]
    if name.startswith("fast_"):
        return libdevice.FAST[name](*held).numpy()
    result = to_memory(libdevice.of(name, held, types[0], target), target)
    return result.numpy() if target == int1 else result.numpy().view(target.name)


def interpret(kernel, arguments, gpu=machine.H200, blocks=None, **changes):
    """Call a kernel on CPU tensors as it would be emitted for a GPU; what was emitted.

    blocks: of a product, (rows, columns, depth). changes: fields of the schedule that differ from the one selected.
    """
    launcher = dispatch.Launcher(kernel.definition)
    with mock.patch.object(ranking, "candidates", _candidates(blocks) if blocks else ranking.candidates):
        variant = launcher.trace(arguments, {}, gpu)
    schedule = dataclasses.replace(executable.schedule_of(variant), **changes)
    emitted = triton.emit(variant.program, schedule, target_of(gpu))
    call, _ = check(kernel.definition, bind(kernel.definition, arguments, {}))
    names = [parameter.name for parameter in kernel.definition.parameters]
    run(emitted, load(emitted), dict(zip(names, call.arguments)), measure(launcher.plan, call))
    return emitted


def _candidates(blocks):
    def candidates(definition, specialisation, sizes, gpu):
        pattern = pattern_of(definition, specialisation)
        named = zip((pattern.rows, pattern.columns, pattern.depth), blocks, strict=True)
        return (Schedule(tuple(sorted(named)), use_tma=aligned_tensors(definition, specialisation)),)

    return candidates


@dataclasses.dataclass(eq=False)
class _Text:
    """The text of a program: plain, and with what GPUs are given; each is written once, where a call asks for it."""

    program: ir.Program

    @functools.cached_property
    def plain(self):
        return _loaded(triton.emit(self.program))

    @functools.cached_property
    def rich(self):
        """With tensor descriptors, and the first way of sharing that it has."""
        names = frozenset(parameter.name for parameter in self.program.parameters)
        for way in (Persistent(3), DataParallel(4), SplitK(3)):
            emitted = triton.emit(self.program, Schedule(use_tma=names, sharing=way))
            if emitted.persistent or emitted.coarsening > 1:
                break
        return _loaded(emitted)

    def __call__(self, arguments, integers):
        """Run with descriptors where what they describe is there and aligned, as on a GPU."""
        tensors = [value for value in arguments.values() if isinstance(value, torch.Tensor)]
        fits = all(tensor.numel() and tensor.data_ptr() % 16 == 0 for tensor in tensors)
        run(*(self.rich if fits else self.plain), arguments, integers)


def _loaded(emitted):
    return emitted, load(emitted)


def _compile(definition, variant):
    return _Text(variant.program)


def pytest_configure(config):
    executable.prepare_for_host = _compile
