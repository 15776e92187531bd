"""The record of what was checked so far, part by part: a file that grows from run to run."""

import hashlib
import json
import os
import pathlib
from dataclasses import asdict, dataclass, field

from benchmarks.report import RESULTS, stamp

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATH = RESULTS / "trust.json"


@dataclass
class Progress:
    """The state of a part: its next seed, the cases checked, the seconds that took, and all that was wrong."""

    next: int = 0
    cases: int = 0
    seconds: float = 0.0
    wrong: list[dict] = field(default_factory=list)


@dataclass
class Record:
    """The progress of all parts, for one state of the sources."""

    path: pathlib.Path
    sources: str
    parts: dict[str, Progress]

    @classmethod
    def load(cls, path=PATH) -> "Record":
        """Go on with the file; begin anew where there is none, or where the sources have changed since."""
        sources = fingerprint()
        try:
            kept = json.loads(path.read_text())
        except FileNotFoundError:
            kept = {}
        parts = kept.get("parts", {}) if kept.get("sources") == sources else {}
        return cls(path, sources, {name: Progress(**progress) for name, progress in parts.items()})

    def of(self, name: str) -> Progress:
        return self.parts.setdefault(name, Progress())

    @property
    def cases(self) -> int:
        return sum(part.cases for part in self.parts.values())

    @property
    def wrong(self) -> list[dict]:
        return [wrong for part in self.parts.values() for wrong in part.wrong]

    def save(self):
        """Write the file in one step, so that an interrupted run loses nothing."""
        head = {**stamp(), "cpus": os.cpu_count(), "sources": self.sources, "cases": self.cases}
        parts = {name: asdict(part) for name, part in sorted(self.parts.items())}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_suffix(".tmp")
        text = json.dumps({**head, "wrong": len(self.wrong), "parts": parts}, indent=2, ensure_ascii=False)
        temporary.write_text(text + "\n")
        temporary.replace(self.path)


def fingerprint() -> str:
    """Identify the state of everything that a case depends on in this repository."""
    digest = hashlib.sha256()
    for folder in ("ninetoothed", "ninetoothed_ops", "benchmarks/trust"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
