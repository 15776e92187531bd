"""The findings of `verify`: a claim and its verdict each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["proved", "refuted", "not decided"]


@dataclass(frozen=True)
class Finding:
    """One claim on one parameter.

    claim: such as "every element is written". verdict: whether it is proved for all sizes, refuted by an example, or
    neither. reason: the example, or what is not decided. line: the user's, as "file:line"; "" where it is not known.
    """

    parameter: str
    claim: str
    verdict: Verdict
    reason: str = ""
    line: str = ""


@dataclass(frozen=True)
class Verification:
    """The findings on a kernel. `print` shows them as a table.

    name: the kernel's. scope: which calls are meant. notes: what else was found, such as how often elements are read.
    """

    name: str
    scope: str
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The worst of all: "refuted" if any is, "not decided" if any is not, else "proved"."""
        found = {finding.verdict for finding in self.findings}
        return "refuted" if "refuted" in found else "not decided" if "not decided" in found else "proved"

    def __bool__(self) -> bool:
        return self.verdict == "proved"

    def __str__(self) -> str:
        width = max((len(f"{each.parameter}: {each.claim}") for each in self.findings), default=0)
        lines = [f"kernel {self.name}: {self.verdict}, {self.scope}"]
        for each in self.findings:
            lines.append(f"    {f'{each.parameter}: {each.claim}':<{width}}  {each.verdict}")
            lines += [f"        {text}" for text in (each.reason, each.line) if text]
        return "\n".join([*lines, *(f"    {note}" for note in self.notes)])

    __repr__ = __str__
