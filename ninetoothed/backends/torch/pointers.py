"""Memory behind pointers: gathers, scatters and atomics. A pointer is an offset in elements within its parameter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from ninetoothed import dtypes, ir
from ninetoothed.backends.torch.algebra import evaluate
from ninetoothed.backends.torch.elementwise import maximum, minimum
from ninetoothed.backends.torch.program_slice import Memory, ProgramSlice
from ninetoothed.backends.torch.reductions import Tensors, scan
from ninetoothed.backends.torch.representation import SIGN, ElementType, Held, from_memory, number, to_memory, wrap
from ninetoothed.dtypes import PointerType
from ninetoothed.errors import ExecutionError


def _data_ptr(programs: ProgramSlice, operation: ir.Apply) -> int:
    return 0


@dataclass(frozen=True, eq=False)
class _Target:
    """The memory that an operation's pointers point to; `mask` selects pointers (None: all)."""

    memory: Memory
    offset: torch.Tensor
    mask: torch.Tensor | None


def _target(programs: ProgramSlice, operation: ir.Apply, mask: int) -> _Target:
    """Find the target of an operation; its operand number `mask`, if there is one, is the mask."""
    pointer = operation.operands[0]
    memory = programs.execution.memory[_parameter(pointer)]
    offset = programs.tensor(pointer)
    held = programs.values[operation.operands[mask]] if len(operation.operands) > mask else True
    chosen = None
    if held is not True:
        chosen = held if isinstance(held, torch.Tensor) else torch.zeros_like(offset, dtype=torch.bool)
    _check(programs, operation, memory, offset, chosen)
    return _Target(memory, offset, chosen)


def _parameter(pointer: ir.Value) -> str:
    """Name the parameter into which a pointer points."""
    assert isinstance(pointer.type.dtype, PointerType)
    return pointer.type.dtype.parameter


def _check(
    programs: ProgramSlice, operation: ir.Apply, memory: Memory, offset: torch.Tensor, mask: torch.Tensor | None
) -> None:
    outside = (offset < 0) | (offset >= memory.flat.numel())
    if mask is not None:
        outside = outside & mask
    if bool(outside.any()):
        where = tuple(outside.nonzero()[0].tolist())
        offsets = offset.expand_as(outside)
        name = _parameter(operation.operands[0])
        raise IndexError(
            f"{_program(programs, where)}: element {int(offsets[where])} of `{name}`, whose memory has "
            f"{memory.flat.numel()} elements from its first; mask what is out of bounds"
        )


def _program(programs: ProgramSlice, where: tuple[int, ...]) -> str:
    """Name the program of an element of a value."""
    indices = [start + (i if count > 1 else 0) for start, count, i in zip(programs.starts, programs.counts, where)]
    return f"program ({', '.join(map(str, indices))})"


def _load(programs: ProgramSlice, operation: ir.Apply) -> torch.Tensor:
    target = _target(programs, operation, 1)
    dtype = operation.result.type.dtype
    other: Held = programs.values[operation.operands[2]] if len(operation.operands) > 2 else number(0, dtype)
    if target.mask is None:
        return from_memory(target.memory.flat[target.offset], dtype)
    if target.memory.flat.numel() == 0:
        value = torch.full((1,) * target.mask.dim(), number(0, dtype), device=target.offset.device)
    else:
        value = from_memory(target.memory.flat[torch.where(target.mask, target.offset, 0)], dtype)
    return torch.where(target.mask, value, other)


def _store(programs: ProgramSlice, operation: ir.Apply) -> None:
    target = _target(programs, operation, 2)
    offset, (value,) = _selected(target, programs.tensor(operation.operands[1]))
    target.memory.flat[offset] = to_memory(value, operation.operands[1].type.dtype)


def _selected(target: _Target, *values: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Select the unmasked offsets and their values, in the order of programs, then lanes."""
    offset, mask, *whole = torch.broadcast_tensors(
        target.offset, torch.ones((), dtype=torch.bool, device="cpu") if target.mask is None else target.mask, *values
    )
    if target.mask is None:
        return offset.flatten(), [value.flatten() for value in whole]
    return offset[mask], [value[mask] for value in whole]


_COMBINE: dict[str, Callable] = {
    "atomic_add": lambda a, b: a + b,
    "atomic_and": lambda a, b: a & b,
    "atomic_or": lambda a, b: a | b,
    "atomic_xor": lambda a, b: a ^ b,
    "atomic_xchg": lambda a, b: b,
    "atomic_max": maximum,
    "atomic_min": minimum,
}


def _atomic(programs: ProgramSlice, operation: ir.Apply) -> torch.Tensor:
    """Apply an atomic for all programs at once, as if one after another, and return the old values.

    Updates of one address are sorted together; a scan over them gives the value that each finds.
    """
    target = _everywhere(programs, operation, _target(programs, operation, 2))
    dtype = operation.operands[1].type.dtype
    value = programs.whole(operation.operands[1])
    offset, (value,) = _selected(target, value)
    order = offset.argsort(stable=True)
    places, value = offset[order], value[order]
    flat = target.memory.flat
    old = torch.empty_like(value)
    if len(places):
        before = from_memory(flat[places], dtype)
        first = torch.ones_like(places, dtype=torch.bool)
        first[1:] = places[1:] != places[:-1]
        last = first.roll(-1)
        combined = _combined(operation.function, before, value, first, dtype)
        old[order] = torch.where(first, before, combined.roll(1))
        flat[places[last]] = to_memory(combined[last], dtype)
    if target.mask is None:
        return old.reshape(target.offset.shape)
    result = torch.zeros(target.mask.shape, dtype=old.dtype, device=old.device)
    result[target.mask] = old
    return result


def _everywhere(programs: ProgramSlice, operation: ir.Apply, target: _Target) -> _Target:
    """Expand a target to every program and lane: each performs the operation."""
    shape = (*programs.counts, *operation.operands[0].type.lanes)
    mask = None if target.mask is None else target.mask.expand(shape)
    return _Target(target.memory, target.offset.expand(shape), mask)


def _combined(
    function: str, before: torch.Tensor, value: torch.Tensor, first: torch.Tensor, dtype: ElementType
) -> torch.Tensor:
    """Compute the value after each update: a scan that restarts at the first update of each address."""
    combine = _COMBINE[function]
    if dtype == dtypes.uint64 and function in ("atomic_max", "atomic_min"):
        before, value = before ^ SIGN, value ^ SIGN

    def step(left: Tensors, right: Tensors) -> Tensors:
        # A segment that begins on the right takes nothing from the left.
        joined = wrap(combine(left[1], right[1]), dtype).to(right[1].dtype)
        return left[0] | right[0], torch.where(right[0], right[1], joined)

    started = torch.where(first, wrap(combine(before, value), dtype).to(value.dtype), value)
    combined = started if bool(first.all()) else scan((first, started), 0, step)[1]
    flipped = dtype == dtypes.uint64 and function in ("atomic_max", "atomic_min")
    return combined ^ SIGN if flipped else combined


def _atomic_cas(programs: ProgramSlice, operation: ir.Apply) -> torch.Tensor:
    """Compare and swap, one element after another: each may read what the one before wrote."""
    target = _everywhere(programs, operation, _target(programs, operation, 3))
    dtype = operation.result.type.dtype
    expected, value = (programs.whole(operand).flatten() for operand in operation.operands[1:3])
    offsets, flat = target.offset.flatten(), target.memory.flat
    old = torch.empty_like(value)
    for i, offset in enumerate(offsets.tolist()):
        old[i] = from_memory(flat[offset], dtype)
        if old[i] == expected[i]:
            flat[offset] = to_memory(value[i], dtype)
    return old.reshape(target.offset.shape)


def _device_assert(programs: ProgramSlice, operation: ir.Apply) -> None:
    condition = programs.tensor(operation.operands[0])
    if not bool(condition.all()):
        first = tuple((~condition).nonzero()[0].tolist())
        where, element = _program(programs, first), _element(programs, operation, first)
        place = f" ({operation.location})" if operation.location else ""
        raise ExecutionError(f"assertion failed in {where}{place}: {operation.attribute('message') or ''}{element}")


def _element(programs: ProgramSlice, operation: ir.Apply, where: tuple[int, ...]) -> str:
    """Name the element of the source that the lane of an assertion goes to, where it is known."""
    name, indices = operation.attribute("indices", ("", ()))
    lanes = [lane.name for lane in operation.operands[0].type.axes]
    starts = zip(programs.starts, programs.counts, where, strict=False)
    program = [start + (i if count > 1 else 0) for start, count, i in starts]
    axes = programs.execution.bound.plan.program.axes
    known = programs.integers | dict(zip(axes, program, strict=True))
    known |= dict(zip(lanes, where[programs.rank :], strict=True))
    if not indices or any(not index.variables <= known.keys() for index in indices):
        return ""
    return f", at {name}[{', '.join(str(int(evaluate(index, known))) for index in indices)}]"


POINTERS = {
    "data_ptr": _data_ptr,
    "load_pointer": _load,
    "store_pointer": _store,
    **dict.fromkeys(_COMBINE, _atomic),
    "atomic_cas": _atomic_cas,
    "device_assert": _device_assert,
    "debug_barrier": lambda programs, operation: None,
}
