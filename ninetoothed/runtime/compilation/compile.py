"""Compile emitted text to machine code, for GPUs that are present and for those that are not, and load it."""

from __future__ import annotations

import copy
import hashlib
import logging
import math
import re
import threading
import time
import warnings
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ninetoothed.backends.triton import Emitted, KernelArgument
from ninetoothed.errors import CompilationError, ResourceError
from ninetoothed.runtime import missing, private_triton
from ninetoothed.runtime.compilation import assembler, disk_cache, gluon, parameters, triton_cache
from ninetoothed.runtime.launching import driver
from ninetoothed.runtime.launching.code import Launchable, LoadedCode, MachineCode
from ninetoothed.runtime.launching.through_triton import ThroughTriton
from ninetoothed.runtime.selection.machine import Machine

_LOG = logging.getLogger("ninetoothed")

# Bytes that pointers are multiples of where they are known to be aligned.
ALIGNMENT = 16
# Columns of tensor memory that a program may have, of GPUs that have any.
TENSOR_MEMORY = 512


class UnsoundCodeError(CompilationError):
    """The assembler may lose registers of a kernel, which is to be compiled without wgmma."""


def compile_kernel(
    emitted: Emitted,
    gpu: Machine,
    num_warps: int,
    num_stages: int,
    aligned: frozenset[str] = frozenset(),
    uses_wgmma: bool = True,
) -> CompiledKernel:
    """Compile a kernel for a GPU, which need not be there.

    aligned: the parameters whose addresses are multiples of 16 bytes. uses_wgmma: whether a Hopper multiplies with its
    own instructions, or with those of the generation before.
    Raises `CompilationError` for what Triton rejects, `UnsoundCodeError` where its assembler may spoil products of
    Hopper's, and `ResourceError` where the GPU lacks the memory.
    """
    import triton  # noqa: F401 - what one lacks that is there is named below

    missing.tell_of_triton()
    path = write_module(emitted.name, emitted.source)
    # Said explicitly, since its default is about to become False.
    options: dict[str, Any] = {"num_warps": num_warps, "num_stages": num_stages, "enable_fp_fusion": True}
    if not uses_wgmma:
        options["arch"] = gpu.generation.without_wgmma
    began = time.perf_counter()
    try:
        from triton.backends.compiler import GPUTarget

        target = GPUTarget(gpu.generation.compiler, gpu.architecture, gpu.generation.warp_size)
        kernel, is_sound = triton_cache.compile(_source(emitted, path, aligned), target, options)
    except Exception as error:
        raise CompilationError(
            f"Triton could not compile kernel `{emitted.name}` for {gpu} with {_show(options)}; its text is in "
            f"{path}\n{error}"
        ) from error
    if uses_wgmma and not is_sound:
        raise UnsoundCodeError(f"{assembler.for_hopper()} may lose registers of kernel `{emitted.name}`")
    _LOG.info(
        "compiled kernel %s for %s with %s: %.2f s", emitted.name, gpu, _show(options), time.perf_counter() - began
    )
    compiled = CompiledKernel(emitted, gpu, path, kernel)
    if compiled.shared > gpu.shared_memory:
        raise ResourceError(
            f"kernel `{emitted.name}` with {_show(options)} needs {compiled.shared} bytes of shared memory, and {gpu} "
            f"gives a program {gpu.shared_memory}; use smaller blocks or fewer stages"
        )
    if (columns := getattr(kernel.metadata, "tmem_size", None) or 0) > TENSOR_MEMORY:
        raise ResourceError(
            f"kernel `{emitted.name}` with {_show(options)} needs {columns} columns of tensor memory, and {gpu} gives a"
            f" program {TENSOR_MEMORY}; use smaller blocks"
        )
    return compiled


def _show(options: dict[str, Any]) -> str:
    return f"num_warps={options['num_warps']}, num_stages={options['num_stages']}"


# -- the module of text --


def write_module(name: str, source: str) -> Path:
    """Put the text into the cache, under a name made of its content; a damaged file of that name is replaced."""
    file = f"{name}_{hashlib.sha256(source.encode()).hexdigest()[:16]}.py"
    try:
        return _module(disk_cache.directory() / "triton" / file, source)
    except OSError:  # it is read-only, or the disk is full: any other place will do
        return _module(disk_cache.temporary() / file, source)


def _module(path: Path, source: str) -> Path:
    try:
        if path.read_bytes() == source.encode():
            return path
        warnings.warn(f"{path} is not what was written there; it is written anew", stacklevel=2)
    except OSError:
        pass
    return disk_cache.write(path, source)


def _source(emitted: Emitted, path: Path, aligned: frozenset[str]) -> Any:
    """Make what Triton compiles: the kernel's function, the types of its arguments, and what is known of them."""
    if emitted.dialect == "gluon":
        return private_triton.gluon_source(_function(emitted, path), _types(emitted), _attributes(emitted, aligned))
    from triton.compiler import ASTSource

    return ASTSource(_function(emitted, path), _types(emitted), {}, _attributes(emitted, aligned))


def _types(emitted: Emitted) -> dict[str, str]:
    return {argument.name: _type(argument, emitted.dialect) for argument in emitted.arguments}


def _function(emitted: Emitted, path: Path) -> Any:
    """Make the kernel's `triton.jit` function, which finds its source in the file."""
    namespace = {"__name__": path.stem, "__file__": str(path)}
    exec(compile(emitted.source, str(path), "exec"), namespace)
    return namespace[emitted.name]


# -- signatures --

_TYPES = {
    "int1": "i1",
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
    **{"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64"},
    **{"float8e4nv": "fp8e4nv", "float8e5": "fp8e5"},
}


def _type(argument: KernelArgument, dialect: str) -> str:
    name = _TYPES[argument.dtype.name]
    if argument.role == "descriptor" and name == "i1":
        name = "i8"  # The copy engine knows no bits.
    if argument.role == "descriptor":
        layout = f", {gluon.layout(argument)}" if dialect == "gluon" else ""
        return f"tensordesc<{name}[{', '.join(map(str, argument.block))}]{layout}>"
    return f"*{name}" if argument.role == "pointer" else name


def _attributes(emitted: Emitted, aligned: frozenset[str]) -> dict[tuple[int, ...], list]:
    """Tell Triton what it may assume: which arguments are multiples of 16, or of 8."""
    attributes: dict[tuple[int, ...], list] = {}
    for position, argument in enumerate(emitted.arguments):
        known = argument.multiple_of if argument.role == "integer" else 1
        if argument.role == "pointer" and argument.source in aligned:
            known = ALIGNMENT
        divisor = math.gcd(known, ALIGNMENT)
        if divisor >= ALIGNMENT // 2:
            attributes[(position,)] = [["tt.divisibility", divisor]]
    return attributes


# -- the result --


@dataclass(frozen=True, eq=False)
class CompiledKernel:
    """A compiled kernel. What it takes of a GPU can be read without one; launching loads it on the current device."""

    emitted: Emitted
    gpu: Machine
    path: Path
    kernel: Any
    _loaded: dict[int, Launchable] = field(default_factory=dict)
    _lock: Any = field(default_factory=threading.Lock)

    @property
    def asm(self) -> dict[str, Any]:
        """The stages of compilation by name: "ttir", "ttgir", "llir", "ptx" as text, "cubin" as bytes."""
        return self.kernel.asm

    @property
    def shared(self) -> int:
        """Bytes of shared memory that a program takes."""
        return self.kernel.metadata.shared

    @property
    def registers(self) -> int:
        """32-bit registers that a thread takes."""
        return self._usage["REG"]

    @property
    def spills(self) -> int:
        """Bytes of a thread's local memory, which is where registers are spilled to."""
        return self._usage["STACK"] + self._usage["LOCAL"]

    @cached_property
    def _usage(self) -> dict[str, int]:
        if (text := self.asm.get("amdgcn")) is not None:
            counts = {name: int(value) for name, value in re.findall(r"\.(\w+):\s+(\d+)$", text, re.MULTILINE)}
            return {"REG": counts["vgpr_count"], "STACK": counts["private_segment_fixed_size"], "LOCAL": 0}
        try:
            text = assembler.usage(self.asm["cubin"])
        except (OSError, RuntimeError, AttributeError) as error:
            missing.tell(f"registers that spill are not counted, which may choose a slower schedule: {error}")
            return dict.fromkeys(("REG", "STACK", "LOCAL"), 0)
        return {key: int(value) for key, value in re.findall(r"\b(REG|STACK|LOCAL|SHARED):(\d+)", text)}

    def on(self, device: int) -> Launchable:
        """Return the kernel loaded on a device, which must be the current one when this is called first."""
        loaded = self._loaded.get(device)
        if loaded is None:
            with self._lock:
                loaded = self._loaded.get(device)
                if loaded is None:
                    loaded = self._loaded[device] = self._load()
        return loaded

    def _load(self) -> Launchable:
        from triton import knobs

        name, metadata = self.emitted.name, self.kernel.metadata
        try:
            if parameters.why_through_triton(metadata) is not None:
                # Triton binds a compiled kernel to the device on which it was first loaded: one for each device.
                return ThroughTriton(copy.copy(self.kernel), knobs.runtime)
            taken = tuple(parameters.parameters(self.emitted, metadata))
            code = MachineCode(
                *(name, metadata.name, taken, 32 * metadata.num_warps, metadata.shared, self.asm["cubin"]),
                assembler="Triton's assembler",
            )
            return LoadedCode.of(code, driver.driver(), knobs.runtime)
        except Exception as error:
            raise CompilationError(f"kernel `{name}` could not be loaded: {error}") from error
