"""Tell the effects of operations: the memory that they write, and whether they must run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ninetoothed import ir
from ninetoothed.dtypes import PointerType
from ninetoothed.language.primitive import Effect


def has_effect(operation: ir.Operation) -> bool:
    """Tell whether an operation must run even if nothing reads its results."""
    match operation:
        case ir.Store() | ir.Print() | ir.Breakpoint():
            return True
        case ir.Apply():
            return operation.primitive.effect.must_run or _is_impure(operation)
    return any(has_effect(nested) for block in ir.blocks(operation) for nested in block)


def may_write(operations: Iterable[ir.Operation]) -> bool:
    """Tell whether some operation, in a nested block too, may change what memory holds."""
    return any(
        isinstance(operation, ir.Store)
        or (isinstance(operation, ir.Apply) and (operation.primitive.effect.writes or _is_impure(operation)))
        for operation in ir.walk(tuple(operations))
    )


def stored(operations: Iterable[ir.Operation]) -> frozenset[str]:
    """Collect the parameters that operations write to, through accesses or pointers, nested blocks aside."""
    found = set()
    for operation in operations:
        match operation:
            case ir.Store(access=access):
                found.add(access.parameter)
            case ir.Apply(operands=(pointer, *_)) if operation.primitive.effect.writes:
                if isinstance(pointer.type.dtype, PointerType):
                    found.add(pointer.type.dtype.parameter)
    return frozenset(found)


def touched(body: ir.Block) -> frozenset[str]:
    """Collect the parameters whose memory a block reads or writes."""
    return frozenset(access.parameter for access in _accesses(body)) | _pointed(body)


def _accesses(body: ir.Block) -> Iterator[ir.Access]:
    return (each.access for each in ir.walk(body) if isinstance(each, ir.Load | ir.Store))


def _pointed(body: ir.Block) -> frozenset[str]:
    applied = (each for each in ir.walk(body) if isinstance(each, ir.Apply))
    return frozenset(str(each.attribute("parameter")) for each in applied if each.function == "data_ptr")


def _is_impure(operation: ir.Apply) -> bool:
    return operation.primitive.effect is Effect.DECLARED and not operation.attribute("is_pure", False)
