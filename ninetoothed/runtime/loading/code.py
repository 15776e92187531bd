"""Machine code on one device: a function that packs its parameters and launches it, in the place of Triton's."""

from __future__ import annotations

import ctypes
import functools
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ninetoothed.built.description import BuiltVariant, Passed
from ninetoothed.runtime.loading.driver import Driver

_FLOATS = {32: "f", 64: "d"}
_INTEGERS = {8: "b", 16: "h", 32: "i", 64: "q"}
_DESCRIPTOR = 128
# `CUlaunchConfig`: programs and threads along three axes, shared memory, the stream, and no attributes.
_CONFIGURATION = struct.Struct("=7I4xQ24x")


@dataclass(frozen=True, eq=False)
class LoadedCode:
    """A loaded function, whose launches are written into memory of its own, one at a time.

    `fast_path` writes what `launch` does: under `lock`, `pack` takes programs, `fixed`, the stream and what is passed;
    then `call` gives the driver's status. The driver has copied the memory when it returns.
    launch: takes the programs along each axis, the stream, and what is passed, and knows what to do where that fails.
    ready: the encoder of descriptors, (position, described) -> what is passed for it.
    """

    lock: Any
    pack: Callable[..., None]
    fixed: tuple[int, int, int, int]
    call: Callable[[], int]
    launch: Callable[..., None]
    ready: Callable[[int, Any], tuple]


def loaded(variant: BuiltVariant, code: bytes, assembler: str, driver: Driver) -> LoadedCode:
    """Load a variant on the current device."""
    function = driver.function(code, variant.function, variant.shared, assembler)
    layout, size, starts = _layout(variant.passed)
    memory = ctypes.create_string_buffer(size + 64)
    base = -(-ctypes.addressof(memory) // 64) * 64
    pointers = (ctypes.c_void_p * len(starts))(*(base + start for start in starts))
    within = base - ctypes.addressof(memory)
    pack = functools.partial(struct.Struct(layout).pack_into, memory, within)
    call, lock = driver.launcher(memory, within, function, pointers), threading.Lock()
    fixed = (variant.threads, 1, 1, variant.shared)
    floats = [i for i, each in enumerate(variant.passed) if each.is_float and each.bits == 32]

    def launch(x: int, y: int, z: int, stream: int, *values: Any) -> None:
        with lock:
            try:
                pack(x, y, z, *fixed, stream, *values)
            except OverflowError:  # a float that float32 takes for infinite
                pack(x, y, z, *fixed, stream, *_narrowed(values, floats))
            status = call()
            if status and driver.is_without_context(status):
                torch.cuda.mem_get_info()  # makes one for this thread
                status = call()
        if status:
            driver.check(status, f"launch kernel `{variant.kernel}`")

    described = [each for each in variant.passed if each.role == "descriptor"]

    def ready(position: int, memory: Any) -> tuple:
        each = described[position]
        kind = (each.swizzle, each.element_type, each.element_size)
        encoded = driver.encode(int(memory.base), kind, list(each.block), memory.shape, memory.strides)
        return encoded, *memory.shape, *memory.strides

    return LoadedCode(lock, pack, fixed, call, launch, ready)


def _narrowed(values: tuple, floats: list[int]) -> list[Any]:
    return [ctypes.c_float(value).value if i in floats else value for i, value in enumerate(values)]


def _layout(passed: tuple[Passed, ...]) -> tuple[str, int, list[int]]:
    """Lay a launch out in memory: a format of `struct`, the bytes, and where each parameter starts."""
    text, end, starts = _CONFIGURATION.format, _CONFIGURATION.size, []
    for each in passed:
        width = _DESCRIPTOR if each.role == "descriptor" else each.bits // 8
        start = -(-end // min(width, 64)) * min(width, 64)
        text += "x" * (start - end) + _letter(each)
        starts.append(start)
        end = start + width
    return text, end, starts


def _letter(each: Passed) -> str:
    if each.role == "descriptor":
        return f"{_DESCRIPTOR}s"
    if each.role == "null":
        return f"{each.bits // 8}x"
    if each.is_float:
        return _FLOATS[each.bits]
    letter = _INTEGERS[each.bits]
    return letter.upper() if each.is_unsigned else letter
