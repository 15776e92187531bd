"""Operations once more: with other operands, expressions and results. Every pass that repeats code builds on this.

total = total + x                              total_1 = total_0 + x_1
store(c[k], total)                        ->   store(c[k + 1], total_1)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ninetoothed import ir
from ninetoothed.expr import Expr
from ninetoothed.lowering import Guard

OfValue = Callable[[ir.Value], ir.Value]
OfExpr = Callable[[Expr], Expr]


def bound(bindings: ir.Bindings, value: OfValue) -> ir.Bindings:
    """The bindings with other values behind their names."""
    return tuple((name, value(old)) for name, old in bindings)


def guard_at(guard: Guard, at: OfExpr) -> Guard:
    return replace(guard, index=at(guard.index), size=at(guard.size))


def access_at(access: ir.Access, at: OfExpr) -> ir.Access:
    """An access with other expressions for its indices and guards."""
    guards = tuple(guard_at(guard, at) for guard in access.guards)
    return replace(access, indices=tuple(map(at, access.indices)), guards=guards)


def with_operands(operation: ir.Operation, value: OfValue) -> ir.Operation:
    """An operation that reads other values; loops and branches, whose blocks read values too, are not for this."""

    def shown(item: Any) -> Any:
        if isinstance(item, tuple):
            return tuple(map(shown, item))
        return value(item) if isinstance(item, ir.Value) else item

    match operation:
        case ir.Constant() | ir.ScalarArgument():
            return operation
        case ir.Index(bindings=bindings):
            return replace(operation, bindings=bound(bindings, value)) if bindings else operation
        case ir.Load(access=access):
            return replace(operation, access=replace(access, bindings=bound(access.bindings, value)))
        case ir.Store(access=access, value=stored):
            access = replace(access, bindings=bound(access.bindings, value))
            return replace(operation, access=access, value=value(stored))
        case ir.Apply(operands=operands):
            return replace(operation, operands=tuple(map(value, operands)))
        case ir.Print(pieces=pieces):
            return replace(operation, pieces=shown(pieces))
        case ir.Breakpoint(variables=variables):
            return replace(operation, variables=tuple((name, shown(item)) for name, item in variables))
    raise AssertionError(f"{operation!r} is not to be repeated")


def with_results(operation: ir.Operation, new: OfValue) -> ir.Operation:
    """An operation that defines other values."""
    match operation:
        case ir.Constant(result=result) | ir.ScalarArgument(result=result) | ir.Index(result=result):
            return replace(operation, result=new(result))
        case ir.Load(result=result):
            return replace(operation, result=new(result))
        case ir.Apply(results=results):
            return replace(operation, results=tuple(map(new, results)))
    return operation


@dataclass(kw_only=True)
class Cloner:
    """Clones straight-line operations, in their order, with results of their own. values: what clones read instead."""

    values: dict[ir.Value, ir.Value] = field(default_factory=dict)

    def block(self, block: ir.Block) -> ir.Block:
        return tuple(map(self.operation, block))

    def operation(self, operation: ir.Operation) -> ir.Operation:
        clone = with_results(with_operands(operation, self.value), self.new)
        match operation, clone:
            case ir.Index(expr=e), ir.Index():
                return replace(clone, expr=self.at(e))
            case ir.Load() | ir.Store(), ir.Load() | ir.Store():
                return replace(clone, access=self.access(operation))
        return clone

    def access(self, operation: ir.Load | ir.Store) -> ir.Access:
        access = operation.access
        return replace(access_at(access, self.at), bindings=bound(access.bindings, self.value))

    def at(self, e: Expr) -> Expr:
        """The expression that stands for `e` in a clone."""
        return e

    def new(self, value: ir.Value) -> ir.Value:
        """A value of its own for a result."""
        self.values[value] = ir.Value(value.type, value.hint)
        return self.values[value]

    def value(self, value: ir.Value) -> ir.Value:
        """The value that a clone reads in place of an operand."""
        return self.values.get(value, value)
