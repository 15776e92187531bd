"""Names of the original implementation that are not offered, each with what to use instead."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from typing import Any

from ninetoothed.errors import NotOfferedError, NotOfferedImportError

_TEXT = "is a module of the original's code generator: `kernel.source(...)` shows what is emitted"
# By the module: what is said of it.
MODULES = {
    "aot": 'is a module of the original: `ninetoothed.build` compiles ahead of time, `make(..., caller="cuda")` too',
    "auto_tuner": "is a module of the original: `ninetoothed.tune(kernel, ...)` and `make(..., tune=True)` measure",
    "compiler": _TEXT,
    "cse": _TEXT,
    "cudaifier": _TEXT,
    "generation": _TEXT,
    "naming": "is a module of the original: symbols keep their names, and `Tensor.names()` lists them",
    "symbol": "is a module of the original: write `from ninetoothed import Symbol, block_size`",
    "tensor": "is a module of the original: write `from ninetoothed import Tensor`",
    "torchifier": _TEXT,
    "utils": "is a module of the original: options of `make` and `jit` have their defaults here",
}
# Functions here, and modules of the original.
_FUNCTIONS = ("build", "eval", "jit")


def error(name: str) -> NotOfferedError | None:
    """Make the error for an attribute of the package; None where nothing is known of it."""
    return NotOfferedError(f"`ninetoothed.{name}` {MODULES[name]}") if name in MODULES else None


class _Teller:
    """Tell what to import instead of a module that is not there."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        package, _, name = fullname.partition(".")
        if package == "ninetoothed":
            if name in MODULES:
                raise NotOfferedImportError(f"`{fullname}` {MODULES[name]}")
            if name in _FUNCTIONS:
                raise NotOfferedImportError(f"`{fullname}` is a function: write `from ninetoothed import {name}`")
        return None


def tell_of_imports() -> None:
    """Let imports of these modules raise an `ImportError` that says what to use instead."""
    if not any(type(finder).__name__ == _Teller.__name__ for finder in sys.meta_path):
        sys.meta_path.append(_Teller())
