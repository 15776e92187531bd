"""Tell users which programs race, for what, and how to mend it."""

from __future__ import annotations

from collections.abc import Sequence

from ninetoothed.errors import RaceError
from ninetoothed.races.enumeration import Clash
from ninetoothed.races.question import Question, RaceVerdict
from ninetoothed.wording import listed

_CURE = (
    "give each program elements of its own, let one program do it all (a tile that covers the axis), or use an atomic,"
    " such as `ntl.atomic_add({name}, value)`"
)
_IGNORE = "ignore this `ninetoothed.RaceWarning` with `warnings.filterwarnings`"
_CURE_OF_READS = "store to another tensor than is read, or let one program do it all (a tile that covers the axis)"


def race_error(kernel: str, question: Question, verdict: RaceVerdict) -> RaceError:
    """Make the error for two touches of one element."""
    clash = verdict.clash
    assert clash is not None
    message = f"kernel {kernel!r}: {_what(question.parameter, clash)}"
    return RaceError.at(message, verdict.location)


def undecided(name: str, is_by_index: bool = False) -> str:
    """Say that nothing tells whether stores to a parameter race.

    is_by_index: whether indices that a run gives decide on the place.
    """
    if is_by_index:
        return (
            f"{name!r} is stored to through indices that only a run gives, and nothing tells whether they repeat: which"
            " value stays is not known where two programs, or lanes of one, store to one element, or one reads what"
            f" another stores; where they may, use an atomic, such as `ntl.atomic_add({name}.source[i], value)`; where"
            f" they do not, say so by `Tensor(..., unique_indices=True)` for {name!r}, or {_IGNORE}"
        )
    return (
        "nothing tells whether programs, or lanes of one, store different values to one element of"
        f" {name!r}, or read what others store: which value stays is not known where they do;"
        f" {_CURE.format(name=name)}; where they do not, {_IGNORE}"
    )


def waiting(names: Sequence[str]) -> str:
    """Say that an atomic function decides which programs go on, and that nothing tells whether it orders all stores."""
    return (
        "an atomic function decides here which programs go on, and nothing tells whether that keeps apart all that they"
        f" store to {listed([repr(name) for name in names])} and read of it: which value stays is not known where two"
        " are at one element at a time; change what they share by atomics alone, such as"
        f" `ntl.atomic_add({names[0]}, value)`, or, where one waits for the other, {_IGNORE}"
    )


def _what(name: str, clash: Clash) -> str:
    first, second = clash.programs
    element = f"element {_number(clash.element)} of {name!r}" if clash.element else f"an element of {name!r}"
    if not all(site.is_store for site in clash.sites):
        lines = _line(clash)
        return (
            f"program {_number(second)} reads {element}, which program {_number(first)} stores to{lines}: programs run"
            f" in any order, so what is read is not known; {_CURE_OF_READS}"
        )
    if first == second:
        who = f"lanes {_number(clash.lanes[0])} and {_number(clash.lanes[1])} of one program"
    else:
        who = f"programs {_number(first)} and {_number(second)}"
    return (
        f"{who} store what may be different values to {element}{_line(clash)}: which one stays is not known;"
        f" {_CURE.format(name=name)}"
    )


def _line(clash: Clash) -> str:
    """Name the other line, where there are two."""
    here, there = (site.location for site in clash.sites)
    return "" if there is None or here is None or here.line == there.line else f" (and line {there.line})"


def _number(indices: Sequence[int]) -> str:
    return str(indices[0]) if len(indices) == 1 else str(tuple(indices))
