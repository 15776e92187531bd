"""Describe what kernels run on here: versions, the GPU, the assembler, fast paths and caches."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import torch

from ninetoothed import distribution
from ninetoothed.runtime import missing, private, private_triton
from ninetoothed.runtime.compilation import assembler, disk_cache, gluon, target
from ninetoothed.runtime.selection import machine

PACKAGES = ("triton", "transformers", "numpy", "nvidia-cuda-nvcc")

Section = tuple[str, list[tuple[str, str]]]


def sections() -> Iterator[Section]:
    """Yield titles, each with rows of a name and what is said of it."""
    yield "versions", list(_versions())
    yield "GPU", list(_gpus())
    yield "assembler for Hopper", [("", _assembler())]
    yield "fast paths", [(name, "active" if why is None else f"not active: {why}") for name, why in fast_paths()]
    yield "caches", [(str(path), f"{count} files, {size / 2**20:.1f} MiB") for path, count, size in _caches()]


def text() -> str:
    """Write all sections, a row a line."""
    lines = []
    for title, rows in sections():
        width = max((len(name) for name, _ in rows), default=0)
        lines += [f"{title}:", *(f"  {name:<{width}}  {said}" if name else f"  {said}" for name, said in rows)]
    return "\n".join(lines)


def _versions() -> Iterator[tuple[str, str]]:
    yield distribution.NAME, distribution.version() or "not installed: run from a clone"
    if distribution.is_beside_the_original():
        yield "beware", distribution.BESIDE
    yield "python", platform.python_version()
    yield "torch", torch.__version__
    for name in PACKAGES:
        try:
            # A wheel's own name may leave out for which CUDA it was built.
            yield name, torch.__version__ if name == "torch" else metadata.version(name)
        except metadata.PackageNotFoundError:
            yield name, "not installed"


def _gpus() -> Iterator[tuple[str, str]]:
    if not torch.cuda.is_available():
        yield "none", "kernels run on CPU tensors, in PyTorch"
    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        found = machine.current(index)
        assert found is not None, "CUDA is available"
        yield f"cuda:{index}", f"{found}: {support(found)}"
    run, others = (
        ", ".join(each.name for each in machine.MACHINES if each.is_run_on == is_run_on) for is_run_on in (True, False)
    )
    yield "supported", f"{run}: run; {others}: compiled in the tests, not run; others: neither"


def support(gpu: machine.Machine) -> str:
    """Say how far a GPU is supported: kernels were run on it, compiled for it, or neither."""
    if any(each.is_run_on and each.name == gpu.name for each in machine.MACHINES):
        return "run"
    is_compiled_for = gpu.architecture in {each.architecture for each in machine.MACHINES}
    return "compiled for in the tests, not run on" if is_compiled_for else "neither run nor compiled for"


def _assembler() -> str:
    try:
        chosen = assembler.for_hopper()
    except ModuleNotFoundError:
        return "none: Triton is not installed"
    if chosen.is_sound:
        return str(chosen)
    return (
        f"{chosen}, which loses registers: products at risk do without Hopper's instructions for them; {assembler.CURE}"
    )


def fast_paths() -> Iterator[tuple[str, str | None]]:
    """Yield what saves time where the packages at hand allow it, with why it does not here; None where it does."""
    yield "attention with overlapped products (Gluon)", gluon.off()
    has_descriptors = target.has_descriptors()
    yield "tiles by the copy engine", None if has_descriptors else "this Triton makes no descriptors on the host"
    yield "calls recognised by guards", _without(private.TensorGuards)
    yield "results allocated at once", _without(private.empty_strided_cuda)
    has_triton = missing.has("triton")
    for name, instead in missing.of(missing.OF_PYTORCH | (missing.OF_TRITON if has_triton else {})).items():
        yield name, f"it is not there, and {instead}"


def _without(found: object) -> str | None:
    return None if found is not None else "this PyTorch does not have the function for it"


def _caches() -> Iterator[tuple[Path, int, int]]:
    """Yield where compiled kernels are kept: our own directory, and Triton's; with counts of files and their bytes."""
    yield disk_cache.directory(), *_size(disk_cache.kept())
    if (directory := private_triton.cache_directory()) is not None:
        yield Path(directory), *_size(file for file in Path(directory).rglob("*") if file.is_file())


def _size(files: Iterator[Path]) -> tuple[int, int]:
    sizes = [file.stat().st_size for file in files]
    return len(sizes), sum(sizes)
