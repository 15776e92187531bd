"""Find the kernels of examples/kernels, one a file, and read their parts."""

from __future__ import annotations

import ast
import functools
import importlib
import pathlib
import types
from dataclasses import dataclass
from typing import Any
from unittest import mock

from ninetoothed.make import Kernel

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "kernels"
# In this order they are shown; IN_TRITON holds the same kernels in Triton by hand, for some of them.
THEMES = {
    "elementwise": "Element by element",
    "reductions": "Reductions",
    "scans": "Scans",
    "sorting": "Sorting",
    "norms": "Norms",
    "losses": "Losses",
    "optimisers": "Optimisers",
    "random": "Random numbers",
    "convolutions": "Convolutions and pooling",
    "stencils": "Stencils",
    "indexing": "Indexing",
    "quantised": "Quantised products",
    "grouped": "Grouped products",
    "jagged": "Jagged tensors",
    "attention": "Attention",
    "transforms": "Transforms",
    "sampling": "Sampling",
}
IN_TRITON = "in_triton"


@dataclass(frozen=True)
class Example:
    """A kernel's file: docstring, arrangement, application with `kernel = make(...)`, check."""

    path: pathlib.Path

    @property
    def theme(self) -> str:
        return self.path.parent.name

    @property
    def name(self) -> str:
        return self.path.stem

    @functools.cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.path.read_text())

    @property
    def title(self) -> str:
        """The first line of the docstring, without its full stop."""
        return (ast.get_docstring(self.tree) or "").partition("\n")[0].rstrip(".")

    @property
    def formula(self) -> str:
        """The docstring after its first line: the formula and the source of the algorithm."""
        return (ast.get_docstring(self.tree) or "").partition("\n")[2].strip()

    @property
    def kernel_lines(self) -> list[str]:
        """The lines of arrangement, application and `make`, without empty ones."""
        statements = [each for each in self.tree.body[1:] if not isinstance(each, ast.Import | ast.ImportFrom)]
        made = [number for number, each in enumerate(statements) if is_made(each)]
        if not made:
            return []
        lines = self.path.read_text().splitlines()[statements[0].lineno - 1 : statements[made[-1]].end_lineno]
        return [line for line in lines if line.strip()]

    @property
    def module(self) -> types.ModuleType:
        return importlib.import_module(f"examples.kernels.{self.theme}.{self.name}")

    @property
    def kernels(self) -> dict[str, Kernel]:
        """The kernels that the file makes, by name: `kernel` is the one that is shown."""
        return {name: value for name, value in vars(self.module).items() if isinstance(value, Kernel)}

    @property
    def data_dependent(self) -> str:
        """The access that `verify` cannot decide, and why; empty where all is proved."""
        return getattr(self.module, "DATA_DEPENDENT", "")

    def first_calls(self) -> dict[Kernel, tuple[tuple[Any, ...], dict[str, Any]]]:
        """Return the arguments and keywords of the first call of each kernel in the check, on the CPU."""
        calls: dict[Kernel, tuple[tuple[Any, ...], dict[str, Any]]] = {}
        called = Kernel.__call__

        def recording(kernel: Kernel, *args: Any, **kwargs: Any) -> None:
            calls.setdefault(kernel, (args, kwargs))
            called(kernel, *args, **kwargs)

        with mock.patch.object(Kernel, "__call__", recording):
            for _ in self.module.check("cpu"):
                if calls.keys() >= set(self.kernels.values()):
                    break
        # One that calls another file's kernel, too, shows its own.
        return {kernel: call for kernel, call in calls.items() if kernel in self.kernels.values()}

    @property
    def in_triton(self) -> pathlib.Path | None:
        """The same kernel in Triton by hand, where there is one."""
        path = FOLDER / IN_TRITON / self.path.name
        return path if path.exists() else None


def is_made(statement: ast.stmt) -> bool:
    """Tell whether a statement is `name = ninetoothed.make(...)`, or `fuse`."""
    call = getattr(statement, "value", None)
    return isinstance(call, ast.Call) and ast.unparse(call.func) in ("ninetoothed.make", "ninetoothed.fuse")


def examples() -> list[Example]:
    """List the kernels by theme and name."""
    return [Example(path) for theme in THEMES for path in sorted((FOLDER / theme).glob("*.py"))]
