"""Package models by AOTInductor together with the kernels of their operators, and load such packages.

    program = torch.export.export(model, (tokens,))
    package = ninetoothed_ops.aoti_compile_and_package(program, package_path="model.pt2", gpus=("h100",))
    model = ninetoothed_ops.aoti_load_package(package, missing="refuse")

What AOTInductor compiles calls operators by their names, of the process that loads it. So these must be registered
there, as they are once this is imported; kernels are not compiled there, but found in the package.
"""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

import ninetoothed
from ninetoothed import distribution
from ninetoothed.built import folder
from ninetoothed.errors import ArgumentError, LoadError, shortens_tracebacks

__all__ = ["aoti_compile_and_package", "aoti_load_package"]


@shortens_tracebacks
def aoti_compile_and_package(
    exported_program: torch.export.ExportedProgram,
    *,
    package_path: str | os.PathLike[str] | None = None,
    inductor_configs: dict[str, Any] | None = None,
    gpus: Iterable[Any] | None = None,
    inputs: Sequence[tuple] = (),
) -> str:
    """Compile a program as `torch._inductor.aoti_compile_and_package` does, and build its kernels into the package.

    gpus: as for `ninetoothed.build`. inputs: arguments of more calls, of other sizes than the example's; those of the
    example are always run, and what they call is built.
    """
    calls = [
        *([exported_program.example_inputs] if exported_program.example_inputs else ()),
        *((i, {}) for i in inputs),
    ]
    if not calls:
        raise ArgumentError("the program has no example inputs, and `inputs` is empty; give the arguments of a call")
    package = torch._inductor.aoti_compile_and_package(
        exported_program,
        package_path=None if package_path is None else os.fspath(package_path),
        inductor_configs=inductor_configs,
    )
    compiled = torch._inductor.aoti_load_package(package)
    with tempfile.TemporaryDirectory() as path:
        with ninetoothed.recording(path, gpus=gpus), torch.no_grad():
            for args, kwargs in calls:
                compiled(*args, **kwargs)
        folder.add_to_package(Path(package), Path(path))
    return package


@shortens_tracebacks
def aoti_load_package(path: Any, missing: str = "compile", **options: Any) -> Any:
    """Load a package, and serve its kernels to this process.

    missing: what becomes of calls whose kernels the package lacks; see `serve` of what `ninetoothed.load` returns.
    options: those of `torch._inductor.aoti_load_package`.

    Raises `LoadError` before anything is loaded where operators are not registered here, all of which it names; where
    the package carries no kernels; and with `missing="refuse"` where they were not built for the GPU that is here.
    """
    lacking = [name for name in _operators(path) if not _is_registered(name)]
    if lacking:
        raise LoadError(
            f"{path} calls {', '.join(lacking)}, which are not registered here; import what registers them before"
            f" (`ninetoothed_ops` {distribution.version()} has its own)"
        )
    ninetoothed.load(path).serve(missing)
    return torch._inductor.aoti_load_package(path, **options)


def _operators(path: Any) -> Iterator[str]:
    """List the operators that a package calls by their names: AOTInductor writes them down beside its code."""
    try:
        with zipfile.ZipFile(path) as archive:
            found = [json.loads(archive.read(name)) for name in archive.namelist() if name.endswith(".json")]
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise LoadError(f"{path} is no package of AOTInductor: {error!r}; give the file that it wrote") from error
    nodes = (node["node"] for each in found if isinstance(each, dict) for node in each.get("nodes", ()))
    return iter(dict.fromkeys(node["target"] for node in nodes if "::" in node["target"]))


def _is_registered(name: str) -> bool:
    namespace, _, rest = name.partition("::")
    operator, _, overload = rest.partition(".")
    return hasattr(getattr(getattr(torch.ops, namespace), operator, None), overload or "default")
