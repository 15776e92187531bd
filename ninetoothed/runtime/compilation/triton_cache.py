"""Find machine code that an earlier process compiled in Triton's own cache, by a key that takes no time to compute.

Triton's key holds the content of its whole library, half a gigabyte, which it reads and hashes once a process: a third
of a second before the first launch. Here the files' sizes and times stand for their content, and what is kept under
that key is the key of Triton's, with a digest of what it has there.

Triton's cache is never read otherwise: each compilation gets a key of its own there, so that files that somebody broke
or put there are met under no key that anybody asks for.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import json
import os
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ninetoothed.runtime import private_triton
from ninetoothed.runtime.compilation import assembler, disk_cache, ptx
from ninetoothed.runtime.compilation.assembler import Assembler
from ninetoothed.runtime.compilation.disk_cache import DiskRecord
from ninetoothed.runtime.missing import tell

# Triton's settings are the process's.
_REDIRECTING = threading.RLock()


@dataclass(frozen=True)
class _Kept:
    """A kernel in Triton's cache: its key there, a digest of it, and whether its machine code is sound."""

    hash: str
    digest: str
    is_sound: bool

    @classmethod
    def understood(cls, result: dict[str, Any]) -> _Kept | None:
        kept = cls(result["hash"], result["digest"], result["is_sound"])
        is_kept = isinstance(kept.hash, str) and isinstance(kept.digest, str) and isinstance(kept.is_sound, bool)
        return kept if is_kept else None


def compile(source: Any, target: Any, options: dict[str, Any]) -> tuple[Any, bool]:
    """Compile as `triton.compile`, unless an earlier process has, and tell whether the machine code is sound."""
    import triton

    chosen = assembler.for_architecture(target.arch)
    record = _record(source, target, options, chosen)
    if record is None:
        return _assembled(triton.compile(source, target=target, options=options), chosen)
    kept = record.read(_Kept.understood)
    kernel = None if kept is None else _load(source, kept, record.path)
    if kernel is not None:
        return kernel, kept.is_sound
    anew = _under_own_key(source)
    try:
        kernel, is_sound = _assembled(triton.compile(anew, target=target, options=options), chosen)
    except OSError:
        with elsewhere():
            kernel, is_sound = _assembled(triton.compile(anew, target=target, options=options), chosen)
    try:
        record.write({"hash": kernel.hash, "digest": _digest(kernel), "is_sound": is_sound})
    except (AttributeError, TypeError) as error:
        tell(f"kernels that this Triton compiles cannot be told apart, and no later process finds them: {error}")
    return kernel, is_sound


def _assembled(kernel: Any, chosen: Assembler | None) -> tuple[Any, bool]:
    """Return a compiled kernel with machine code of an assembler, and whether it surely keeps all registers.

    chosen: the assembler for its GPU; None to trust Triton's own. Only kernels whose products hold left operands in
    registers are assembled anew, which are kept in Triton's cache under a key of its own.
    """
    if chosen is None or assembler.of_triton().is_sound:
        return kernel, True
    text = kernel.asm.get("ptx")  # it is not there where Triton was told to keep nothing but binaries
    if text is None or not chosen.is_sound:
        return kernel, text is not None and not ptx.keeps_left_operand(text)
    if ptx.has_left_operands(text):
        key = hashlib.sha256(f"{kernel.hash}-{chosen}".encode()).hexdigest()
        kernel = private_triton.with_machine_code(kernel, key, chosen.assemble(text))
    return kernel, True


@contextmanager
def elsewhere() -> Iterator[None]:
    """Let Triton keep its files in a temporary directory, where its own is read-only or full."""
    from triton import knobs

    with _REDIRECTING, knobs.cache.scope():
        knobs.cache.dir = str(disk_cache.temporary())
        yield


def _under_own_key(source: Any) -> Any:
    """Copy a source, under a key that Triton's cache has not seen."""
    own, digest = copy.copy(source), f"{source.hash()}-{uuid.uuid4()}"
    own.hash = lambda: digest
    return own


def _digest(kernel: Any) -> str:
    """Digest all that was read of a kernel: its stages, its machine code, and what is said of it."""
    said = json.dumps(kernel.metadata._asdict(), sort_keys=True, default=repr)
    digest = hashlib.sha256(said.encode())
    for stage, content in sorted(kernel.asm.items()):
        content = content if isinstance(content, bytes) else content.encode()
        digest.update(f"\n{stage} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _record(source: Any, target: Any, options: dict[str, Any], chosen: Assembler | None) -> DiskRecord | None:
    """Say where Triton's key is kept; None where this Triton is left to itself."""
    key = private_triton.compilation_key(source, target, options)
    if key is None:
        return None
    return DiskRecord("compiled", source.name[:100], {**key, "triton": _fingerprint(), "assembler": str(chosen)})


@functools.cache
def _fingerprint() -> str:
    """Digest what stands for the content of Triton: its version, and the name, size and time of each of its files."""
    import triton

    root = Path(triton.__file__).parent
    files = [
        (os.path.relpath(entry, root), entry.stat().st_size, entry.stat().st_mtime_ns)
        for folder in ("_C", "compiler", "backends", "language", "runtime")
        for directory, _, names in os.walk(root / folder)
        for entry in (Path(directory, name) for name in names)
        if entry.suffix in (".py", ".so", ".pyd", ".bc")
    ]
    return f"{triton.__version__}-{hashlib.sha256(repr((str(root), sorted(files))).encode()).hexdigest()}"


def _load(source: Any, kept: _Kept, path: Path) -> Any:
    """Load the kernel of a key in Triton's cache; None where it is there no more, or is not what was put there."""
    name = source.name[:150]
    try:
        files = private_triton.cached_files(kept.hash, source)
        if not {f"{name}.json", f"{name}.cubin"} <= files.keys():
            return None
        kernel = private_triton.load_kernel(kept.hash, source, files)
        if _digest(kernel) == kept.digest:
            return kernel
    except (OSError, ValueError, KeyError, AttributeError, TypeError, ImportError):
        pass
    return disk_cache.ignored(path, "the kernel that it names is not what was compiled")
