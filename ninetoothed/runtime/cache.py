"""What is kept on disk between processes: where, and how several of them write it without disturbing each other."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


def directory() -> Path:
    """`NINETOOTHED_CACHE_DIR`, or `~/.cache/ninetoothed`."""
    chosen = os.environ.get("NINETOOTHED_CACHE_DIR")
    return Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "ninetoothed"


def write(path: Path, text: str) -> Path:
    """Write atomically: other processes see all of the file or none of it. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".tmp")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


@dataclass(frozen=True)
class Record:
    """One result in a file of its own, found by all that it depends on.

    key: that, as values of JSON; the file repeats it, so that no other result is ever taken for this one.
    """

    kind: str
    name: str
    key: Mapping[str, Any]

    @property
    def path(self) -> Path:
        digest = hashlib.sha256(json.dumps(self.key, sort_keys=True).encode()).hexdigest()[:16]
        return directory() / self.kind / f"{self.name}_{digest}.json"

    def read(self, understand: Callable[[Any], Any]) -> Any:
        """What `understand` makes of the kept result; None where there is none.

        A file that is broken or not of this key, and a result that `understand` makes None of, are ignored with a
        warning; writing then replaces them.
        """
        try:
            text = self.path.read_text()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            return self._ignored(str(error))
        try:
            kept = json.loads(text)
            found = understand(kept["result"]) if kept["key"] == self._normal(self.key) else None
        except (ValueError, KeyError, TypeError, RecursionError):
            found = None
        return self._ignored("it is not what was written there") if found is None else found

    def _ignored(self, reason: str) -> None:
        warnings.warn(f"{self.path} is ignored and written anew: {reason}", stacklevel=3)

    def write(self, result: Any) -> None:
        """Keep a result; where the disk does not take it, warn."""
        try:
            write(self.path, json.dumps({"key": self.key, "result": result}, indent=1, sort_keys=True))
        except OSError as error:
            warnings.warn(f"{self.path} could not be written, so its result is lost: {error}", stacklevel=2)

    @staticmethod
    def _normal(value: Any) -> Any:
        """As it comes back from a file: tuples are lists."""
        return json.loads(json.dumps(value))
