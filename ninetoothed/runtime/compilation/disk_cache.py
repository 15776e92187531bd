"""Keep results on disk between processes: in a directory of the user's own, where several write without locks.

    written   to a temporary file, then renamed: others see all of a file or none of it
    read      only where a digest of the version, the key and the result fits; anything else is written anew

SECURITY.md says whom this keeps out, and whom it does not.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import json
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ninetoothed import distribution

# Of the files' format; to be raised whenever results of before mean something else, in their form or in their content.
FORMAT = 2
# What is kept, a folder each: what was compiled, texts for Triton, what was measured.
FOLDERS = ("compiled", "triton", "tuned")
# Seconds after which a temporary file is one that a killed process left.
_ABANDONED = 3600


def directory() -> Path:
    """Return `NINETOOTHED_CACHE_DIR`, or `~/.cache/ninetoothed`; a temporary one where that is not the user's own."""
    chosen = os.environ.get("NINETOOTHED_CACHE_DIR") or "~/.cache/ninetoothed"
    try:
        path = Path(chosen).expanduser()
        reason = _distrusted(path)
    except (OSError, RuntimeError) as error:  # a name that cannot be made; a user without a home
        path, reason = Path(chosen), str(error)
    if reason is None:
        return path
    _warn_once(
        f"{path} is not used as a cache: {reason}; this process keeps its kernels in a temporary directory. Let "
        "NINETOOTHED_CACHE_DIR name a directory of your own"
    )
    return temporary()


def _distrusted(path: Path) -> str | None:
    """Say why others may have put files there; None for a directory that is now the user's alone."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.stat()
    if found.st_uid != os.geteuid():
        return f"it belongs to another user ({found.st_uid})"
    if found.st_mode & 0o022:
        return "others may write to it (`chmod 700` it, if you trust what it holds)"
    if found.st_mode & 0o077:
        with suppress(OSError):
            path.chmod(0o700)
    return None


def temporary() -> Path:
    """Return a directory of this process alone, removed when it ends."""
    if not (path := _temporary(os.getpid())).is_dir():  # cleaners empty /tmp while processes run
        _temporary.cache_clear()
        path = _temporary(os.getpid())
    return path


@functools.cache
def _temporary(process: int) -> Path:
    path = Path(tempfile.mkdtemp(prefix="ninetoothed-"))
    atexit.register(_remove, path, process)
    return path


def _remove(path: Path, process: int) -> None:
    """Remove a directory, unless a forked process ends: it is its parent's."""
    if os.getpid() == process:
        shutil.rmtree(path, ignore_errors=True)


@functools.cache
def _warn_once(message: str) -> None:
    warnings.warn(message, stacklevel=4)


def write(path: Path, text: str) -> Path:
    """Write atomically, for this user alone: other processes see all of the file or none of it. Raises OSError."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f"{path.stem}.", suffix=".tmp")  # of mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _sweep(path)
    return path


def _sweep(path: Path) -> None:
    """Remove what processes left that were killed while they wrote this file."""
    with suppress(OSError):
        for left in path.parent.glob(f"{path.stem}.*.tmp"):
            if time.time() - left.stat().st_mtime > _ABANDONED:
                left.unlink(missing_ok=True)


@dataclass(frozen=True)
class DiskRecord:
    """One result in a file of its own, found by all that it depends on.

    key: that, as values of JSON; the file repeats it, so that no other result is ever taken for this one.
    """

    folder: str
    name: str
    key: Mapping[str, Any]

    @property
    def path(self) -> Path:
        return directory() / self.folder / f"{self.name}_{_digest(version(), self.key)[:16]}.json"

    def read(self, understand: Callable[[Any], Any]) -> Any:
        """Read the kept result and return what `understand` makes of it; None where there is none.

        A file that is broken or not of this key and version, and a result that `understand` makes None of, are
        ignored with a warning; writing then replaces them.
        """
        path = self.path
        try:
            kept = json.loads(path.read_bytes())
            is_own = kept["digest"] == self._digest(kept["result"])
            found = understand(kept["result"]) if is_own else None
        except FileNotFoundError:
            return None
        except OSError as error:
            return ignored(path, str(error))
        except (ValueError, KeyError, TypeError, RecursionError):
            found = None
        return ignored(path, "it is not what was written there") if found is None else found

    def write(self, result: Any) -> None:
        """Keep a result; where the disk does not take it, warn once."""
        path = self.path
        kept = {"version": version(), "key": self.key, "result": result, "digest": self._digest(result)}
        try:
            write(path, json.dumps(kept, indent=1, sort_keys=True))
        except OSError as error:
            reason = error.strerror or error
            _warn_once(f"{path.parent} could not be written, so that later processes start anew: {reason}")

    def _digest(self, result: Any) -> str:
        return _digest(version(), self.key, result)


def ignored(path: Path, reason: str) -> None:
    """Warn that a file is not used."""
    warnings.warn(f"{path} is ignored and written anew: {reason}", stacklevel=4)


def kept() -> Iterator[Path]:
    """Yield the files that are kept, in the folders that are ours: the directory may hold others."""
    for folder in FOLDERS:
        yield from (file for file in (directory() / folder).glob("*") if file.is_file())


def clear() -> tuple[int, int]:
    """Remove what is kept; return how many files that were, and of how many bytes."""
    found = list(kept())
    size = sum(file.stat().st_size for file in found)
    for file in found:
        file.unlink(missing_ok=True)
    return len(found), size


@functools.cache
def version() -> str:
    """Return the version that writes and reads: results of others are left alone."""
    return f"{distribution.version() or 'sources'}, format {FORMAT}"


def _digest(*values: Any) -> str:
    """Digest values of JSON, the same for those that come back from a file: tuples are lists there."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
