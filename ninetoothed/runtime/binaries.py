"""Machine code that an earlier process compiled: found in Triton's own cache, by a key that takes no time to compute.

Triton's key holds the content of its whole library, half a gigabyte, which it reads and hashes once a process: a third
of a second before the first launch. Here the files' sizes and times stand for their content, and what is kept under
that key is the key of Triton's.
"""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path
from typing import Any

from ninetoothed.runtime.build import assembler
from ninetoothed.runtime.build.sound import sound
from ninetoothed.runtime.cache import Record

# What else Triton's compiler looks at may change what it does: then it is left to itself.
_HOOKS = (
    ("runtime", "add_stages_inspection_hook"),
    ("compilation", "always_compile"),
    ("compilation", "override"),
    ("compilation", "dump_ir"),
    ("compilation", "listener"),
)


def compile(source: Any, target: Any, options: dict[str, Any]) -> tuple[Any, tuple[str, ...]]:
    """`triton.compile`, which an earlier process may have done, and what its machine code loses (see `build.wgmma`)."""
    import triton

    chosen = assembler.for_capability(target.arch)
    record = _record(source, target, options, chosen)
    if record is None:
        return sound(triton.compile(source, target=target, options=options), chosen)
    found = record.read(_understood)
    kernel = None if found is None else _load(source, found[0])
    if kernel is not None:
        return kernel, found[1]
    kernel, lost = sound(triton.compile(source, target=target, options=options), chosen)
    record.write({"hash": kernel.hash, "lost": lost})
    return kernel, lost


def _understood(kept: dict[str, Any]) -> tuple[str, tuple[str, ...]] | None:
    key, lost = kept["hash"], kept["lost"]
    return (key, tuple(lost)) if all(isinstance(each, str) for each in (key, *lost)) else None


def _record(source: Any, target: Any, options: dict[str, Any], chosen: assembler.Assembler | None) -> Record | None:
    """Where Triton's key is kept; None where this Triton is not as expected, or is being watched."""
    from triton import knobs

    try:
        from triton.compiler.compiler import get_cache_invalidating_env_vars, make_backend

        if any(getattr(getattr(knobs, room), name, None) for room, name in _HOOKS):
            return None
        backend = make_backend(target)
        key = {
            "triton": _fingerprint(),
            "source": source.hash(),
            "backend": backend.hash(),
            "assembler": str(chosen),
            "options": backend.parse_options(dict(options, **source.parse_options())).hash(),
            "environment": sorted(map(list, get_cache_invalidating_env_vars().items())),
        }
    except (ImportError, AttributeError, TypeError):
        return None
    return Record("compiled", source.name[:100], key)


@functools.cache
def _fingerprint() -> str:
    """Stands for the content of Triton: its version, and the name, size and time of every file of its own."""
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


def _load(source: Any, key: str) -> Any:
    """The kernel of a key in Triton's cache; None where it is there no more."""
    from triton.compiler import CompiledKernel
    from triton.runtime.cache import get_cache_manager

    try:
        name = source.name[:150]
        group = get_cache_manager(key).get_group(f"{name}.json") or {}
        return CompiledKernel(source, group, key) if {f"{name}.json", f"{name}.cubin"} <= group.keys() else None
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return None
