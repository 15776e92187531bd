"""Count the work of a launch by its program: multiplications, special functions, bytes that programs load and store.

Each operation counts as often as the loops around it run, on average over the grid: the rounds of a loop may depend on
a program's index, as those of a causal attention do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy

from ninetoothed import ir
from ninetoothed.expr import Expr, as_expr
from ninetoothed.expr.arrays import Arrays
from ninetoothed.expr.sizes import evaluate
from ninetoothed.passes.operations import is_dot

# The special functions that each of these takes of a lane; all others are arithmetic.
_SPECIAL = {
    **dict.fromkeys(("exp", "exp2", "log", "log2", "sqrt", "sqrt_rn", "rsqrt", "sin", "cos", "truediv", "div_rn"), 1),
    **dict.fromkeys(("tanh", "sigmoid", "pow", "fast_tanhf", "fast_powf", "fast_tanf"), 2),
    **dict.fromkeys(
        ("fast_cosf", "fast_exp10f", "fast_expf", "fast_log10f", "fast_log2f", "fast_logf", "fast_sinf"), 1
    ),
    "fast_dividef": 1,
}
# The places along an axis of the grid at which rounds are counted, and a number that no size exceeds.
_PLACES, _MANY = 256, 2**40


@dataclass(frozen=True)
class Multiplied:
    """The products of tiles of so many bits an element and rows; `is_exact`: those of whole float32 or float64."""

    bits: int
    rows: int
    is_exact: bool


@dataclass(frozen=True)
class Work:
    """The work of an average program, and what memory moves for all.

    products: multiplications with their additions. special: exponentials and the like. copied: bytes that it loads and
    stores. arithmetic: other operations on a lane. moved: bytes that memory gives or takes at least, each element once.
    limit: what the counts are where data decide on loops: "exact" without such, "most" or "least".
    """

    programs: int
    products: Mapping[Multiplied, float]
    special: float
    arithmetic: float
    copied: float
    moved: float
    limit: str = "exact"


def work_of(program: ir.Program, values: Mapping[str, int]) -> Work:
    """Count the work of a program, a tile each; values: every size and block by name."""
    counter = _Counter(values, _places(program, values))
    counter.block(program.body, counter.ones)
    programs = math.prod(max(evaluate(as_expr(size), values), 0) for size in program.grid)
    moved = sum(_moved(each, program, values, counter.bytes, programs) for each in program.parameters)
    products = {kind: float(numpy.mean(count)) for kind, count in counter.products.items()}
    copied = sum(float(numpy.mean(count)) for count in counter.bytes.values())
    special, arithmetic = float(numpy.mean(counter.special)), float(numpy.mean(counter.arithmetic))
    return Work(programs, products, special, arithmetic, copied, moved, counter.limit)


def _moved(
    parameter: ir.Parameter, program: ir.Program, values: Mapping[str, int], counted: Mapping[Any, Any], programs: int
) -> float:
    """Count the bytes of a tensor that are read, and those that are written: no more than programs load and store."""
    if parameter.role != "tensor":
        return 0
    sizes = zip(parameter.sizes, parameter.strides, strict=True)
    own = math.prod(evaluate(as_expr(size), values) for size, stride in sizes if evaluate(as_expr(stride), values))
    whole = own * parameter.dtype.bits / 8
    places = (counted.get((kind, parameter.name)) for kind in (ir.Load, ir.Store))
    if _is_pointed(parameter.name, program):
        return whole
    return sum(min(whole, float(numpy.mean(each)) * programs) for each in places if each is not None)


def _is_pointed(name: str, program: ir.Program) -> bool:
    return any(
        isinstance(each, ir.Apply) and each.function == "data_ptr" and each.attribute("parameter") == name
        for each in ir.walk(program.body)
    )


def _places(program: ir.Program, values: Mapping[str, int]) -> dict[str, Any]:
    """Return indices of programs, spread over the axes of the grid on which the rounds of loops depend."""
    loops = (each for each in ir.walk(program.body) if isinstance(each, ir.For))
    names = frozenset[str]().union(*(e.variables for loop in loops for e in ir.expressions(loop)))
    extents = {
        axis: max(evaluate(as_expr(size), values), 1) for axis, size in zip(program.axes, program.grid, strict=True)
    }
    axes = [axis for axis in program.axes if axis in names]
    most = _PLACES if len(axes) < 3 else 16
    spread = [numpy.linspace(0, extents[axis] - 1, min(extents[axis], most)).astype(numpy.int64) for axis in axes]
    mesh = [numpy.ravel(each) for each in numpy.meshgrid(*spread, indexing="ij")]
    return {**dict.fromkeys(program.axes, numpy.zeros(1, numpy.int64)), **dict(zip(axes, mesh, strict=True))}


@dataclass
class _Counter:
    values: Mapping[str, int]
    places: Mapping[str, Any]
    products: dict[Multiplied, Any] = field(default_factory=dict)
    bytes: dict[Any, Any] = field(default_factory=dict)
    special: Any = 0.0
    arithmetic: Any = 0.0
    multiplied: set[ir.Value] = field(default_factory=set)
    limit: str = "exact"

    def __post_init__(self) -> None:
        self.known: dict[str, Any] = {**self.values, **self.places}
        self.ones = numpy.ones(max((len(each) for each in self.places.values()), default=1))

    def block(self, block: ir.Block, times: Any) -> None:
        for operation in block:
            match operation:
                case ir.Apply():
                    self.apply(operation, times)
                case ir.Load(access=access) | ir.Store(access=access):
                    lanes, key = math.prod(access.type.lanes), (type(operation), access.parameter)
                    self.bytes[key] = self.bytes.get(key, 0.0) + times * lanes * access.type.dtype.bits / 8
                case ir.For():
                    self.block(operation.body, times * self.rounds(operation))
                case ir.While():
                    self.limit = "least"
                    self.block(operation.body, times)
                case ir.If(then_body=then, else_body=other):
                    self.block(then if len(then) >= len(other) else other, times)

    def apply(self, operation: ir.Apply, times: Any) -> None:
        if is_dot(operation):
            (*rest, rows, depth), columns = operation.operands[0].type.lanes, operation.operands[1].type.lanes[-1]
            dtype = operation.operands[0].type.dtype
            precision = operation.attribute("input_precision") if dtype.bits == 32 else None
            kind = Multiplied(dtype.bits, rows, is_exact=dtype.bits == 64 or precision == "ieee")
            count = math.prod(rest) * rows * depth * columns * (3 if precision == "tf32x3" else 1)
            self.products[kind] = self.products.get(kind, 0.0) + times * count
            self.multiplied.add(operation.result)
            return
        if operation.function == "add" and not self.multiplied.isdisjoint(operation.operands):
            return  # The multipliers add.
        lanes = max((math.prod(value.type.lanes) for value in (*operation.operands, *operation.results)), default=1)
        if operation.function == "sort":  # The steps of a bitonic network.
            bits = operation.result.type.lanes[-1].bit_length() - 1
            lanes *= max(bits * (bits + 1) // 2, 1)
        if operation.function in _SPECIAL:
            self.special = self.special + times * lanes * _SPECIAL[operation.function]
        elif not operation.primitive.moves_lanes and operation.function not in ("full", "broadcast"):
            self.arithmetic = self.arithmetic + times * lanes

    def rounds(self, loop: ir.For) -> Any:
        """Count the rounds of a loop at each place; of one that data decide on, as many as its sizes allow."""
        start, step = self.number(loop.start, 0), self.number(loop.step, 1)
        stop = self.number(loop.stop, _MANY)
        data = frozenset(name for name, _ in loop.bindings)
        if any(data & e.variables for e in (loop.start, loop.stop, loop.step)):
            self.limit = "most" if self.limit == "exact" else self.limit
        step = numpy.where(step == 0, 1, step)
        found = numpy.maximum(-(-(stop - start) // step), 0)
        if numpy.max(found) >= _MANY // 2**20:
            self.limit, found = "least", numpy.ones_like(found)
        self.known[loop.variable] = start + step * numpy.maximum(found - 1, 0) // 2
        for name, formula in loop.counters:
            self.known[name] = self.number(formula, 0)
        return found

    def number(self, e: Expr, unknown: int) -> Any:
        return as_expr(e).fold(Arrays({name: self.known.get(name, unknown) for name in as_expr(e).variables}))
