"""Derive the arrangement of a gradient from the forward's: regroup programs by the tile whose gradient they write.

    input: (m, n), (k,), (M, K)    other: (m, n), (k,), (K, N)    output: (m, n), (M, N)     n expanded in input
->  input: (m, k), (M, K)          other: (m, k), (n,), (K, N)    output: (m, k), (n,), (M, N)

Programs along which a tensor was expanded all read the same tile, so that its gradient is a sum over them: they become
a level over which the application loops. What the forward's application loops over becomes programs: each owns a tile.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ninetoothed.arrangement import metaops
from ninetoothed.arrangement.metaops import same_size
from ninetoothed.arrangement.operands import several, shape_text
from ninetoothed.arrangement.tensor import Tensor
from ninetoothed.arrangement.tiling import cut_alike, tilings
from ninetoothed.arrangement.value import Arrangement, Size, Step
from ninetoothed.errors import ArgumentTypeError, GradientError, shortens_tracebacks
from ninetoothed.expr import as_expr, cdiv
from ninetoothed.wording import near

ArrangementFunction = Callable[..., tuple[Any, ...]]


@shortens_tracebacks
def gradient_arrangement(arrangement: ArrangementFunction, of: str | int) -> ArrangementFunction:
    """Derive the arrangement of the kernel that computes one tensor's gradient, from that of the forward kernel.

    arrangement: the forward's arrangement.
    of: the tensor whose gradient is computed: the name of its parameter of `arrangement`, or its position in what that
        returns.

    The result is an arrangement of the same tensors in the same order, for `make`. In a call, the tensor `of` is its
    gradient, which is written, and the forward's output is the output's gradient.

    - There is a program for each tile of `of`, those included over which a program of the forward loops.
    - Where `of` was expanded, several programs of the forward read the same tile, and the gradient sums over them: of
      each tensor that differs among them, a program gets a level of tiles more, outermost, with a dimension for each
      that was expanded. Loop over it.
    - Scalars, and the other levels, stay as they are.

    The gradient of a tile may not need other tiles over which the forward loops, as that of a softmax in chunks does.

    Raises `GradientError` (a `ValueError`) where tiles overlap or leave elements out, where a dimension is merged with
    one that was expanded, and where it is not known which dimensions of two tensors belong together.

    >>> from ninetoothed import Tensor
    >>> def arrangement(x, weight, y):
    ...     return x.tile((1, 4)), weight.tile((4,)).unsqueeze(0).expand((x.shape[0], -1)), y.tile((1, 4))
    >>> gradient = gradient_arrangement(arrangement, of="weight")
    >>> for tensor in gradient(Tensor(shape=(8, 16), name="x"), Tensor(shape=(16,)), Tensor(shape=(8, 16), name="y")):
    ...     print(tensor.shape, tensor.dtype.shape)
    (4,) (8,)
    (4,) (4,)
    (4,) (8,)
    """
    if not callable(arrangement):
        raise ArgumentTypeError(f"`gradient_arrangement` takes an arrangement, a function, and got {arrangement!r}")

    @functools.wraps(arrangement)
    def derived(*tensors: Any, **options: Any) -> tuple[Any, ...]:
        arranged = several(arrangement(*tensors, **options))
        owner = _position(arrangement, of, tensors, options, arranged)
        jagged = next((each for each in arranged if isinstance(each, Tensor) and each.jagged_dim is not None), None)
        if jagged is not None:
            what = f"{jagged.name!r} is jagged, and gradients of such arrangements are not derived"
            raise GradientError(f"{what}; write the arrangement of the gradient's kernel")
        tiled = [i for i, each in enumerate(arranged) if isinstance(each, Tensor) and each.source.ndim]
        operands = [_Operand.of(arranged[i].arrangement) for i in tiled]
        grouped = _regrouped(operands, operands[tiled.index(owner)])
        found = {i: Tensor.of(each) for i, each in zip(tiled, grouped, strict=True)}
        return tuple(found.get(i, each) for i, each in enumerate(arranged))

    return derived


def _position(arrangement: ArrangementFunction, of: str | int, tensors: tuple, options: dict, arranged: tuple) -> int:
    """Return which of the arranged tensors `of` is."""
    if isinstance(of, str):
        bound = inspect.signature(arrangement).bind(*tensors, **options).arguments
        if of not in bound:
            hint = near(of, bound) or f"it has {', '.join(bound)}"
            raise GradientError(f"the arrangement has no parameter {of!r}; {hint}")
        name = getattr(bound[of], "name", None)
        found = [i for i, each in enumerate(arranged) if getattr(each, "name", None) == name]
    else:
        found = [of] if of in range(len(arranged)) else []
    if len(found) != 1 or not isinstance(arranged[found[0]], Tensor) or not arranged[found[0]].source.ndim:
        remedy = "name a parameter that has dimensions and a `Tensor` of its own, or give a position in the result"
        raise GradientError(f"{of!r} is no tensor that the arrangement returns once; {remedy}")
    return found[0]


@dataclass(frozen=True)
class _Dimension:
    """A dimension of a level: its size in the forward, and whether all its places have the same tile, by `expand`.

    axis: the dimension of the tensor along which it goes.
    """

    size: Size
    axis: int
    is_repeated: bool = False

    @property
    def own(self) -> Size:
        return 1 if self.is_repeated else self.size

    @property
    def is_one(self) -> bool:
        return same_size(self.size, 1)

    def resized(self, size: Size) -> _Dimension:
        return replace(self, size=size, is_repeated=self.is_repeated and not same_size(size, 1))


_Dimensions = tuple[_Dimension, ...]
# A dimension that programs or a loop share: its level, and its number among those of that level that have not size 1.
_Place = tuple[int, int]


@dataclass(frozen=True)
class _Operand:
    """A tensor of the forward, as it is arranged there, and with what expanded it taken out.

    problem: why its tiles cannot be those of a gradient, and the remedy.
    """

    forward: Arrangement
    arrangement: Arrangement
    levels: tuple[_Dimensions, ...]
    problem: tuple[str, str] | None = None

    @classmethod
    def of(cls, forward: Arrangement) -> _Operand:
        source = tuple(_Dimension(size, axis) for axis, size in enumerate(forward.source.sizes))
        operand = cls(forward, Arrangement.of(forward.source), (source,))
        for step in forward.steps:
            problem = operand.problem or _problem(step, operand.levels[step.level])
            operand = replace(operand.after(step), problem=problem)
            if operand.levels == ():
                return replace(operand.as_expanded, problem=problem)
        return operand

    @property
    def as_expanded(self) -> _Operand:
        """The operand as the forward arranges it: no dimension counts as expanded."""
        levels = tuple(tuple(_Dimension(size, 0) for size in shape) for shape in self.forward.levels)
        return replace(self, arrangement=self.forward, levels=levels)

    @property
    def depth(self) -> int:
        """The number of levels over which work is shared: all but the tile's."""
        return max(len(self.levels) - 1, 1)

    @cached_property
    def flat(self) -> _Dimensions:
        """The dimensions of all levels, outermost first, by their numbers."""
        return tuple(dimension for level in self.levels for dimension in level)

    @cached_property
    def numbers(self) -> list[range]:
        """The numbers of the dimensions of each level."""
        stops = list(itertools.accumulate(map(len, self.levels)))
        return [range(stop - len(level), stop) for stop, level in zip(stops, self.levels, strict=True)]

    @cached_property
    def places(self) -> dict[_Place, int]:
        """The numbers of the dimensions over which work is shared."""
        found = [[n for n in numbers if not self.flat[n].is_one] for numbers in self.numbers[: self.depth]]
        return {(level, i): n for level, numbers in enumerate(found) for i, n in enumerate(numbers)}

    def at(self, place: _Place) -> _Dimension:
        return self.flat[self.places[place]]

    def after(self, step: Step) -> _Operand:
        """Apply a step of the forward; no levels are left where it cannot be applied to what was not expanded."""
        here = self.levels[step.level]
        if _is_merged(step, here):
            return replace(self, levels=())
        end = len(self.levels) if step.operation == "ravel" else step.level + 1
        new = _moved(step, self.levels[step.level : end])
        levels = (*self.levels[: step.level], *new, *self.levels[end:])
        shapes = tuple(tuple(dimension.own for dimension in level) for level in new)
        own, arguments = tuple(dimension.own for dimension in here), step.arguments
        if step.operation == "tile":
            arguments = tuple(
                tuple(1 if dimension.is_repeated else value for dimension, value in zip(here, values, strict=True))
                for values in arguments
            )
        if step.operation == "expand":
            arguments = (tuple(d for d in arguments[0] if not new[0][d].is_repeated), shapes[0])
            if not arguments[0]:
                return replace(self, levels=levels)
        own_step = Step(step.operation, step.level, own, arguments)
        arrangement = self.arrangement.then(own_step, *shapes, replaced=end - step.level)
        return replace(self, arrangement=arrangement, levels=levels)


def _moved(step: Step, levels: tuple[_Dimensions, ...]) -> tuple[_Dimensions, ...]:
    """Return the dimensions that a step makes of those of its level; of `ravel`, of all levels from its own on."""
    here = levels[0]

    def resized(d: int, size: Size) -> _Dimension:
        if step.operation != "expand":
            return here[d].resized(size)
        return replace(
            here[d], size=size, is_repeated=here[d].is_one if d in step.arguments[0] else here[d].is_repeated
        )

    def joined(dimensions: _Dimensions, size: Size) -> _Dimension:
        parts = tuple(dimension for dimension in dimensions if not dimension.is_one)
        axis = min((dimension.axis for dimension in parts), default=0)
        return _Dimension(size, axis, any(each.is_repeated for each in parts))

    return metaops.follow(step, levels, _Dimension(1, 0), resized, joined)


def _is_merged(step: Step, here: _Dimensions) -> bool:
    """Tell whether a step joins an expanded dimension with another, or takes a part of it: it cannot go before."""
    if step.operation == "flatten":
        start, end = step.arguments
        parts = {dimension.is_repeated for dimension in here[start:end] if not dimension.is_one}
        return len(parts) > 1
    if step.operation in ("pad", "index"):
        return any(here[d].is_repeated for d in _changed(step))
    return False


def _changed(step: Step) -> list[int]:
    """Return the dimensions of which `pad` or `index` makes others."""
    after = step.after[0]
    if step.operation == "pad":
        return [d for d, size in enumerate(step.shape) if not same_size(size, after[d])]
    _, strides, kept = step.arguments
    whole = {d for d, size in zip(kept, after, strict=True) if strides[d] == 1 and same_size(size, step.shape[d])}
    return [d for d, size in enumerate(step.shape) if d not in whole and not same_size(size, 1)]


def _problem(step: Step, here: _Dimensions) -> tuple[str, str] | None:
    """Say why the tiles that a step makes are no partition of the tensor into gradients, and the remedy."""
    if _is_merged(step, here):
        what = f"`{step.operation}` joins a dimension that was expanded with others, or takes a part of it"
        return what, "expand after it, so that it is known which programs read the same tile"
    if step.operation == "expand":
        for d in step.arguments[0]:
            if not here[d].is_one:
                what = f"`expand` of dimension {d}, of size {step.shape[d]}: whether it is 1 is known in a call alone"
                return what, "make the tensor with that size, such as `Tensor(shape=(1, None))`"
    if step.operation == "index" and _changed(step):
        return "a part of it is taken, and no program has the rest", "take the part of what is passed in a call"
    if step.operation == "tile":
        rows = zip(here, *step.after, *step.arguments, strict=True)
        for d, (dimension, count, tile, stride, dilation) in enumerate(rows):
            if dimension.is_repeated or same_size(stride, 0):
                continue
            if not same_size(stride, tile) or not same_size(dilation, 1):
                apart = f"{stride} apart" + ("" if same_size(dilation, 1) else f" with a dilation of {dilation}")
                what = f"tiles of {tile} along dimension {d} are {apart}: several may have an element, or none"
                return what, "give each program one plain tile, and read all windows that have elements of it, by hand"
            if not same_size(count, cdiv(as_expr(dimension.size), as_expr(tile))):
                return f"`floor_mode` drops a last tile of dimension {d} that is not whole", "leave it out"
    return None


def _regrouped(operands: Sequence[_Operand], owner: _Operand) -> list[Arrangement]:
    """Return the arrangement of each operand in which programs are those of the owner's tiles, each with one."""
    if owner.problem is not None:
        raise _error(owner, *owner.problem)
    for operand in operands:
        _check_places(owner, operand)
    if not any(dimension.is_repeated for dimension in owner.flat) and all(level == 0 for level, _ in owner.places):
        return [operand.forward for operand in operands]
    summed = [place for place in owner.places if owner.at(place).is_repeated]
    programs = sorted(owner.places.keys() - set(summed), key=lambda place: (owner.at(place).axis, place))
    return [_arranged(operand, owner, programs, summed) for operand in operands]


def _arranged(operand: _Operand, owner: _Operand, programs: list[_Place], summed: list[_Place]) -> Arrangement:
    """Let an operand have a dimension for each of the programs, and one for each that is summed if one matters."""
    kept = operand.numbers[min(owner.depth, operand.depth) :]
    if operand is not owner and any(operand.flat[n].is_repeated for n in itertools.chain(*kept)):
        # Tiles that were cut from what had been expanded end where that does: they are not one tile for all.
        return _arranged(operand.as_expanded, owner, programs, summed)
    known = {place: operand.at(place) for place in operand.places}
    varies = any(place in known and not known[place].is_repeated for place in summed)
    groups = [programs, summed] if varies else [programs]
    own = ([operand.places[place] for place in group if place in known] for group in groups)
    arrangement = _grouped(operand.arrangement, [*own, *kept])
    for level, group in enumerate(groups):
        for i, place in enumerate(group):
            if place not in known:
                arrangement = metaops.unsqueeze(arrangement, level, i)
        is_shared = (place not in known or known[place].is_repeated for place in group)
        sizes = (owner.at(place).size if each else -1 for each, place in zip(is_shared, group, strict=True))
        arrangement = metaops.expand(arrangement, level, tuple(sizes))
    return arrangement


def _check_places(owner: _Operand, operand: _Operand) -> None:
    """Raise where it is not known which dimension of an operand belongs to one of the owner."""
    cut, own = ([t for level in each for t in level] for each in tilings([operand.forward, owner.forward]))
    for level in range(owner.depth):
        theirs, ours = ([n for place, n in each.places.items() if place[0] == level] for each in (operand, owner))
        if level and not theirs:
            continue
        are_cut_alike = all(cut_alike(cut[a], own[b]) is not None for a, b in zip(theirs, ours, strict=False))
        if len(theirs) != len(ours) or (level and not are_cut_alike):
            shapes = [shape_text(each.forward.levels[level]) for each in (owner, operand)]
            what = f"its level {level} is of shape {shapes[0]}, and that of `{operand.forward.source.name}` {shapes[1]}"
            raise _error(owner, f"{what}: which dimensions belong together is not known", "cut both alike")


def _grouped(arrangement: Arrangement, groups: Sequence[Sequence[int]]) -> Arrangement:
    """Make levels of the dimensions of all levels, by their numbers; what is in no group has size 1 and is dropped."""
    arrangement = metaops.ravel(arrangement, 0)
    kept = [number for group in groups for number in group]
    dropped = tuple(n for n in range(len(arrangement.levels[0])) if n not in kept)
    arrangement = metaops.squeeze(arrangement, 0, dropped)
    arrangement = metaops.permute(arrangement, 0, tuple(sorted(kept).index(number) for number in kept))
    for level, group in enumerate(groups[:-1]):
        count, rest = len(group), len(arrangement.levels[level]) - len(group)
        arrangement = metaops.tile(arrangement, level, (1,) * count + (-1,) * rest)
        arrangement = metaops.squeeze(arrangement, level, tuple(range(count, count + rest)))
        arrangement = metaops.squeeze(arrangement, level + 1, tuple(range(count)))
    return arrangement


def _error(owner: _Operand, what: str, remedy: str) -> GradientError:
    name = owner.forward.source.name
    return GradientError(f"no arrangement can be derived for the gradient of `{name}`: {what}; {remedy}")
