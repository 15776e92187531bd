"""Rebuild operations with other values, expressions and blocks: the base of passes that change or copy code.

A `Rewriter` replaces parts of operations: results keep their identity, and unchanged operations are kept:

    total = total + x                              total = total + scaled
    store(c[k], total)                        ->   store(c[k + 1], total)

A `Cloner` copies operations, with new results:

    total = total + x                              total_1 = total_0 + x_1
    store(c[k], total)                        ->   store(c[k + 1], total_1)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ninetoothed.expr import Expr
from ninetoothed.ir.nodes import (
    Access,
    Apply,
    Block,
    Breakpoint,
    Carried,
    Constant,
    For,
    If,
    Index,
    Lambda,
    Load,
    Loop,
    Operation,
    Outcome,
    Print,
    ScalarArgument,
    Store,
)
from ninetoothed.ir.values import Bindings, Value


def access_at(access: Access, at: Callable[[Expr], Expr]) -> Access:
    """Return an access with other expressions for its indices and guards."""
    guards = tuple(guard.at(at) for guard in access.guards)
    return replace(access, indices=tuple(map(at, access.indices)), guards=guards)


@dataclass(kw_only=True)
class Rewriter:
    """Rebuilds operations, with their blocks. Passes override the methods for the parts that they change.

    values: the replacements; a value that is not among them stays.
    """

    values: dict[Value, Value] = field(default_factory=dict)

    def block(self, block: Block) -> Block:
        """Return the operations in place of a block's."""
        return tuple(new for operation in block for new in self.operation(operation))

    def operation(self, operation: Operation) -> Block:
        """Return the operations in place of one."""
        return (self.rebuilt(operation),)

    def access(self, operation: Load | Store) -> Access:
        """Return the access in place of that of an operation."""
        return replace(access_at(operation.access, self.at), bindings=self.bindings(operation.access.bindings))

    def at(self, e: Expr) -> Expr:
        """Return the expression in place of another."""
        return e

    def new(self, value: Value) -> Value:
        """Return the value to define in place of a result or an argument."""
        return self.value(value)

    def value(self, value: Value) -> Value:
        """Return the value to read in place of another."""
        return self.values.get(value, value)

    def bindings(self, bindings: Bindings) -> Bindings:
        """Return the bindings in place of others."""
        return tuple((name, self.value(value)) for name, value in bindings)

    def function(self, function: Lambda) -> Lambda:
        """Return the function in place of one that merges parts of a loop."""
        arguments = self._all_new(function.arguments)
        return replace(function, arguments=arguments, body=self.block(function.body), yields=self._all(function.yields))

    def rebuilt(self, operation: Operation) -> Operation:
        """Return an operation with its parts replaced; the same object where nothing changes."""
        parts = self._parts(operation)
        is_same = all(getattr(operation, name) == part for name, part in parts.items())
        return operation if is_same else replace(operation, **parts)

    def _parts(self, operation: Operation) -> dict[str, Any]:
        """Return the replaced parts of an operation: those that it reads, then those that it defines."""
        match operation:
            case Constant(result=result) | ScalarArgument(result=result):
                return {"result": self.new(result)}
            case Index(expr=e, bindings=bindings, result=result):
                return {"expr": self.at(e), "bindings": self.bindings(bindings), "result": self.new(result)}
            case Load(result=result):
                return {"access": self.access(operation), "result": self.new(result)}
            case Store(value=value):
                return {"access": self.access(operation), "value": self.value(value)}
            case Apply(operands=operands, results=results):
                return {"operands": self._all(operands), "results": self._all_new(results)}
            case Loop():
                return self._parts_of_loop(operation)
            case If():
                return self._parts_of_branch(operation)
            case Print(pieces=pieces):
                return {"pieces": tuple(map(self._shown, pieces))}
            case Breakpoint(variables=variables):
                return {"variables": tuple((name, self._shown(item)) for name, item in variables)}
        raise AssertionError(f"no way to rebuild {type(operation).__name__}")

    def _parts_of_loop(self, loop: Loop) -> dict[str, Any]:
        parts: dict[str, Any] = {}
        if isinstance(loop, For):
            parts = {name: self.at(getattr(loop, name)) for name in ("start", "stop", "step")}
            parts["counters"] = tuple((name, self.at(e)) for name, e in loop.counters)
            parts["bindings"] = self.bindings(loop.bindings)
            parts["merge"] = loop.merge and self.function(loop.merge)
        entered = self._all(loop.initial), self._all_new(loop.arguments)
        parts["body"] = self.block(loop.body)
        parts["carried"] = Carried.of(*entered, self._all(loop.yields), self._all_new(loop.results))
        return parts

    def _parts_of_branch(self, branch: If) -> dict[str, Any]:
        parts = {
            "condition": self.value(branch.condition),
            "then_body": self.block(branch.then_body),
            "else_body": self.block(branch.else_body),
        }
        yields = self._all(branch.then_yields), self._all(branch.else_yields)
        return {**parts, "outcomes": Outcome.of(*yields, self._all_new(branch.results))}

    def _all(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(map(self.value, values))

    def _all_new(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(map(self.new, values))

    def _shown(self, item: Any) -> Any:
        """Replace what is printed or debugged where it is a value, and not a text or a number."""
        return self.value(item) if isinstance(item, Value) else item


@dataclass(kw_only=True)
class Cloner(Rewriter):
    """Copies operations, with new results. values: what the copies read in place of values."""

    def new(self, value: Value) -> Value:
        self.values[value] = Value(value.type, value.hint)
        return self.values[value]
