"""Facts about operations and blocks that several passes ask for."""

from __future__ import annotations

from ninetoothed import ir
from ninetoothed.language.primitives import ELEMENTWISE

# Each lane of the result needs the same lane of the operands alone, wherever else the operation is computed.
LANEWISE = ELEMENTWISE - {
    *("assign", "inline_asm_elementwise", "load_pointer", "rand", "randint", "randint4x", "randn")
} | {"broadcast", "full"}
REDUCTIONS = frozenset({"sum", "max", "min", "xor_sum", "argmax", "argmin"})
SCANS = frozenset({"cumsum", "cumprod"})
# Show their operand from another side: repeating them costs nothing, wherever they are used.
VIEWS = frozenset({"full", "broadcast", "expand_dims", "data_ptr"})
# Must stay where they are and be computed once: they read or write memory, or their order matters.
ORDERED = frozenset({"load_pointer", "store_pointer", "device_assert", "debug_barrier", "inline_asm_elementwise"})


def is_ordered(operation: ir.Operation) -> bool:
    """Whether an operation must stay where it is: it touches memory, has an effect, or holds blocks."""
    if isinstance(operation, ir.Apply):
        return operation.function in ORDERED or operation.function.startswith("atomic_")
    return not isinstance(operation, ir.Constant | ir.ScalarArgument | ir.Index)


def is_dot(operation: ir.Operation) -> bool:
    return isinstance(operation, ir.Apply) and operation.function == "dot"


def producers(block: ir.Block) -> dict[ir.Value, ir.Operation]:
    """The operation that defines each value of a block, and of the blocks nested in it."""
    return {result: operation for operation in ir.walk(block) for result in ir.results(operation)}


def readers(block: ir.Block) -> dict[ir.Value, list[ir.Operation]]:
    """The operations that read each value of a block, yields of nested blocks aside."""
    found: dict[ir.Value, list[ir.Operation]] = {}
    for operation in ir.walk(block):
        for value in ir.reads(operation):
            found.setdefault(value, []).append(operation)
    return found
