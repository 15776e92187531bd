"""Faults of machine code for Hopper: registers of its wgmmas, which run on while others follow, that are lost.

ptxas before CUDA 13.3 loses some (Triton issue 9433, pull request 11781):

    q = q * scale                          HMUL2 R88, R88, R12
    for i in range(n):                 loop:
        s = dot(q, k[i])                   HGMMA R24, R88, gdesc[UR4], RZ
        o += dot(weights(s), v[i])         FADD R88, R24, -R13                  q is lost to all later iterations
                                           HGMMA R56, R88, gdesc[UR8], R56

Two faults are looked for:
- PTX says that a left operand is the same in every iteration of a loop, and the loop writes other values to its
  registers;
- a wgmma is in flight, and before the wait that covers it an instruction writes registers of its left operand, or
  reads or writes registers of its accumulator.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.machine_code import ptx, sass
from tests.machine_code.code import Code, Wgmma

# Groups in flight are counted up to here; nobody waits for more.
_MOST_GROUPS = 8
_NOTHING = Code((), ())


@dataclass(frozen=True)
class Fault:
    """A register that is lost, or the reason why that cannot be told."""

    function: str
    reason: str

    def __str__(self) -> str:
        return f"in `{self.function}`: {self.reason}"


def faults(text: str, code: str) -> tuple[Fault, ...]:
    """Compare a PTX module with its machine code: no faults prove that the machine code loses no register."""
    try:
        machine = sass.functions(code)
        source = ptx.functions(text)
        pairs = {name: (source.get(name, _NOTHING), machine.get(name, _NOTHING)) for name in {**source, **machine}}
        return tuple(
            Fault(name, reason)
            for name, pair in pairs.items()
            if any(wgmma.left for code in pair for wgmma in code.wgmmas.values())
            for reason in _reasons(*pair)
        )
    except (LookupError, ValueError, RecursionError) as error:
        return (Fault("?", f"it cannot be followed: {error}"),)


def _reasons(source: Code, machine: Code) -> Iterator[str]:
    given, made = (list(map(_signature, code.wgmmas.values())) for code in (source, machine))
    # Where warps have several tasks, these may stand in another order.
    is_ordered = given == made
    if not is_ordered and (sorted(given) != sorted(made) or any(_is_held(source, n) for n in source.wgmmas)):
        yield f"{len(given)} products of PTX do not match {len(made)} of the machine code"
        return
    for n, place in zip(source.wgmmas, machine.wgmmas):
        yield from _overwritten(source, n, machine, place) if is_ordered else ()
        yield from _disturbed(machine, place)


def _signature(wgmma: Wgmma) -> tuple[str, int, int]:
    return wgmma.shape, len(wgmma.left), len(wgmma.accumulator)


def _is_held(source: Code, n: int) -> bool:
    """Tell whether registers hold the left operand of a product for all of a loop around it."""
    left = source.wgmmas[n].left
    return bool(left) and any(
        all(source.is_invariant(register, n, loop) for register in left) for loop in source.loops_of(n)
    )


def _overwritten(source: Code, n: int, machine: Code, place: int) -> Iterator[str]:
    """Yield registers of a left operand that is the same in every iteration by the PTX, and not in the machine code."""
    for loop, own in zip(source.loops_of(n), machine.loops_of(place)):
        if all(source.is_invariant(register, n, loop) for register in source.wgmmas[n].left):
            for register in machine.wgmmas[place].left:
                if not machine.is_invariant(register, place, own):
                    text = machine.instructions[place].text
                    yield f"{register}, loop-invariant, is overwritten in the loop of `{text}`"


def _disturbed(machine: Code, place: int) -> Iterator[str]:
    """Yield registers of a wgmma in flight that another instruction touches."""
    wgmma, text = machine.wgmmas[place], machine.instructions[place].text
    read = frozenset(wgmma.accumulator)
    written = read.union(wgmma.left)
    for n in sorted(_in_flight(machine, place)):
        other = machine.instructions[n]
        if other.wgmma is not None and other.wgmma.accumulator == wgmma.accumulator:
            touched = read.intersection(other.wgmma.left)  # they add to it one after the other
        else:
            touched = other.writes & written | other.reads & read
        for register in sorted(touched):
            yield f"{register} of `{text}`, not yet waited for, is touched by `{other.text}`"


def _in_flight(machine: Code, place: int) -> set[int]:
    """Return the instructions that may run between a wgmma and the wait that covers it."""
    own_commits = machine.instructions[place].commits
    pending, seen, found = [(n, 0, own_commits) for n in machine.following(place)], set(), set()
    while pending:
        state = pending.pop()
        if state in seen:
            continue
        seen.add(state)
        n, later, is_committed = state  # later: groups that were committed after its own
        other = machine.instructions[n]
        if other.waits is not None and is_committed and other.waits <= later:
            continue
        found.add(n)
        if other.commits:
            later, is_committed = min(later + is_committed, _MOST_GROUPS), True
        pending += [(each, later, is_committed) for each in machine.following(n)]
    return found
