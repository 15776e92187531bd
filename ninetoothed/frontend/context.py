"""Hold the state of tracing one application: one value, passed to every function of the frontend."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from ninetoothed import dtypes, ir
from ninetoothed.arrangement.lowering import bind_sizes
from ninetoothed.arrangement.metaops import paddings, unflatten
from ninetoothed.arrangement.value import Arrangement
from ninetoothed.definition import KernelDefinition
from ninetoothed.errors import ApplicationError
from ninetoothed.expr import Expr, Facts, as_expr, bounds, const, simplify, var
from ninetoothed.free_names import FreeName
from ninetoothed.frontend.builder import Builder
from ninetoothed.frontend.shapes import Mismatch, ShapeMismatch
from ninetoothed.frontend.values import Dimension, chosen, origin
from ninetoothed.specialisation import ArgumentClass, Specialisation


def leaders(definition: KernelDefinition, specialisation: Specialisation) -> dict[str, str]:
    """Map the sizes of jagged dimensions to the first of the parameters that share their offsets."""
    found = {}
    for parameter in definition.given:
        if parameter.jagged is not None:
            sharing = specialisation.arguments[definition.positions[parameter.jagged.sharing]]
            if sharing.role == "constant" and sharing.value is not None:
                found[str(parameter.jagged.longest)] = sharing.value[1]
    return found


@dataclass(eq=False)
class TraceContext:
    """One specialisation of a kernel being traced.

    evaluate, run, assign, call: trace an expression, statements until one returns, an assignment to a target as
    written, and a call of anything. `frontend` gives them: loops hold statements, which hold loops.

    bindings: the expressions to put for names that the specialisation knows.
    loads: the tiles that were read since the last store, so that naming a parameter twice loads it once.
    locations: the lowered accesses, so that each is lowered once.
    entries: those of jagged parameters that were looked up, by offsets and number (see `frontend.jagged`).
    counters: the counters of loops over all tiles along a dimension.
    conditions: how many branches of the kernel are open. call_depth: how many calls are.
    write_logs: those of the open regions, the outermost first (see `frontend.regions`).
    free_names: the names outside the application that were read.
    oversights: warnings by their class and place (see `frontend.oversights`).
    is_sketch: whether only what is computed is asked for: accesses get no guards, loops carry
        nothing, and all blocks keep their names.
    """

    definition: KernelDefinition
    specialisation: Specialisation
    builder: Builder
    bindings: dict[str, Expr]
    loads: dict = field(default_factory=dict)
    locations: dict = field(default_factory=dict)
    entries: dict = field(default_factory=dict)
    counters: dict[str, Dimension] = field(default_factory=dict)
    conditions: int = 0
    call_depth: int = 0
    write_logs: list = field(default_factory=list)
    free_names: list[FreeName] = field(default_factory=list)
    oversights: dict[tuple[type[Warning], ir.SourceLocation | None], str] = field(default_factory=dict)
    is_sketch: bool = False

    evaluate: ClassVar[Callable[..., Any]]
    run: ClassVar[Callable[..., Any]]
    assign: ClassVar[Callable[..., None]]
    call: ClassVar[Callable[..., Any]]

    @classmethod
    def create(
        cls, definition: KernelDefinition, specialisation: Specialisation, is_sketch: bool = False
    ) -> TraceContext:
        """Make the context of a kernel's specialisation, with all that is known of its sizes."""
        bindings = specialisation.bindings()
        sources = (parameter.source for parameter in definition.parameters)
        sizes = (as_expr(size) for source in sources for size in (*source.sizes, *source.strides))
        names = {name for size in sizes for name in size.variables}
        facts = specialisation.facts(sorted(names))
        wide = any(argument.wide for argument in specialisation.arguments)
        builder = Builder(facts, dtypes.int64 if wide else dtypes.int32, frozenset(names).union(definition.symbols))
        builder.leaders = leaders(definition, specialisation)
        context = cls(definition, specialisation, builder, bindings, is_sketch=is_sketch)
        for axis, size in zip(context.axes, context.grid, strict=True):
            builder.facts = builder.facts.bind(axis, 0, size - 1)
        if not is_sketch:
            builder.facts = context._within_all_outermost()
            builder.facts = context._with_padding()
        return context

    def assume_equal(self, left: Expr, right: Expr) -> None:
        """Let each of two sizes have the bounds of both."""
        sides = self.number(left), self.number(right)
        for size, other in (sides, reversed(sides)):
            self.builder.facts = self.facts.assume(size, *bounds(other, self.facts))

    def _within_all_outermost(self) -> Facts:
        """Bound a program's indices by the outermost shapes of all tensors, which were compared before the launch."""
        facts = self.facts
        if not self.specialisation.shared_grid:
            return facts
        for parameter, argument in enumerate(self.specialisation.arguments):
            shape = self.levels[parameter][0] if argument.role == "tensor" else ()
            for axis, size in zip(self.axes, shape, strict=False):
                facts = facts.assume(var(axis), 0, size - 1)
                facts = facts if size.is_constant else facts.assume(size, 1)
        return facts

    def _with_padding(self) -> Facts:
        """Assume that no amount of padding is negative: they were checked before the launch."""
        facts = self.facts
        for parameter, argument in zip(self.definition.parameters, self.specialisation.arguments, strict=True):
            steps = parameter.arrangement.steps if argument.role == "tensor" else ()
            for amount in (self.number(amount) for step in steps for amount in paddings(step)):
                facts = facts if amount.is_constant else facts.assume(amount, 0)
        return facts

    def forget_loads(self) -> None:
        """Forget the tiles that were read: after a store they may be stale."""
        self.loads = {key: value for key, value in self.loads.items() if key[0] == "scalar"}

    @contextmanager
    def conditionally(self) -> Iterator[None]:
        """Count what is traced inside as a branch of the kernel."""
        self.conditions += 1
        try:
            yield
        finally:
            self.conditions -= 1

    def note(self, name: FreeName | None) -> None:
        """Remember that a name outside the application was read."""
        # Names are the same by their places: to compare what places hold would compare arrays, too.
        if name is not None and not any(
            each.place is name.place and each.name == name.name for each in self.free_names
        ):
            self.free_names.append(name)

    @property
    def facts(self) -> Facts:
        """The present facts: ranges of sizes, counters and lanes."""
        return self.builder.facts

    def number(self, size: Any) -> Expr:
        """Return a size or stride as the specialisation knows it."""
        return simplify(as_expr(size).subs(self.bindings), self.facts)

    def simplified(self, size: Any, longest: Expr) -> Expr:
        """Return a size of an entry; where it is that of the longest too, as this is known."""
        own = simplify(as_expr(size), self.facts)
        return longest if own == longest else own

    def argument(self, parameter: int) -> ArgumentClass:
        """Return the class of a parameter's argument."""
        return self.specialisation.arguments[parameter]

    @cached_property
    def arrangements(self) -> tuple[Arrangement, ...]:
        """The arrangement of each parameter, with the numbers that the specialisation knows."""
        return tuple(bind_sizes(parameter.arrangement, self.bindings) for parameter in self.definition.parameters)

    @cached_property
    def levels(self) -> tuple[tuple[tuple[Expr, ...], ...], ...]:
        """The shapes of each parameter's levels, as the specialisation knows them."""
        return tuple(
            tuple(tuple(self._sized(size) for size in level) for level in parameter.arrangement.levels)
            for parameter in self.definition.parameters
        )

    def _sized(self, size: Any) -> Expr:
        """Return a size; a number that is computed from chosen blocks remembers which."""
        number, own = self.number(size), as_expr(size)
        named = self.definition.symbols if self.is_sketch else self.definition.meta_symbols
        is_chosen = number.is_constant and not own.variables.isdisjoint(named)
        return chosen(number, own) if is_chosen else number

    @cached_property
    def launching(self) -> int | None:
        """The parameter whose outermost level is the grid: the first tensor with dimensions."""
        tensors = [i for i, argument in enumerate(self.specialisation.arguments) if argument.role == "tensor"]
        return next((i for i in tensors if self.definition.parameters[i].source.ndim), tensors[0] if tensors else None)

    @cached_property
    def grid(self) -> tuple[Expr, ...]:
        """The extents of the grid: the outermost shape of the launching parameter."""
        outermost = () if self.launching is None else self.definition.parameters[self.launching].outermost
        return tuple(map(self.number, outermost))

    @cached_property
    def axes(self) -> tuple[str, ...]:
        """The names of a program's indices along the grid."""
        return tuple(f"program_{d}" for d in range(len(self.grid)))

    @property
    def program_number(self) -> Expr:
        """The number of a program, row-major over the grid."""
        number = const(0)
        for axis, size in zip(self.axes, self.grid, strict=True):
            number = number * size + var(axis)
        return number

    def program_indices(self, parameter: int) -> tuple[Expr, ...]:
        """Return the indices of this program's element of a parameter's outermost level."""
        if not self.levels[parameter][0]:
            return ()
        if self.specialisation.shared_grid:
            return tuple(var(axis) for axis in self.axes)
        return unflatten(self.program_number, self.levels[parameter][0])

    def require(self, left: Any, right: Any, message: str) -> None:
        """Require two sizes to be equal: raise where they cannot be, else let each call be checked.

        The sizes are expressions over sizes of parameters and over block sizes; other blocks are chosen where only the
        blocks make the sizes differ. `message` says what has to fit.
        """
        try:
            self.builder.require(self.number(left), self.number(right), message, (as_expr(left), as_expr(right)))
        except ShapeMismatch as error:
            raise self.mismatch(error) from None

    def mismatch(self, mismatch: Mismatch) -> ApplicationError:
        """Make the error for a mismatch. It keeps the two sizes where they could agree in another call."""
        sizes, remedy = (mismatch.sizes, mismatch.remedy) if isinstance(mismatch, ShapeMismatch) else ((), "")
        names = frozenset().union(*(origin(size).variables for size in sizes))
        error = self.error(f"{mismatch}; {remedy}" if remedy else str(mismatch))
        if names and names <= self.builder.sizes:
            left, right = map(origin, sizes)
            error.unmet = ir.Requirement(left, right, str(mismatch), self.builder.location)
        return error

    def error(self, message: str, location: ir.SourceLocation | None = None) -> ApplicationError:
        """Make an error that points at the user's source."""
        return ApplicationError.at(f"kernel {self.definition.name!r}: {message}", location or self.builder.location)
