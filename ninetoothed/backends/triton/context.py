"""The state of one emission: open blocks of text, names, and what each value and integer is called."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from ninetoothed import ir
from ninetoothed.backends.triton import syntax
from ninetoothed.backends.triton.analysis import Analysis, OperationPlace
from ninetoothed.backends.triton.names import NameTable
from ninetoothed.errors import UnsupportedError
from ninetoothed.expr import Expr, Facts
from ninetoothed.passes.target import Target
from ninetoothed.passes.tma_tiles import TmaTile


@dataclass(frozen=True)
class ValueText:
    """The text of a value: an expression, and the shape that it has in Triton.

    `shape` is () or of the rank of the value's type, with 1 where the text leaves it to broadcasting to repeat it.
    `constant` is the number where the text is a bare literal, which takes the type of what it meets.
    """

    node: ast.expr
    shape: tuple[int, ...] = ()
    constant: int | float | bool | None = None


class ValueTexts(dict[ir.Value, ValueText]):
    """The text of each value. `holders`: for each variable, the values whose texts mention it."""

    def __init__(self):
        super().__init__()
        self.holders: dict[str, tuple[ir.Value, ...]] = {}

    def __setitem__(self, value: ir.Value, text: ValueText) -> None:
        super().__setitem__(value, text)
        for name in syntax.names_in(text.node):
            self.holders[name] = (*self.holders.get(name, ()), value)

    def hold(self, value: ir.Value, name: str, shape: tuple[int, ...]) -> None:
        """Note that a variable was assigned a value, and no longer holds any other."""
        self.holders[name] = ()
        self[value] = ValueText(syntax.name(name), shape)


@dataclass
class TextBlock:
    """A block of text being written.

    common: variables that hold integer expressions for all nested blocks, by their text.
    variables: the variable that last stood for each name of the user's.
    own: names used in this block alone, which are free after it. inner: those of ended blocks inside it, and of the
    branch before it. repeats: whether it is the body of a loop. carried: the variables that this loop carries.
    hoists: whether what no round changes is computed before the loop.
    contents: the types and shapes of its variables. left: those of variables that ended branches have assigned. In
    Triton a variable that both branches of an `if` assign lives on, and must keep one type and shape.
    """

    statements: list[ast.stmt] = field(default_factory=list)
    common: dict[str, ast.expr] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    own: set[str] = field(default_factory=set)
    inner: set[str] = field(default_factory=set)
    contents: dict[str, Hashable] = field(default_factory=dict)
    left: dict[str, Hashable] = field(default_factory=dict)
    repeats: bool = False
    carried: frozenset[str] = frozenset()
    hoists: bool = False


class Dialect(Protocol):
    """Prints some operations otherwise than as Triton."""

    def prints(self, context: EmitContext, operation: ir.Operation, place: OperationPlace) -> bool:
        """Print an operation, or only text that must come before it; return whether the operation is printed."""
        ...

    def ends(self, context: EmitContext) -> None:
        """Print text at the end of a block, before its yields."""
        ...


@dataclass
class EmitContext:
    """The state of one emission.

    variables: the texts of integers, with the depth of the block in which each is known.
    used: the kernel arguments that the text mentions, by their names in the program.
    tma_tiles: the accesses that go through descriptors. descriptors: the arguments for these, and a tile of each.
    combines: the names of the combining functions among `helpers`, by their texts under one name.
    dialect: prints what is not printed as Triton. relies_on_apart: whether the text would be another one where two
    parameters are the same memory.
    """

    program: ir.Program
    analysis: Analysis
    target: Target
    names: NameTable = field(default_factory=NameTable)
    scopes: list[TextBlock] = field(default_factory=lambda: [TextBlock()])
    texts: ValueTexts = field(default_factory=ValueTexts)
    variables: dict[str, tuple[ast.expr, int]] = field(default_factory=dict)
    facts: Facts = field(default_factory=Facts)
    used: dict[str, None] = field(default_factory=dict)
    tma_tiles: Mapping[ir.Operation, TmaTile] = field(default_factory=dict)
    descriptors: dict[Hashable, tuple[str, TmaTile]] = field(default_factory=dict)
    argument_names: dict[str, str] = field(default_factory=dict)
    helpers: list[str] = field(default_factory=list)
    combines: dict[str, str] = field(default_factory=dict)
    libdevice: bool = False
    dialect: Dialect | None = None
    # Parameters written, and read, since the last barrier: each with an access, or its key.
    written: frozenset[tuple[str, Any]] = frozenset()
    read: frozenset[tuple[str, Any]] = frozenset()
    relies_on_apart: bool = False

    @cached_property
    def zeros(self) -> dict[str, int]:
        """The program indices that are always 0."""
        return {axis: 0 for axis, extent in zip(self.program.axes, self.program.grid, strict=True) if extent == 1}

    @property
    def depth(self) -> int:
        return len(self.scopes) - 1

    @property
    def is_repeated(self) -> bool:
        """Tell whether a loop is open."""
        return any(scope.repeats for scope in self.scopes)

    def append(self, statement: ast.stmt) -> None:
        self.scopes[-1].statements.append(statement)

    def run(self, node: ast.expr) -> None:
        self.append(ast.Expr(node))

    def assign(self, wanted: str, node: ast.expr) -> ast.expr:
        """Assign a new variable in the innermost block."""
        name = self.fresh(wanted, syntax.text_of(node))
        self.append(syntax.assign(name, node))
        return syntax.name(name)

    def fresh(self, wanted: str, content: Hashable, depth: int | None = None) -> str:
        """Return a new name for such content, in the innermost block or in the one at a given depth."""
        scopes = self.scopes if depth is None else self.scopes[: depth + 1]
        # A variable of an outer block must not take a name that ended inner blocks have used.
        ended = (scope.inner for scope in self.scopes[len(scopes) :])
        changed = (name for name, other in self.left.items() if other != content)
        name = self.names.fresh(wanted, set().union(changed, *ended))
        scopes[-1].own.add(name)
        scopes[-1].contents[name] = content
        return name

    @property
    def left(self) -> dict[str, Hashable]:
        """Collect the variables that branches have left, in all open blocks."""
        return {name: content for scope in self.scopes for name, content in scope.left.items()}

    def leave(self) -> list[ast.stmt]:
        """End the innermost block, and return its statements."""
        scope = self.scopes.pop()
        self.names.release(scope.own)
        self.scopes[-1].inner |= scope.own | scope.inner
        return scope.statements

    def argument(self, program_name: str) -> ast.expr:
        """Name a kernel argument, which the kernel takes from now on."""
        self.used[program_name] = None
        return syntax.name(self.argument_names[program_name])

    def variable(self, name: str) -> ast.expr:
        """Return the text of an integer variable of the program."""
        if name in self.variables:
            return self.variables[name][0]
        return self.argument(name)

    def depth_of_name(self, name: str) -> int:
        return self.variables[name][1] if name in self.variables else 0

    def depth_of(self, *expressions: Expr) -> int:
        """Return the depth of the outermost block in which integer expressions are known."""
        names = (name for expression in expressions for name in expression.variables)
        return max(map(self.depth_of_name, names), default=0)

    def is_integer(self, name: str) -> bool:
        """Tell whether a variable is a loop counter or holds a common expression: it is read by more than values."""
        nodes = [node for node, _ in self.variables.values()]
        nodes += [node for scope in self.scopes for node in scope.common.values()]
        return any(isinstance(node, ast.Name) and node.id == name for node in nodes)

    def common(self, wanted: str, node: ast.expr, depth: int) -> ast.expr:
        """Return a variable for `node` in the block at `depth`, visible to nested blocks; equal texts share it.

        The text must consist of names that are never assigned twice.
        """
        key = syntax.text_of(node)
        for scope in self.scopes[: depth + 1]:
            if key in scope.common:
                return scope.common[key]
        scope = self.scopes[depth]
        name = self.fresh(wanted, key, depth)
        scope.statements.append(syntax.assign(name, node))
        scope.common[key] = syntax.name(name)
        return scope.common[key]

    def unsupported(self, message: str, operation: ir.Operation) -> UnsupportedError:
        return UnsupportedError.at(message, operation.location)
