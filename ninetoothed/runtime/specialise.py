"""Pass: what live arguments have in common with others becomes known to the compiler, the numbers stay arguments.

    x = tl.load(x_ptr + rows[:, None] * x_stride_0 + columns[None, :] * x_stride_1, mask=columns[None, :] < x_size_1)
->  x = tl.load(x_ptr + rows[:, None] * x_stride_0 + columns[None, :], mask=columns[None, :] < x_size_1)
        where x_stride_1 is 1, and Triton is told of x_stride_0 and x_size_1 that they are multiples of 16
->  x = tl.load(x_ptr + rows[:, None] * 128 + columns[None, :])
        where sizes are declared constexpr, and this one is 128

integers      every size and stride by name: what launching passes, and what grids are computed from
Specialisation  the classes: a new number in a class that was seen compiles nothing
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from ninetoothed import dtypes
from ninetoothed.arrangement import Size
from ninetoothed.definition import KernelDefinition, KernelParameter
from ninetoothed.dtypes import DType
from ninetoothed.errors import ArgumentError, SizeError
from ninetoothed.expr import Expr, as_expr, var
from ninetoothed.runtime.arguments import BoundCall, is_read_by_host, kind_of, problem
from ninetoothed.runtime.conditions import SizeCondition, conditions_of
from ninetoothed.runtime.sizes import evaluate
from ninetoothed.runtime.vectors import SourceDimension, half_divisible, lines
from ninetoothed.specialisation import ArgumentClass, Specialisation
from ninetoothed.symbol import Symbol, leaves_of, plain_name
from ninetoothed.tiling import Tiling, are_alike

ALIGNMENT = 16
# Indices run past the last element by up to a tile; with this much room they do not wrap around in 32 bits.
WIDE = 2**31 - 2**24
# Programs that CUDA counts along the second and the third axis of a launch; along the first there may be 2^31 - 1.
HIGHEST = 2**16 - 1


@dataclass(frozen=True)
class SpecialisationPlan:
    """What is known of a kernel's sizes before any call."""

    definition: KernelDefinition

    @cached_property
    def roles(self) -> tuple[str, ...]:
        return tuple(kind_of(parameter) for parameter in self.definition.parameters)

    @cached_property
    def needed(self) -> frozenset[str]:
        """Names of sizes that the arrangements of touched parameters mention."""
        used = (parameter for parameter in self.definition.parameters if kind_of(parameter) == "tensor")
        return frozenset(name for parameter in used for name in parameter.arrangement.symbols)

    @cached_property
    def exact(self) -> frozenset[str]:
        """Sizes declared constexpr."""
        sizes = (size for parameter in self.definition.parameters for size in parameter.source.sizes)
        return frozenset(name for size in sizes for name, leaf in leaves_of(size).items() if leaf.constexpr)

    @cached_property
    def sizes(self) -> frozenset[str]:
        """Every name that a size of some parameter gives."""
        return frozenset(
            size.name
            for parameter in self.definition.parameters
            for size in parameter.source.sizes
            if not isinstance(size, int) and size.name is not None
        )

    @cached_property
    def tiled(self) -> frozenset[str]:
        """Sizes that bound what is loaded at once: those in a parameter's innermost level."""
        used = (parameter for parameter in self.definition.parameters if kind_of(parameter) == "tensor")
        names = (name for parameter in used for size in parameter.innermost for name in leaves_of(size))
        return frozenset(names) & self.sizes

    @cached_property
    def lines(self) -> tuple[tuple[SourceDimension, ...], ...]:
        """The lines of each tensor."""
        pairs = zip(self.definition.parameters, self.roles, strict=True)
        return tuple(lines(parameter.arrangement) for parameter, role in pairs if role == "tensor")

    @cached_property
    def conditions(self) -> tuple[SizeCondition, ...]:
        """What the arrangements of touched parameters ask of their sizes."""
        used = (parameter for parameter in self.definition.parameters if kind_of(parameter) == "tensor")
        return tuple(each for parameter in used for each in conditions_of(parameter, self._others(parameter)))

    def _others(self, parameter: KernelParameter) -> frozenset[str]:
        """The names of sizes of other parameters."""
        own = {name for size in parameter.source.sizes for name in leaves_of(size)}
        others = (size for each in self.definition.parameters if each is not parameter for size in each.source.sizes)
        return frozenset(name for size in others for name in leaves_of(size)) - own

    @cached_property
    def outermost(self) -> tuple[tuple[str, tuple[Tiling, ...]], ...]:
        """The names of touched tensors, and the plain tilings of their outermost dimensions."""
        return tuple(
            (parameter.name, tuple(tiling for dimension in levels[0] for tiling in dimension if tiling.is_plain))
            for parameter, role, levels in zip(
                self.definition.parameters, self.roles, self.definition.tilings, strict=True
            )
            if role == "tensor" and levels[0]
        )

    @cached_property
    def decisive(self) -> frozenset[str]:
        """The block sizes on which it depends whether a call is one for this kernel."""
        used = (parameter for parameter in self.definition.parameters if kind_of(parameter) == "tensor")
        sizes: list[int | Symbol | Expr] = [size for parameter in used for size in parameter.outermost]
        sizes += [size for condition in self.conditions for size in (condition.size, condition.wanted)]
        return (
            frozenset(name for size in sizes for name in as_expr(size).variables) & self.definition.meta_symbols.keys()
        )

    @cached_property
    def twins(self) -> tuple[tuple[str, str], ...]:
        """(name, earlier name) of sizes in equal formulas at equal places of two arrangements: likely one number.

        Those of outermost dimensions that are cut alike are surely one, wherever tiles are cut again below them.
        """
        order = {
            size.name: (position, dim)
            for position, parameter in enumerate(self.definition.parameters)
            for dim, size in enumerate(parameter.source.sizes)
            if not isinstance(size, int) and size.name is not None
        }

        def later_first(a: str, b: str) -> tuple[str, str]:
            return (b, a) if order[a] < order[b] else (a, b)

        earliest: dict[tuple, list[str]] = {}
        pairs: set[tuple[str, str]] = set()
        for place, size in self._places():
            formula = as_expr(size)
            names = sorted(formula.variables & order.keys(), key=order.__getitem__)
            formula = formula.subs({name: var(f"_{number}") for number, name in enumerate(names)})
            for pair in zip(names, earliest.setdefault((*place, formula), names), strict=True):
                pairs.add(later_first(*pair))
        for first, second in self._cut_alike():
            if {first, second} <= order.keys():
                pairs.add(later_first(first, second))
        return tuple(sorted(pairs, key=lambda pair: [order[name] for name in pair]))

    def _cut_alike(self) -> Iterator[tuple[str, str]]:
        """The sizes of dimensions of two outermost levels that are cut alike."""
        used = zip(self.definition.tilings, self.roles, strict=True)
        shapes = [levels[0] for levels, role in used if role == "tensor"]
        for own, others in itertools.combinations(shapes, 2):
            if len(own) == len(others):
                alike = (pair for pair in zip(own, others, strict=True) if are_alike(*pair))
                for a, b in (tilings for pair in alike for tilings in zip(*pair, strict=True)):
                    yield str(a.size), str(b.size)

    def _places(self) -> Iterator[tuple[tuple[int, ...], Size]]:
        """Where each size of each arrangement stands: how many levels, which, its rank, which dimension."""
        for parameter, role in zip(self.definition.parameters, self.roles, strict=True):
            if role == "tensor":
                levels = parameter.arrangement.levels
                for level, shape in enumerate(levels):
                    for dim, size in enumerate(shape):
                        yield (len(levels), level, len(shape), dim), size


def measure(plan: SpecialisationPlan, call: BoundCall) -> dict[str, int]:
    """The value of every constexpr symbol, size and stride, by name.

    Raises `ArgumentError` where one name would have two values, and where an arrangement mentions a size that no
    parameter gives.
    """
    definition, values = plan.definition, dict(call.constants)
    expressions: list[tuple[KernelParameter, int, Size, int]] = []
    for parameter, role, tensor in zip(definition.parameters, plan.roles, call.arguments, strict=True):
        rank = parameter.source.ndim
        if not isinstance(tensor, torch.Tensor) or tensor.ndim != rank or (role == "unused" and not rank):
            continue
        for dim, (size, number) in enumerate(zip(parameter.source.sizes, tensor.shape, strict=True)):
            if isinstance(size, int):
                continue
            if size.name is None:
                expressions.append((parameter, dim, size, number))
            elif (role == "tensor" or size.name in plan.needed) and values.setdefault(size.name, number) != number:
                raise _disagreement(definition, parameter, dim, size, number, values[size.name])
        if role == "tensor":
            for stride, number in zip(parameter.source.strides, tensor.stride(), strict=True):
                name = plain_name(stride)
                if values.setdefault(name, number) != number:
                    first = next(other.name for other in definition.parameters if stride in other.source.strides)
                    what = f"has stride {number} where `{first}` has {values[name]}, and both are one Tensor"
                    raise problem(definition, parameter, what, "make a Tensor of its own for each parameter")
    for parameter, dim, size, number in expressions:
        expected = as_expr(size).evaluate(values) if as_expr(size).variables <= values.keys() else number
        if expected != number:
            raise _disagreement(definition, parameter, dim, size, number, expected)
    missing = plan.needed - values.keys() - definition.meta_symbols.keys()
    if missing:
        raise ArgumentError(
            f"kernel `{definition.name}`: its arrangement uses {', '.join(sorted(missing))}, which no argument gives; "
            "pass the tensor that it is a size of, with the right rank"
        )
    return values


def _disagreement(definition, parameter, dim, size, number, expected):
    what = f"has size {number} in dimension {dim}, and {size} is {expected}"
    error = problem(definition, parameter, what, "pass tensors whose sizes agree")
    error.parameters = ()  # It may be about whichever gives the other number.
    return error


def specialise(
    plan: SpecialisationPlan, call: BoundCall, values: Mapping[str, int], device: torch.device
) -> Specialisation:
    """The class of a call on a device; block sizes and the grid are added by `with_blocks` once they are chosen."""
    constants = {name: value for name, value in values.items() if name in plan.exact or name in dict(call.constants)}
    strides: dict[str, int] = {}
    for parameter, role, tensor in zip(plan.definition.parameters, plan.roles, call.arguments, strict=True):
        if role == "tensor":
            for size, stride, length in zip(tensor.shape, parameter.source.strides, tensor.stride(), strict=True):
                # Along a dimension of one element the only index is 0: its stride, which may be anything, says nothing.
                strides[plain_name(stride)] = length if size != 1 else 0
    sizes = {name: values[name] for name in plan.sizes & values.keys() if name not in constants}
    constants |= {name: 1 for name, size in sizes.items() if size == 1}
    constants |= {name: stride for name, stride in strides.items() if stride in (0, 1)}
    constants |= _dense_constants(plan, {**values, **strides}, constants)
    aliases = _aliases(plan, {**values, **strides}, constants)
    products = tuple(_products(plan, {**values, **strides}, constants, aliases))
    known = {*constants, *aliases, *(name for name, _, _ in products)}
    classes = {name: n for name, n in {**sizes, **strides}.items() if name not in known}
    return Specialisation(
        arguments=_arguments(plan, call, device),
        constants=tuple(sorted(constants.items())),
        aliases=tuple(sorted(aliases.items())),
        products=tuple(sorted(products)),
        divisible=frozenset(name for name, number in classes.items() if number % ALIGNMENT == 0),
        buckets=tuple(sorted((name, next_power_of_two(classes[name])) for name in plan.tiled & classes.keys())),
        half_divisible=half_divisible(plan.lines, constants, aliases, classes),
    )


def _aliases(plan: SpecialisationPlan, values: Mapping[str, int], constants: Mapping[str, int]) -> dict[str, str]:
    aliases: dict[str, str] = {}
    for name, other in plan.twins:
        if name != other and not {name, other} & constants.keys() and values[name] == values[other]:
            aliases.setdefault(name, aliases.get(other, other))
    for stride, coefficient, names in _dense(plan, values, constants):
        if len(names) == 1 and coefficient == 1 and stride not in constants and values[stride] == values[names[0]]:
            aliases[stride] = aliases.get(names[0], names[0])
    return aliases


def _products(
    plan: SpecialisationPlan, values: Mapping[str, int], constants: Mapping[str, int], aliases: Mapping[str, str]
) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """Strides that are a number times sizes."""
    for stride, coefficient, names in _dense(plan, values, constants):
        number = math.prod((values[name] for name in names), start=coefficient)
        if names and values[stride] == number and stride not in constants and stride not in aliases:
            yield stride, coefficient, tuple(aliases.get(name, name) for name in names)


def _dense_constants(
    plan: SpecialisationPlan, values: Mapping[str, int], constants: Mapping[str, int]
) -> dict[str, int]:
    return {
        stride: coefficient
        for stride, coefficient, names in _dense(plan, values, constants)
        if not names and stride not in constants and values[stride] == coefficient
    }


def _dense(
    plan: SpecialisationPlan, values: Mapping[str, int], constants: Mapping[str, int]
) -> Iterator[tuple[str, int, list[str]]]:
    """What strides would be without gaps in memory, as a number and the names of sizes that multiply it.

    Where they are so, a flattened index is an offset and need not be taken apart. Only strides of flattened parameters
    are of interest, and those that follow from sizes that are known exactly.
    """
    for parameter, role in zip(plan.definition.parameters, plan.roles, strict=True):
        if role == "tensor":
            is_flattened = any(step.operation in ("flatten", "ravel") for step in parameter.arrangement.steps)
            coefficient = 1
            names: list[str | None] = []
            dimensions = zip(parameter.source.sizes, parameter.source.strides, strict=True)
            named = [(size, plain_name(stride)) for size, stride in dimensions]
            in_memory = [dimension for dimension in reversed(named) if values[dimension[1]]]
            in_memory.sort(key=lambda dimension: values[dimension[1]])
            for (size, _), (_, stride) in itertools.pairwise(in_memory):
                name = None if isinstance(size, int) else size.name
                number = size if isinstance(size, int) else constants.get(name) if name is not None else None
                coefficient, names = coefficient * (number or 1), names if number is not None else [*names, name]
                known = [name for name in names if name is not None]
                if len(known) == len(names) and (is_flattened or not names):
                    yield stride, coefficient, known


def _arguments(plan: SpecialisationPlan, call: BoundCall, device: torch.device) -> tuple[ArgumentClass, ...]:
    tensors = [value for role, value in zip(plan.roles, call.arguments, strict=True) if role == "tensor"]
    double = any(tensor.dtype == torch.float64 for tensor in tensors)
    return tuple(_argument(role, value, double, device) for role, value in zip(plan.roles, call.arguments, strict=True))


def _argument(role: str, value: Any, double: bool, device: torch.device) -> ArgumentClass:
    if role == "unused":
        return ArgumentClass("absent")
    if role == "constant":
        return ArgumentClass(
            "constant", _number_type(value, double) if isinstance(value, int | float) else None, value=value
        )
    if is_read_by_host(value, device):
        return ArgumentClass("scalar", dtypes.from_torch(value.dtype))
    if isinstance(value, torch.Tensor):
        aligned = device.type != "cuda" or value.data_ptr() % ALIGNMENT == 0
        return ArgumentClass("tensor", dtypes.from_torch(value.dtype), _is_wide(value), aligned)
    return ArgumentClass("scalar", _number_type(value, double))


def _number_type(value, double: bool) -> DType:
    if isinstance(value, bool):
        return dtypes.int1
    if isinstance(value, float):
        return dtypes.float64 if double else dtypes.float32
    if -(2**31) <= value < 2**31:
        return dtypes.int32
    return dtypes.int64 if value < 2**63 else dtypes.uint64


def _is_wide(tensor: torch.Tensor) -> bool:
    """Whether an offset, an index or a size may need more than 32 bits."""
    extents = [(size, stride) for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size != 1]
    last = sum((size - 1) * stride for size, stride in extents)
    return max(last, tensor.numel(), *(max(pair) for pair in extents), 0) >= WIDE


def next_power_of_two(n: int) -> int:
    """The least power of two that is at least `n`; 0 for 0."""
    return 1 << (n - 1).bit_length() if n > 0 else 0


def outermost_shapes(plan: SpecialisationPlan, values: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """The numeric outermost shape of every parameter that says how many programs there are.

    Scalars do not, and neither do parameters that the application never touches.
    """
    return {
        parameter.name: tuple(evaluate(as_expr(size), values) for size in parameter.outermost)
        for parameter, role in zip(plan.definition.parameters, plan.roles, strict=True)
        if role == "tensor" or (role == "scalar" and parameter.outermost)
    }


def grid_of(plan: SpecialisationPlan, shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    """The common outermost shape.

    Raises `ArgumentError` naming two parameters whose shapes differ beyond dimensions of size 1, and for more than
    2^31 - 1 programs.
    """
    definition = plan.definition
    if not shapes:
        return ()
    first, reference = next(iter(shapes.items()))
    for name, shape in shapes.items():
        if _without_ones(shape) != _without_ones(reference):
            raise SizeError(
                f"kernel `{definition.name}`: the outermost shapes of parameters `{first}` {reference} and `{name}` "
                f"{shape} differ; each of their elements is one program, so arrange both into as many tiles (sizes of "
                "1 aside), or pass tensors whose sizes agree",
                (first, name),
            )
    if math.prod(reference) > 2**31 - 1:
        raise ArgumentError(
            f"kernel `{definition.name}`: the outermost shape {reference} of parameter `{first}` makes "
            f"{math.prod(reference)} programs, more than 2^31 - 1; arrange it into larger tiles"
        )
    return reference


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


def with_blocks(
    specialisation: Specialisation,
    blocks: Mapping[str, int],
    shapes: Mapping[str, tuple[int, ...]],
    grid: tuple[int, ...],
) -> Specialisation:
    """The specialisation with block sizes, what the outermost shapes have in common, and how high the grid is."""
    return replace(
        specialisation,
        constants=tuple(sorted({**dict(specialisation.constants), **blocks}.items())),
        shared_grid=len(set(shapes.values())) <= 1,
        spread=math.prod(grid[:-1]) <= HIGHEST,
    )
