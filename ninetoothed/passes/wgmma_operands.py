"""Pass: keep left operands of wgmma in shared memory where a loop over products does not change them.

    scaled = query * scale
    for k in range(steps):
        total = dot(scaled, key[k]) + total
->  scaled = query * scale
    scaled = inline_asm_elementwise("mov.b32 $0, $1;", scaled)
    for k in range(steps):
        total = dot(scaled, key[k]) + total

Triton would hold such an operand in registers all through the loop, and ptxas before CUDA 13.3 overwrites them: such a
kernel is compiled without wgmma (see `runtime/build/ptx.py`). It cannot see through the assembly, keeps its result in
shared memory, and reads that in every round. Operands that are used as they were loaded are in shared memory anyway.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ninetoothed import ir
from ninetoothed.passes.operations import Inserter, is_dot
from ninetoothed.passes.products import Feed, Feeds

_REGISTER = 32  # bits


def keep_in_shared_memory(program: ir.Program) -> ir.Program:
    """Keep products from holding left operands in registers for a whole loop."""
    feeds = Feeds(program.body)
    loops = (operation for operation in ir.walk(program.body) if isinstance(operation, ir.Loop))
    operands = (value for loop in loops for value in _unchanged(loop) if not any(map(_is_viewed, feeds.of(value))))
    moved = {value: ir.Value(value.type, value.hint) for value in operands if _REGISTER >= value.type.dtype.bits}
    after = {value: [_move(value, new)] for value, new in moved.items()}
    products = [o for o in ir.walk(program.body) if is_dot(o) and o.operands[0] in moved]
    new: dict[ir.Operation, ir.Operation] = {
        each: replace(each, operands=(moved[each.operands[0]], *each.operands[1:])) for each in products
    }
    return replace(program, body=Inserter(instead=new, after=after).block(program.body))


def _move(value: ir.Value, new: ir.Value) -> ir.Apply:
    attributes = {"asm": "mov.b32 $0, $1;", "constraints": "=r,r", "is_pure": False}
    attributes["pack"] = _REGISTER // value.type.dtype.bits
    return ir.Apply((new,), "inline_asm_elementwise", (value,), tuple(attributes.items()))


def _unchanged(loop: ir.Loop) -> Iterator[ir.Value]:
    """Yield the left operands of a loop's products that are defined before it."""
    inside = [operation for block in ir.blocks(loop) for operation in ir.walk(block)]
    defined = {value for operation in (loop, *inside) for value in _defined_in(operation)}
    products = (operation for operation in inside if isinstance(operation, ir.Apply) and is_dot(operation))
    yield from (product.operands[0] for product in products if product.operands[0] not in defined)


def _defined_in(operation: ir.Operation) -> tuple[ir.Value, ...]:
    return (*ir.results(operation), *getattr(operation, "arguments", ()))


def _is_viewed(feed: Feed) -> bool:
    """Tell whether a value is loaded, and at most viewed otherwise."""
    return feed.load is not None and all(step.primitive.is_view for step in feed.path)
