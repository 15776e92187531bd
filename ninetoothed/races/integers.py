"""Read computed integers back as expressions of the program, of loop counters and of lanes."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from ninetoothed import ir
from ninetoothed.arrangement.guards import Guard
from ninetoothed.dtypes import DType, PointerType, int1
from ninetoothed.expr import Expr, Facts, Range, Var, const, is_nonnegative, maximum, minimum, var
from ninetoothed.ir.lanes import forwards
from ninetoothed.ir.traversal import bottom_up


def _is_less(a: Expr, b: Expr) -> Expr:
    return minimum(maximum(b - a, 0), 1)


def _is_other(a: Expr, b: Expr) -> Expr:
    return minimum((a - b) * (a - b), 1)


# What primitives of integers compute; a condition is 0 or 1.
_FORMS: dict[str, Callable[..., Expr]] = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "neg")},
    "assign": lambda old, value: value,
    "maximum": maximum,
    "minimum": minimum,
    "lt": _is_less,
    "le": lambda a, b: _is_less(a, b + 1),
    "gt": lambda a, b: _is_less(b, a),
    "ge": lambda a, b: _is_less(b, a + 1),
    "ne": _is_other,
    "eq": lambda a, b: 1 - _is_other(a, b),
    "where": lambda condition, a, b: b if a == b else condition * a + (1 - condition) * b,
}
_LOGIC: dict[str, Callable[..., Expr]] = {
    "and": lambda a, b: a * b,
    "or": maximum,
    "xor": _is_other,
    "invert": lambda a: 1 - a,
}
_DIVISIONS: dict[str, Callable[[Expr, Expr], Expr]] = {"floordiv": operator.floordiv, "mod": operator.mod}
# Expressions of more letters have a name.
LONGEST = 4000
# Conditions as guards on one number; the other side of each.
_COMPARED = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}


@dataclass
class Integers:
    """The expressions of computed integers; what cannot be read back, loaded or computed, has a name of its own.

    loaded: the values that names stand for. counters: those of loops, by the rounds. carried: loop-carried variables,
    each with its loop's round. ranges: what the frontend knows of names, as that a remainder is not negative.
    """

    producers: Mapping[ir.Value, ir.Operation]
    facts: Facts
    loaded: dict[str, ir.Value] = field(default_factory=dict)
    counters: dict[str, Expr] = field(default_factory=dict)
    carried: dict[ir.Value, tuple[ir.Carried, str]] = field(default_factory=dict)
    ranges: dict[str, Range] = field(default_factory=dict)
    _known: dict[ir.Value, Expr] = field(default_factory=dict)
    _names: dict[ir.Value, str] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def expr_of(self, value: ir.Value) -> Expr:
        """Return the expression of a value, in the variables of its lanes; of a pointer, how many elements it is on.

        It is counted from the first of the pointer's parameter.
        """
        return bottom_up(value, self._known, self._operands, self._named)

    def _named(self, value: ir.Value) -> Expr:
        found = self._read(value)
        return self.name(value) if found is None or len(found.text) > LONGEST else found

    def _operands(self, value: ir.Value) -> tuple[ir.Value, ...]:
        """Return what is read before a value."""
        operation = self.producers.get(value)
        operands = operation.operands if isinstance(operation, ir.Apply) else ()
        numbers = tuple(each for each in operands if _is_integer(each) or _is_pointer(each))
        return numbers if _is_pointer(value) or (_is_integer(value) and numbers == operands) else ()

    def within(self, e: Expr, bindings: ir.Bindings) -> Expr:
        """Put the expressions of bound values for their names, and of rounds for counters."""
        bound = {name: self.expr_of(value) for name, value in bindings if name in e.variables}
        for name, own in bound.items():
            if isinstance(own.sole_atom, Var) and own.sole_atom.name in self.loaded:
                self.ranges[own.sole_atom.name] = self.facts.range_of(name)
        return e.subs({**self.counters, **bound})

    def has_loaded(self, e: Expr) -> bool:
        """Tell whether an expression depends on a number that was not read back."""
        return not e.variables.isdisjoint(self.loaded)

    def guards(self, condition: ir.Value, holds: bool) -> tuple[Guard, ...] | None:
        """Return the guards under which a condition holds, or fails; None where they cannot be read."""
        match self.producers.get(condition):
            case ir.Apply(function=name, operands=(a, b)) if name in ("and", "or"):
                sides = [self.guards(each, holds) for each in (a, b)]
                if (name == "and") == holds and None not in sides:
                    return tuple(guard for side in sides if side is not None for guard in side)
            case ir.Apply(function="invert", operands=(operand,)):
                return self.guards(operand, not holds)
            case ir.Apply(function=name, operands=(a, b)) if name in _COMPARED and _is_integer(a):
                compared = name if holds else _COMPARED[name]
                x, y = self.expr_of(a), self.expr_of(b)
                if self.has_loaded(x) or self.has_loaded(y):
                    return None
                if compared == "eq":
                    return (Guard(x - y, const(1)),)
                if compared != "ne":
                    low, high = (x, y) if compared in ("lt", "le") else (y, x)
                    return (Guard(high - low - (compared in ("lt", "gt")), const(0), upper=False),)
        e = self.expr_of(condition)
        if self.has_loaded(e):
            return None
        return (Guard(e - 1 if holds else -e, const(0), upper=False),)

    def name(self, value: ir.Value) -> Expr:
        """Name a value that cannot be read back."""
        if value not in self._names:
            self._names[value] = f"loaded.{next(self._numbers)}"
        self.loaded[name := self._names[value]] = value
        return var(name)

    def _stepped(self, value: ir.Value) -> Expr | None:
        """Read a variable to which each round adds the same: `start + step * round`; None of any other."""
        carried, counter = self.carried[value]
        self._known[value] = own = self.name(value)
        start, step = self.expr_of(carried.initial), self.expr_of(carried.yielded) - own
        del self._known[value]
        if not step.variables.isdisjoint({counter, *self.loaded}):
            return None
        stepped = start + step * var(counter)
        # What was read on the way was read in terms of the name.
        name = self._names.pop(value)
        del self.loaded[name]
        self._known.update({each: e.subs({name: stepped}) for each, e in self._known.items()})
        return stepped

    def _read(self, value: ir.Value) -> Expr | None:
        if value in self.carried and (_is_integer(value) or _is_pointer(value)):
            return self._stepped(value)
        operation = self.producers.get(value)
        if _is_pointer(value):
            return self._pointer(operation)
        match operation if _is_integer(value) else None:
            case ir.Constant(value=number):
                return const(int(number))
            case ir.Index(expr=e, bindings=bindings):
                return self.within(e, bindings)
            case ir.Apply() as applied:
                return self._computed(applied, value.type.dtype)
        return None

    def _pointer(self, operation: ir.Operation | None) -> Expr | None:
        """Read a pointer; None where it is not moved from the first element of a parameter."""
        match operation:
            case ir.Apply(function="data_ptr"):
                return const(0)
            case ir.Apply(function="assign", operands=(_, assigned)):
                return self.expr_of(assigned)
            case ir.Apply(function="add", operands=(a, b)) if _is_pointer(a) != _is_pointer(b):
                return self.expr_of(a) + self.expr_of(b)
            case ir.Apply(operands=(operand,)) as view if view.primitive.is_view:
                return self._moved(self.expr_of(operand), view)
        return None

    def _computed(self, operation: ir.Apply, dtype: DType | PointerType) -> Expr | None:
        function, operands = operation.function, operation.operands
        if not operands or not all(map(_is_integer, operands)):
            return None
        if operation.primitive.is_view:
            return self._moved(self.expr_of(operands[0]), operation)
        if function == "cast":
            is_kept = isinstance(dtype, DType) and dtype.is_integer and dtype.bits >= 32
            return self.expr_of(operands[0]) if is_kept else None
        if function in _DIVISIONS:
            a, b = map(self.expr_of, operands)
            return _DIVISIONS[function](a, b) if is_nonnegative(b - 1, self.facts) else None
        is_logic = all(_is_condition(each) for each in operands)
        if function == "where" and any(self.has_loaded(self.expr_of(each)) for each in operands):
            return None
        form = _FORMS.get(function) or (_LOGIC.get(function) if is_logic else None)
        return None if form is None else form(*map(self.expr_of, operands))

    def _moved(self, e: Expr, view: ir.Apply) -> Expr | None:
        """Put the lanes of a view for those of its operand; None where a name depends on lanes, too."""
        at = moved_lanes(view)
        lanes = [each for each in view.operands[0].type.axes if each.count != 1]
        is_in_place = all(at[each.name] == var(each.name) for each in lanes)
        if self.has_loaded(e) and lanes:
            return e if is_in_place else None
        return e.subs(at)


def moved_lanes(operation: ir.Apply, operand: int = 0) -> dict[str, Expr]:
    """Return, for the variables of an operand, the lanes of the result that they are."""
    axes = operation.operands[operand].type.axes
    return {axes[axis].name: e for axis, e in forwards(operation, operand).items()}


def _is_integer(value: ir.Value) -> bool:
    dtype = value.type.dtype
    return isinstance(dtype, DType) and (dtype.is_integer or _is_condition(value))


def _is_pointer(value: ir.Value) -> bool:
    return isinstance(value.type.dtype, PointerType)


def _is_condition(value: ir.Value) -> bool:
    return value.type.dtype == int1
