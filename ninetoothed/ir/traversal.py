"""Walk over operations: their blocks, the values that they read, and those that they define."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ninetoothed.expr import Expr
from ninetoothed.ir.nodes import (
    Apply,
    Block,
    Breakpoint,
    Constant,
    For,
    If,
    Index,
    Lambda,
    Load,
    Loop,
    Operation,
    Print,
    ScalarArgument,
    Store,
    While,
)
from ninetoothed.ir.values import Value


def blocks(operation: Operation) -> tuple[Block, ...]:
    """Return the blocks nested directly in an operation."""
    match operation:
        case Loop(body=body):
            return (body,)
        case If(then_body=then_body, else_body=else_body):
            return (then_body, else_body)
    return ()


Region = tuple[Block, tuple[Value, ...], tuple[Value, ...]]


def regions(operation: Operation) -> tuple[Region, ...]:
    """Return the blocks of a loop, a branch or a combining function, each with its arguments and its yields."""
    match operation:
        case Loop(body=body, arguments=arguments, yields=yields):
            return ((body, arguments, yields),)
        case If(then_body=then, then_yields=then_yields, else_body=other, else_yields=else_yields):
            return (then, (), then_yields), (other, (), else_yields)
        case Apply() if isinstance(combine := operation.attribute("combine"), Lambda):
            return ((combine.body, combine.arguments, combine.yields),)
    return ()


def walk(block: Block) -> Iterator[Operation]:
    """Yield every operation of a block in program order, nested ones after their parent."""
    for operation in block:
        yield operation
        for nested in blocks(operation):
            yield from walk(nested)


def expressions(operation: Operation) -> tuple[Expr, ...]:
    """Return the integer expressions that an operation evaluates."""
    match operation:
        case Index(expr=e):
            return (e,)
        case Load(access=access) | Store(access=access):
            return access.expressions
        case For(start=start, stop=stop, step=step, counters=counters):
            return start, stop, step, *(e for _, e in counters)
    return ()


def integers(operation: Operation) -> frozenset[str]:
    """Return the names in an operation's expressions that are known outside it: no lanes and no bound values."""
    own = operation.access if isinstance(operation, Load | Store) else operation
    local = {lane.name for lane in getattr(own, "lanes", ())} | {name for name, _ in getattr(own, "bindings", ())}
    local |= {operation.variable} if isinstance(operation, For) else set()
    return frozenset().union(*(e.variables for e in expressions(operation))) - local


def operands(operation: Operation) -> tuple[Value, ...]:
    """Return the values that an operation reads, and the yields of its blocks, but not what the blocks read inside."""
    match operation:
        case Index(bindings=bindings):
            return tuple(value for _, value in bindings)
        case Apply(operands=values):
            return values
        case Load(access=access):
            return tuple(value for _, value in access.bindings)
        case Store(access=access, value=value):
            return (*(bound for _, bound in access.bindings), value)
        case Loop():
            return (*reads(operation), *operation.yields)
        case If():
            return (operation.condition, *operation.then_yields, *operation.else_yields)
        case Print(pieces=pieces):
            return tuple(piece for piece in pieces if isinstance(piece, Value))
        case Breakpoint(variables=variables):
            return tuple(value for _, value in variables if isinstance(value, Value))
    return ()


def controls(operation: Operation) -> tuple[Value, ...]:
    """Return the values that an operation reads, or by which a loop or a branch decides what it does."""
    match operation:
        case For(bindings=bindings):
            return tuple(value for _, value in bindings)
        case While(condition=condition) | If(condition=condition):
            return (condition,)
    return operands(operation)


def reads(operation: Operation) -> tuple[Value, ...]:
    """Return the values that an operation reads in its own block: without yields, which nested blocks read."""
    match operation:
        case For():
            return (*controls(operation), *operation.initial)
        case Loop():
            return operation.initial
    return controls(operation)


def results(operation: Operation) -> tuple[Value, ...]:
    """Return the values that an operation defines for the operations after it."""
    match operation:
        case Constant(result=result) | ScalarArgument(result=result) | Index(result=result) | Load(result=result):
            return (result,)
        case Apply(results=values) | Loop(results=values) | If(results=values):
            return values
    return ()


def bottom_up(
    value: Value, known: dict[Value, Any], inputs: Callable[[Value], Iterable[Value]], rule: Callable[[Value], Any]
) -> Any:
    """Return `known[value]`: what `rule` says of it, and first of all of its `inputs`, where that is not known yet."""
    pending = [value]
    while pending:
        last = pending[-1]
        missing = [] if last in known else [each for each in inputs(last) if each not in known]
        if not missing:
            pending.pop()
            known[last] = known[last] if last in known else rule(last)
        pending += missing
    return known[value]
