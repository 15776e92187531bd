"""Define `Symbol`: an integer that is not known yet."""

from __future__ import annotations

import ast
import itertools
import numbers
from collections.abc import Mapping
from typing import Any

from ninetoothed import expr as algebra
from ninetoothed.arrangement import choices, symbol_syntax
from ninetoothed.arrangement.boundary import tells_mistakes
from ninetoothed.arrangement.condition import OPERATIONS, Comparison, Condition
from ninetoothed.arrangement.without_value import WithoutValue, refuse_operand
from ninetoothed.errors import arrangement_error as _error
from ninetoothed.expr import Expr
from ninetoothed.wording import brief

_fresh = itertools.count()
_BLOCK = "ninetoothed_block_size_"


class Symbol(WithoutValue):
    """Stand for an integer that is not known yet: a name, or an expression over names and integers.

    expr: a name, or a text with `+ - * // %`, `min`, `max` and `cdiv`, as `"cdiv(n, 2)"`.
    constexpr: whether the caller of a kernel gives its value, by keyword.
    meta: whether the compiler chooses its value, within the bounds.
    lower_bound, upper_bound: the range to choose from: by default [32, 1024] of a meta symbol, [1, 2^20] of a
        constexpr. They guide a choice, and are not checked against a value that someone gives.
    power_of_two: whether to choose among powers of two alone; by default of a meta symbol.

    `repr` prints it in the order in which it was written; `expr` is its canonical form. Symbols are equal where they
    print the same. Arithmetic with ints and symbols gives symbols.

    Raises `ArrangementError` (a `ValueError`) for a text that is no such expression, and for options on anything but a
    plain name; `ArrangementTypeError` (a `TypeError`, too) for what needs its value: `/`, `range`, `if`.
    `<` and the like give a condition, of which `if` is such an error, too.

    >>> Symbol("BLOCK_SIZE_M") * Symbol("BLOCK_SIZE_N") + 0
    BLOCK_SIZE_M * BLOCK_SIZE_N
    """

    @tells_mistakes
    def __init__(
        self,
        expr: str | int | Symbol | ast.expr,
        constexpr: bool | None = None,
        meta: bool | None = None,
        lower_bound: int | None = None,
        upper_bound: int | None = None,
        power_of_two: bool | None = None,
        _leaves: dict[str, Symbol] | None = None,
    ) -> None:
        self._node = _parse(expr)
        self.constexpr = constexpr
        self.meta = meta
        self._leaves = _leaves
        options = (constexpr, meta, lower_bound, upper_bound, power_of_two)
        if self.name is None and any(option is not None for option in options):
            raise _error(f"`{self}` is not a plain name, so it takes no options", "give them to the names in it")
        if constexpr and meta:
            raise _error(f"`{self}` is constexpr and meta at once", "constexpr: the caller chooses; meta: the compiler")
        self.power_of_two = bool(meta) if power_of_two is None and (meta or constexpr) else power_of_two
        what = "a block size" if str(self).startswith(_BLOCK) else f"`{self}`"
        default = choices.default_range(meta, constexpr)
        bounds = choices.completed(what, (lower_bound, upper_bound), default, self.power_of_two)
        self.lower_bound, self.upper_bound = bounds

    @property
    def name(self) -> str | None:
        """The name; None for an expression that is no plain name."""
        return self._node.id if isinstance(self._node, ast.Name) else None

    @property
    def expr(self) -> Expr:
        """The canonical form, in which equal expressions are equal."""
        cached = self.__dict__.get("_expr")
        if cached is None:
            cached = self.__dict__["_expr"] = symbol_syntax.canonical(self._node)
        return cached

    @property
    def leaves(self) -> dict[str, Symbol]:
        """The plain names in it, `{name: Symbol}`, with the options that they were made with."""
        if self.name is not None:
            return {self.name: self}
        if self._leaves is None:
            names = (node.id for node in symbol_syntax.names(self._node))
            self._leaves = {name: Symbol(name) for name in names}
        return self._leaves

    def names(self) -> set[Symbol]:
        """Return the plain names in it, as symbols.

        >>> sorted(map(str, (Symbol("n") // Symbol("BLOCK") + 1).names()))
        ['BLOCK', 'n']
        """
        return set(self.leaves.values())

    def __repr__(self) -> str:
        cached = self.__dict__.get("_text")
        if cached is None:
            cached = self.__dict__["_text"] = ast.unparse(self._node)
        return cached

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Symbol):
            return repr(self) == repr(other)
        if isinstance(other, numbers.Integral):
            return isinstance(self._node, ast.Constant) and self._node.value == other
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self._node.value if isinstance(self._node, ast.Constant) else repr(self))

    def __copy__(self) -> Symbol:
        return self

    def __deepcopy__(self, memo: Any) -> Symbol:
        return self

    def __add__(self, other: int | Symbol) -> Symbol:
        return self if _is(other, 0) else _binary(self, ast.Add, other)

    def __radd__(self, other: int | Symbol) -> Symbol:
        return self if _is(other, 0) else _binary(other, ast.Add, self)

    def __sub__(self, other: int | Symbol) -> Symbol:
        return self if _is(other, 0) else _binary(self, ast.Sub, other)

    def __rsub__(self, other: int | Symbol) -> Symbol:
        return _binary(other, ast.Sub, self)

    def __mul__(self, other: int | Symbol) -> Symbol:
        return self if _is(other, 1) else _binary(self, ast.Mult, other)

    def __rmul__(self, other: int | Symbol) -> Symbol:
        return self if _is(other, 1) else _binary(other, ast.Mult, self)

    def __floordiv__(self, other: int | Symbol) -> Symbol:
        _check_divisor(self, other)
        return self if _is(other, 1) else _binary(self, ast.FloorDiv, other)

    def __rfloordiv__(self, other: int | Symbol) -> Symbol:
        return _binary(other, ast.FloorDiv, self)

    def __mod__(self, other: int | Symbol) -> Symbol:
        _check_divisor(self, other)
        return _binary(self, ast.Mod, other)

    def __rmod__(self, other: int | Symbol) -> Symbol:
        return _binary(other, ast.Mod, self)

    def __neg__(self) -> Symbol:
        return Symbol(ast.UnaryOp(ast.USub(), self._node), _leaves=self.leaves)

    def __lt__(self, other: int | Symbol) -> Condition:
        return _condition(self, "<", other)

    def __le__(self, other: int | Symbol) -> Condition:
        return _condition(self, "<=", other)

    def __gt__(self, other: int | Symbol) -> Condition:
        return _condition(self, ">", other)

    def __ge__(self, other: int | Symbol) -> Condition:
        return _condition(self, ">=", other)

    def __bool__(self) -> bool:
        """Tell that a block size is given, as in `block or block_size()`; any other size is neither true nor false."""
        if self.expr.is_constant:
            return bool(self.expr.constant)
        if not (self.meta or self.constexpr):
            self._refuse(", so it is neither true nor false", "compare with `is None`, or decide in the application")
        return True

    def subs(self, values: Mapping[str, int | Symbol]) -> Any:
        """Replace names by numbers or symbols; an `int` where no name is left.

        >>> (Symbol("a") + Symbol("b")).subs({"a": 1, "b": 2})
        3
        """
        used = {name: values[name] for name in self.leaves if name in values}
        if not used:
            return self
        return from_expr(
            self.expr.subs({name: algebra.as_expr(value) for name, value in used.items()}),
            {**self.leaves, **{k: v for value in used.values() for k, v in leaves_of(value).items()}},
        )

    def renamed(self, name: str) -> Symbol:
        """Return a symbol of another name, a plain one, with the options of this one."""
        return Symbol(name, self.constexpr, self.meta, self.lower_bound, self.upper_bound, self.power_of_two)

    def narrowed(self, other: Symbol) -> Symbol | None:
        """Combine this plain name's options with another's; None where no value satisfies both.

        Of two bounds the tighter one counts, and a default gives way to one that was given.

        >>> narrowed = block_size(16, 256).narrowed(block_size(upper_bound=128))
        >>> narrowed.lower_bound, narrowed.upper_bound
        (16, 128)
        """
        low, high = choices.default_range(self.meta or other.meta, self.constexpr or other.constexpr)
        lower = choices.tighter(max, low, self.lower_bound, other.lower_bound)
        upper = choices.tighter(min, high, self.upper_bound, other.upper_bound)
        if lower is not None and upper is not None and lower > upper:
            return None
        return Symbol(
            str(self.name),
            constexpr=self.constexpr or other.constexpr,
            meta=self.meta or other.meta,
            lower_bound=lower,
            upper_bound=upper,
            power_of_two=self.power_of_two or other.power_of_two,
        )


@tells_mistakes
def block_size(lower_bound: int | None = None, upper_bound: int | None = None) -> Symbol:
    """Make a fresh symbol whose value the compiler chooses: a power of two.

    lower_bound, upper_bound: the range to choose from, by default [32, 1024].

    Raises `ArrangementError` (a `ValueError`) where the range has no power of two.

    >>> from ninetoothed import Tensor
    >>> BLOCK = block_size(64, 256)
    >>> Tensor(1).tile((BLOCK,)).dtype.shape == (BLOCK,)
    True
    """
    name = f"{_BLOCK}{next(_fresh)}"
    return Symbol(name, meta=True, lower_bound=lower_bound, upper_bound=upper_bound)


def from_expr(expression: Expr, leaves: Mapping[str, int | Symbol] | None = None) -> int | Symbol:
    """Return the symbol that prints a canonical expression, or its value where it is constant."""
    if expression.is_constant:
        return expression.constant
    leaves = leaves or {}
    if str(expression) in leaves:
        return leaves[str(expression)]
    names = [*filter(expression.variables.__contains__, leaves), *sorted(expression.variables - leaves.keys())]
    found = ((name, leaves.get(name)) for name in names)
    kept = {name: leaf if isinstance(leaf, Symbol) else Symbol(name) for name, leaf in found}
    return Symbol(str(expression), _leaves=kept if str(expression) not in kept else None)


def leaves_of(value: Any) -> dict[str, Symbol]:
    """Return `{name: Symbol}` of the names in an int or a symbol."""
    return value.leaves if isinstance(value, Symbol) else {}


def _binary(left: Any, operation: type[ast.operator], right: Any) -> Any:
    lhs, rhs = _node_of(left), _node_of(right)
    if lhs is None or rhs is None:
        refuse_operand(left, operation(), right)
    return Symbol(ast.BinOp(lhs, operation(), rhs), _leaves=merged_leaves(left, right))


def _condition(left: Symbol, sign: str, right: Any) -> Condition:
    if _node_of(right) is None:
        refuse_operand(left, OPERATIONS[sign], right)
    return Condition((Comparison(left, sign, right if isinstance(right, Symbol) else int(right)),))


def _check_divisor(symbol: Symbol, other: object) -> None:
    if _is(other, 0):
        raise _error(f"`{symbol}` is divided by 0", "give another divisor")


def merged_leaves(*values: Any) -> dict[str, Symbol]:
    """Merge all leaves. Of two with one name the one with options stays, so that a plain mention does not hide them."""
    merged: dict[str, Symbol] = {}
    for value in values:
        for name, leaf in leaves_of(value).items():
            known = merged.get(name)
            if known is None or not (known.constexpr or known.meta):
                merged[name] = leaf
    return merged


def _is(value: object, number: int) -> bool:
    return isinstance(value, numbers.Integral) and value == number


def _node_of(value: Any) -> ast.expr | None:
    if isinstance(value, Symbol):
        return value._node
    return symbol_syntax.number(int(value)) if isinstance(value, numbers.Integral) else None


def _parse(source: Any) -> ast.expr:
    if isinstance(source, ast.expr):
        return source
    node = _node_of(source)
    if node is not None:
        return node
    if not isinstance(source, str):
        raise _error(
            f"a symbol is a name or an expression, not {brief(source)}", 'write for example Symbol("BLOCK_SIZE")'
        )
    return symbol_syntax.parse(source)
