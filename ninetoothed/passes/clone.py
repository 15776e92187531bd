"""Operations once more, with results of their own: what a pass does where a block is to stand in two places."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ninetoothed import ir
from ninetoothed.expr import Expr


@dataclass(kw_only=True)
class Copies:
    """Copies of straight-line operations, made in their order. values: what is read instead of others."""

    values: dict[ir.Value, ir.Value] = field(default_factory=dict)

    def block(self, block: ir.Block) -> ir.Block:
        return tuple(map(self.operation, block))

    def operation(self, operation: ir.Operation) -> ir.Operation:
        match operation:
            case ir.Constant(result=result) | ir.ScalarArgument(result=result):
                return replace(operation, result=self.new(result))
            case ir.Index(result=result, expr=e, bindings=bindings):
                return replace(operation, result=self.new(result), expr=self.at(e), bindings=self.bound(bindings))
            case ir.Load(result=result):
                return replace(operation, access=self.access(operation), result=self.new(result))
            case ir.Store(value=value):
                return replace(operation, access=self.access(operation), value=self.value(value))
            case ir.Apply(operands=operands, results=results):
                operands = tuple(map(self.value, operands))
                return replace(operation, operands=operands, results=tuple(map(self.new, results)))
        raise AssertionError(f"{operation!r} is not to be repeated")

    def access(self, operation: ir.Load | ir.Store) -> ir.Access:
        return replace(operation.access, bindings=self.bound(operation.access.bindings))

    def at(self, e: Expr) -> Expr:
        """What stands for an integer expression."""
        return e

    def new(self, value: ir.Value) -> ir.Value:
        self.values[value] = ir.Value(value.type, value.hint)
        return self.values[value]

    def value(self, value: ir.Value) -> ir.Value:
        return self.values.get(value, value)

    def bound(self, bindings: ir.Bindings) -> ir.Bindings:
        return tuple((name, self.value(value)) for name, value in bindings)
