"""Find the ptxas that assembles machine code for Hopper.

ptxas before CUDA 13.3 loses registers there (see `ptx`), and Triton before 3.9 bundles one. A later one is used where
one is found: that which the user names to Triton, that of the package `nvidia-cuda-nvcc` (the extra `cuda`), or a
toolkit's. It makes our kernels alone: Triton's settings, and what else it compiles in this process, stay as they are.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from ninetoothed.runtime import private_triton
from ninetoothed.runtime.selection.machine import Machine, generation_of

# From this version of CUDA on, ptxas keeps the registers of a wgmma.
SOUND = (13, 3)
CURE = (
    'from CUDA 13.3 on it keeps them: `pip install "nvidia-cuda-nvcc>=13.3"`, or let TRITON_PTXAS_PATH name such a '
    "ptxas; the driver must support CUDA 13, too"
)
_DEFAULT_TOOLKIT = "/usr/local/cuda"


@dataclass(frozen=True)
class Assembler:
    """A ptxas and the version of CUDA that it is of."""

    path: str
    version: tuple[int, int]

    @property
    def is_sound(self) -> bool:
        """Tell whether it keeps the registers of a wgmma."""
        return self.version >= SOUND

    def __str__(self) -> str:
        return f"{self.name} ({self.path})"

    @property
    def name(self) -> str:
        """Its name for other machines, where its path tells nothing."""
        return f"ptxas {'.'.join(map(str, self.version))}"

    def assemble(self, ptx: str) -> bytes:
        """Return the cubin of a PTX module for the architecture that it names, with line numbers as Triton has them."""
        (architecture,) = re.findall(r"^\s*\.target\s+(\w+)", ptx, re.MULTILINE)
        with tempfile.TemporaryDirectory() as directory:
            source, cubin = Path(directory) / "kernel.ptx", Path(directory) / "kernel.cubin"
            source.write_text(ptx)
            _output(self.path, "-lineinfo", f"--gpu-name={architecture}", str(source), "-o", str(cubin))
            return cubin.read_bytes()


UNKNOWN = Assembler("", (0, 0))


def for_architecture(architecture: int | str) -> Assembler | None:
    """Return the assembler for a GPU; None where Triton's own is trusted."""
    return for_hopper() if generation_of(architecture).has_wgmma else None


def loses_registers(gpu: Machine | None) -> bool:
    """Tell whether the assembler for a GPU is not sound; without Triton there is only text, which has no fault."""
    try:
        chosen = for_architecture(gpu.architecture) if gpu is not None else None
    except ModuleNotFoundError:
        return False
    return chosen is not None and not chosen.is_sound


def for_hopper() -> Assembler:
    """Return the first sound assembler whose output the driver loads; if there is none, Triton's own.

    An assembler that the user names is used, sound or not.
    """
    own = of_triton()
    if own.is_sound or _is_named_by_user(own):
        return own
    found = (Assembler(path, version) for path in _candidates() if (version := _version(path)) is not None)
    return next((each for each in found if each.is_sound and _is_loaded_by_driver(each)), own)


def of_triton() -> Assembler:
    """Return the assembler that Triton uses for Hopper; `UNKNOWN`, which is not sound, where it does not tell."""
    tool = private_triton.assembler(90)
    if tool is None:
        return UNKNOWN
    major, minor = tool.version.split(".")[:2]
    return Assembler(tool.path, (int(major), int(minor)))


def usage(cubin: bytes) -> str:
    """Return as text the registers and the memory that the functions of a cubin take."""
    from triton import knobs

    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "kernel.cubin"
        file.write_bytes(cubin)
        return _output(knobs.nvidia.cuobjdump.path, "--dump-resource-usage", str(file))


def _is_named_by_user(own: Assembler) -> bool:
    import triton

    is_bundled = own == UNKNOWN or Path(triton.__file__).parent in Path(own.path).parents
    return not is_bundled or "TRITON_PTXAS_PATH" in os.environ


def _candidates() -> Iterator[str]:
    """Yield the paths of every ptxas that there is."""
    yield from filter(os.path.isfile, _places())


def _places() -> Iterator[str]:
    """Yield the paths where a ptxas may be."""
    try:
        files = metadata.files("nvidia-cuda-nvcc") or ()
    except metadata.PackageNotFoundError:
        files = ()
    yield from (str(file.locate()) for file in files if file.name == "ptxas")
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield os.path.join(os.environ[variable], "bin", "ptxas")
    yield from filter(None, (shutil.which("ptxas"),))
    yield os.path.join(_DEFAULT_TOOLKIT, "bin", "ptxas")


@functools.cache
def _version(path: str) -> tuple[int, int] | None:
    """Return the version of a ptxas; None where there is none that runs."""
    try:
        found = re.search(r"release (\d+)\.(\d+)", _output(path, "--version"))
    except (OSError, RuntimeError):
        return None
    return (int(found[1]), int(found[2])) if found else None


def _is_loaded_by_driver(assembler: Assembler) -> bool:
    """Tell whether the driver is of the assembler's major version or later; without a driver nothing is loaded."""
    version = _driver_version()
    return version is None or version // 1000 >= assembler.version[0]


@functools.cache
def _driver_version() -> int | None:
    """Return the version of CUDA that the driver supports, such as 13000 for 13.0; None without a driver."""
    try:
        version = ctypes.c_int()
        failed = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return None
    return None if failed else version.value


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"`{' '.join(command)}` failed with {done.returncode}: {done.stderr.strip()}")
    return done.stdout
