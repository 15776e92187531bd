"""Gluon, Triton's language below Triton, of which each release has another: those are used that were tried."""

from __future__ import annotations

import functools
import importlib.metadata
import os
from typing import Any

from ninetoothed.backends.triton import KernelArgument

# Releases whose Gluon has what `backends.triton.gluon` prints, by the names that are printed there.
TRIED = ((3, 6), (3, 7))


def is_supported() -> bool:
    """Tell whether kernels may be in Gluon: by the Triton that there is, unless `NINETOOTHED_GLUON=0` forbids it."""
    return os.environ.get("NINETOOTHED_GLUON", "1") not in ("", "0") and _release() in TRIED


@functools.cache
def _release() -> tuple[int, ...]:
    """Return the first two numbers of Triton's version; none without Triton."""
    try:
        version = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        return ()
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def source(function: Any, types: dict[str, str], attributes: dict[tuple[int, ...], list]) -> Any:
    """Make what Triton compiles of a Gluon function."""
    from triton.experimental.gluon._runtime import GluonASTSource

    return GluonASTSource(function, types, {}, attributes)


def layout(argument: KernelArgument) -> str:
    """Write the layout in which a descriptor of 16-bit numbers copies to shared memory."""
    from triton.experimental.gluon import language as gl

    return repr(gl.NVMMASharedLayout.get_default_for(list(argument.block), getattr(gl, argument.dtype.name)))
