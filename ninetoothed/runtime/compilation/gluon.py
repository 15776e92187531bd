"""Gluon, Triton's language below Triton, which changes from release to release: it is used where it has our names."""

from __future__ import annotations

import functools
import importlib
import os
import re
from types import ModuleType
from typing import Any

from ninetoothed.backends.gluon.form import COPIES, LANGUAGE, NAMES, TMA
from ninetoothed.backends.gluon.rings import in_memory
from ninetoothed.backends.triton import KernelArgument
from ninetoothed.runtime.missing import tell


def is_supported() -> bool:
    """Tell whether kernels may be in Gluon: it has all names that are printed, and `NINETOOTHED_GLUON` is not 0."""
    return off() is None


def off() -> str | None:
    """Say why no kernel may be in Gluon; None where they may."""
    is_wanted = os.environ.get("NINETOOTHED_GLUON", "1") not in ("", "0")
    return why_not() if is_wanted else "NINETOOTHED_GLUON=0"


@functools.cache
def why_not() -> str | None:
    """Say what Gluon lacks, once on the logger too; None where it has all that is printed."""
    lacks = [f"{module}.{name}" for module, names in NAMES.items() for name in names if not _has(module, name)]
    lacks += [f"{TMA}.{names[0]}" for names in COPIES if not any(_has(TMA, name) for name in names)]
    if not lacks:
        return None
    reason = f"this Triton has no {', '.join(lacks)}"
    tell(f"attention runs in plain Triton: {reason}")
    return reason


def what_lacks(source: str) -> str | None:
    """Say which functions that a text has of Triton's own language Gluon lacks; None where it has them all."""
    names = dict.fromkeys(re.findall(r"\bgl\.(\w+)", source))
    lacks = [f"`{name}`" for name in names if not _has(LANGUAGE, name)]
    return f"Gluon has no {', '.join(lacks)}" if lacks else None


@functools.cache
def copies() -> tuple[str, ...]:
    """Return the names of copies that Gluon has; where it has none, text has the newest."""
    return tuple(next((name for name in names if _has(TMA, name)), names[0]) for names in COPIES)


def _has(module: str, name: str) -> bool:
    return hasattr(_module(module), name)


@functools.cache
def _module(name: str) -> Any:
    """Import a module, or what a module calls by that name; None where there is none."""
    try:
        return importlib.import_module(name)
    except ImportError:
        parent, _, last = name.rpartition(".")
        found = getattr(_module(parent), last, None) if parent else None
        return found if found is None or isinstance(found, ModuleType) else None


def layout(argument: KernelArgument) -> str:
    """Write the layout in which a descriptor copies to shared memory."""
    from triton.experimental.gluon import language as gl

    return repr(gl.NVMMASharedLayout.get_default_for(list(argument.block), getattr(gl, in_memory(argument.dtype).name)))
