"""Programs: their parameters, their grid, and what they ask of a call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ninetoothed.dtypes import DType
from ninetoothed.expr import Expr, Facts
from ninetoothed.free_names import FreeName
from ninetoothed.ir.nodes import Block, SourceLocation


@dataclass(frozen=True)
class Parameter:
    """A kernel parameter that the program uses.

    role: "tensor" for memory, "scalar" for a number that each call gives.
    sizes, strides: numbers where the specialisation knows them, else the variables of run-time arguments.
    wide: whether offsets need 64 bits.
    """

    name: str
    role: str
    dtype: DType
    sizes: tuple[Expr, ...] = ()
    strides: tuple[Expr, ...] = ()
    wide: bool = False


@dataclass(frozen=True)
class Requirement:
    """Two expressions that must be equal numbers in a call: later stages rely on it.

    left, right: their variables are sizes of parameters.
    message: tells what has to fit, of which parameters, and the remedy.
    location: the place in the user's source that needs it.
    is_width: whether 32 bits hold a number if the two are equal (see `frontend.widths`).
    """

    left: Expr
    right: Expr
    message: str
    location: SourceLocation | None = None
    is_width: bool = False


@dataclass(frozen=True)
class Program:
    """The program of one element of the outermost level; a launch runs one for each.

    grid: the outermost shape.
    axes: the name of the program index along each dimension of the grid.
    facts: the ranges and divisors of sizes, strides, program indices and lanes.
    requirements: assumptions about the sizes of a call, to be checked before it is launched.
    free_names: the names outside the application that were read: with other values it is another program.
    footprints: what it touches of memory (see `ninetoothed.races`); None where it writes nothing.
    in_place: whether two parameters may be the same memory.
    """

    name: str
    parameters: tuple[Parameter, ...]
    grid: tuple[Expr, ...]
    axes: tuple[str, ...]
    body: Block
    facts: Facts
    requirements: tuple[Requirement, ...] = ()
    free_names: tuple[FreeName, ...] = ()
    footprints: Any = field(default=None, compare=False, repr=False)
    in_place: bool = True

    def parameter(self, name: str) -> Parameter:
        """Return the parameter of a name."""
        return next(parameter for parameter in self.parameters if parameter.name == name)
