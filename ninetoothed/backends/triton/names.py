"""Names of the emitted text: the user's own, with a number where they are taken."""

from __future__ import annotations

from collections.abc import Container

from ninetoothed.backends.triton import syntax


class NameTable:
    """Hands out each name once."""

    def __init__(self, taken=()):
        self._taken = {*syntax.RESERVED, *taken}

    def fresh(self, wanted: str, avoided: Container[str] = ()) -> str:
        """Return `wanted`, or `wanted_1`, `wanted_2` ... where that is taken, or to be avoided."""
        wanted = syntax.identifier(wanted)
        candidate, count = wanted, 0
        while candidate in self._taken or candidate in avoided:
            count += 1
            candidate = f"{wanted}_{count}"
        self._taken.add(candidate)
        return candidate

    def take(self, *names: str) -> None:
        """Reserve names, which are then never handed out."""
        self._taken.update(names)

    def copy(self) -> NameTable:
        """Return a table of its own in which the same names are taken."""
        return NameTable(self._taken)

    def release(self, names: set[str]) -> None:
        """Let names be handed out again, whose block has ended."""
        self._taken -= names
