"""An arranged tensor as a frozen value: where it comes from, what it looks like, and the steps in between."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ninetoothed.arrangement.symbol import Symbol, merged_leaves
from ninetoothed.errors import user_line

Size = int | Symbol
Shape = tuple[Size, ...]


@dataclass(frozen=True)
class SourceTensor:
    """A parameter as the caller passes it.

    `sizes` and `strides` have one entry a dimension. `other` is what is read out of bounds (None: 0). `constexpr` marks
    a compile-time scalar, whose `value` may be given (None: it is not). `unique_indices`: no element is stored to twice
    through indices that a run gives.
    """

    name: str
    sizes: Shape = ()
    strides: Shape = ()
    dtype: Any = field(default=None, hash=False)
    other: Any = field(default=None, hash=False)
    constexpr: bool | None = None
    value: Any = field(default=None, hash=False)
    jagged_dim: int | None = None
    unique_indices: bool = False

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.sizes)


@dataclass(frozen=True)
class Step:
    """One meta-operation on one level: its name, the level's shape before it, and the arguments of its index rule.

    `after` are the shapes of the levels that replace it, `line` is the user's that asks for it.
    """

    operation: str
    level: int
    shape: Shape
    arguments: tuple = ()
    after: tuple[Shape, ...] = ()
    line: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True)
class Arrangement:
    """An arranged tensor. `levels` are shapes, outermost first; `steps` lead from the source's one level to them."""

    source: SourceTensor
    levels: tuple[Shape, ...]
    steps: tuple[Step, ...] = ()

    @classmethod
    def of(cls, source: SourceTensor) -> "Arrangement":
        """Make the arrangement of a tensor to which no step was applied."""
        return cls(source, (source.sizes,))

    def then(self, step: Step, *shapes: Shape, replaced: int = 1) -> "Arrangement":
        """Append a step that replaces `replaced` levels, from its own on, by levels of the shapes given."""
        levels = self.levels[: step.level] + shapes + self.levels[step.level + replaced :]
        return replace(self, levels=levels, steps=(*self.steps, replace(step, after=shapes, line=user_line())))

    def with_inner(self, level: int, other: "Arrangement") -> "Arrangement | None":
        """Replace the levels from `level` on by those of an arrangement that parted from this one after some steps.

        Steps on outer and on inner levels commute, so each side keeps its own. None where the other's source differs,
        or where a step since then has changed the number of levels.
        """
        pairs = enumerate(zip(self.steps, other.steps, strict=False))
        parted = next((i for i, (a, b) in pairs if a != b), min(len(self.steps), len(other.steps)))
        outer = [step for step in self.steps[parted:] if step.level < level]
        inner = [step for step in other.steps[parted:] if step.level >= level]
        moved = [step for step in (*outer, *other.steps[parted:]) if step.level < level]
        if self.source != other.source or any(step.operation in ("tile", "ravel") for step in moved):
            return None
        levels = self.levels[:level] + other.levels[level:]
        return Arrangement(self.source, levels, (*self.steps[:parted], *outer, *inner))

    def subs(self, values: Mapping[str, Size]) -> "Arrangement":
        """Put values for some of its sizes."""
        return self.map_sizes(lambda size: size.subs(values) if isinstance(size, Symbol) else size)

    def map_sizes(self, function: Callable[[Size], Size]) -> "Arrangement":
        """Map every size, stride and argument (symbols and ints alike) by `function`."""
        sizes, strides = mapped(function, (self.source.sizes, self.source.strides))
        source = replace(self.source, sizes=sizes, strides=strides)
        steps = tuple(
            replace(
                step,
                shape=mapped(function, step.shape),
                arguments=mapped(function, step.arguments),
                after=mapped(function, step.after),
            )
            for step in self.steps
        )
        return Arrangement(source, mapped(function, self.levels), steps)

    @property
    def symbols(self) -> dict[str, Symbol]:
        """The symbols by name that the sizes and steps mention (strides apart)."""
        found: list[Size] = []
        steps = tuple((step.shape, step.arguments) for step in self.steps)
        mapped(lambda size: found.append(size), (self.source.sizes, self.levels, steps))
        return merged_leaves(*found)


def mapped(function: Callable[..., Any], *values: Any) -> Any:
    """Apply a function to values, item by item where all are tuples of one length."""
    first = values[0]
    if isinstance(first, tuple) and all(isinstance(value, tuple) and len(value) == len(first) for value in values[1:]):
        return tuple(mapped(function, *items) for items in zip(*values, strict=True))
    return function(*values)
