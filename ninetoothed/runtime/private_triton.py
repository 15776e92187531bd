"""Collect the private names of Triton's compiler and cache: why each is used, and its fallback.

As in private.py, most only save time. Functions return None where a name is missing, and their callers do without; the
logger `ninetoothed` has a line for it.
"""

from __future__ import annotations

from typing import Any

from ninetoothed.runtime.missing import tell


def launch_metadata(name: str, function: Any, stream: int) -> Any:
    """Make what Triton's hooks of launches are told, of a kernel that says no more of itself than these; else None."""
    try:
        from triton.compiler.compiler import LazyDict
    except ImportError:
        return None
    return LazyDict({"name": name, "function": function, "stream": stream})


def assembler(capability: int) -> Any:
    """Return the ptxas that Triton uses for a GPU: an object with `path` and `version`; None where that is not known.

    It comes with two. Which one is for Hopper has changed with Triton 3.9; before, that was the one without a suffix.
    """
    import triton

    try:
        from triton.backends.nvidia.compiler import get_ptxas

        return get_ptxas(capability)
    except (ImportError, TypeError):
        found = getattr(getattr(getattr(triton, "knobs", None), "nvidia", None), "ptxas", None)
    if not (hasattr(found, "path") and hasattr(found, "version")):
        tell("this Triton does not tell its assembler: it is taken for one that loses registers on Hopper")
        return None
    return found


# What else Triton's compiler looks at may change what it does: then nothing is told of a compilation.
_HOOKS = (
    ("runtime", "add_stages_inspection_hook"),
    ("compilation", "always_compile"),
    ("compilation", "override"),
    ("compilation", "dump_ir"),
    ("compilation", "listener"),
)


def gluon_source(function: Any, types: dict[str, str], attributes: dict[tuple[int, ...], list]) -> Any:
    """Make what Triton compiles of a Gluon function. Where the name is missing, no kernel is in Gluon."""
    from triton.experimental.gluon._runtime import GluonASTSource

    return GluonASTSource(function, types, {}, attributes)


def compilation_key(source: Any, target: Any, options: dict[str, Any]) -> dict[str, Any] | None:
    """Tell in JSON's values what a compilation by Triton depends on, but for the content of its library.

    Triton's own key has that content in it, half a gigabyte, which it reads and hashes once a process. None where this
    Triton is not as expected, or is being watched: then it is left to itself.
    """
    try:
        from triton import knobs
        from triton.compiler.compiler import get_cache_invalidating_env_vars, make_backend

        if any(getattr(getattr(knobs, room), name, None) for room, name in _HOOKS):
            return None
        backend = make_backend(target)
        return {
            "source": source.hash(),
            "backend": backend.hash(),
            "options": backend.parse_options(dict(options, **source.parse_options())).hash(),
            "environment": sorted(map(list, get_cache_invalidating_env_vars().items())),
        }
    except (ImportError, AttributeError, TypeError) as error:
        tell(f"each process finds kernels by Triton's own key, since this Triton does not tell what is in it: {error}")
        return None


def cache_directory() -> str | None:
    """Return where Triton keeps what it compiles; None without Triton, or where it does not say."""
    try:
        from triton import knobs

        return str(knobs.cache.dir)
    except (ImportError, AttributeError):
        return None


def cached_files(key: str, source: Any) -> dict[str, str]:
    """Find the files of a compiled kernel in Triton's cache: paths by name, none where it has none of this key."""
    from triton.runtime.cache import get_cache_manager

    return dict(get_cache_manager(key).get_group(f"{source.name[:150]}.json") or {})


def load_kernel(key: str, source: Any, files: dict[str, str]) -> Any:
    """Load a compiled kernel from its files in Triton's cache."""
    from triton.compiler import CompiledKernel

    return CompiledKernel(source, files, key)


def with_machine_code(kernel: Any, key: str, cubin: bytes) -> Any:
    """Return a compiled kernel with other machine code, kept in Triton's cache under a key of its own."""
    from triton.runtime.cache import get_cache_manager

    manager, name = get_cache_manager(key), kernel.src.name[:150]
    files = cached_files(kernel.hash, kernel.src)
    files[f"{name}.cubin"] = manager.put(cubin, f"{name}.cubin")
    manager.put_group(f"{name}.json", files)
    return load_kernel(key, kernel.src, files)
