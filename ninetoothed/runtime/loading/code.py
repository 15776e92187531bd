"""Machine code on one device: a function that packs its parameters and launches it, in the place of Triton's."""

from __future__ import annotations

import ctypes
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


@dataclass(frozen=True, eq=False)
class LoadedCode:
    """A loaded function: `launch` takes the programs along each axis, the stream, and what is passed.

    ready: the encoder of descriptors, (position, described) -> what is passed for it.
    """

    launch: Callable[..., None]
    ready: Callable[[int, Any], tuple]


def loaded(variant: BuiltVariant, code: bytes, assembler: str, driver: Driver) -> LoadedCode:
    """Load a variant on the current device."""
    function = driver.function(code, variant.function, variant.shared, assembler)
    given = [each for each in variant.passed if each.role != "null"]
    layout, size, starts = _layout(variant.passed)
    memory = ctypes.create_string_buffer(size + 64)
    base = -(-ctypes.addressof(memory) // 64) * 64
    within = base - ctypes.addressof(memory)
    pointers = (ctypes.c_void_p * len(starts))(*(base + start for start in starts))
    nulls = (0,) * (len(variant.passed) - len(given))
    pack, lock, call, address = struct.Struct(layout).pack_into, threading.Lock(), driver.launch, ctypes.c_void_p
    threads, shared = variant.threads, variant.shared
    floats = [i for i, each in enumerate(given) if each.is_float and each.bits == 32]

    def launch(x: int, y: int, z: int, stream: int, *values: Any) -> None:
        # The driver has copied the parameters when it returns; until then the memory is this launch's.
        with lock:
            try:
                pack(memory, within, *values, *nulls)
            except OverflowError:  # a float that float32 takes for infinite
                pack(memory, within, *_narrowed(values, floats), *nulls)
            status = call(function, x, y, z, threads, 1, 1, shared, address(stream), pointers, None)
            if status and driver.is_without_context(status):
                torch.cuda.mem_get_info()  # makes one for this thread
                status = call(function, x, y, z, threads, 1, 1, shared, address(stream), pointers, None)
        if status:
            driver.check(status, f"launch kernel `{variant.kernel}`")

    described = [each for each in variant.passed if each.role == "descriptor"]

    def ready(position: int, memory: Any) -> tuple:
        each = described[position]
        kind = (each.swizzle, each.element_type, each.element_size)
        encoded = driver.encode(int(memory.base), kind, list(each.block), memory.shape, memory.strides)
        return encoded, *memory.shape, *memory.strides

    return LoadedCode(launch, ready)


def _narrowed(values: tuple, floats: list[int]) -> list[Any]:
    return [ctypes.c_float(value).value if i in floats else value for i, value in enumerate(values)]


def _layout(passed: tuple[Passed, ...]) -> tuple[str, int, list[int]]:
    """Lay parameters out in memory: a format of `struct`, the bytes, and where each starts."""
    text, end, starts = "=", 0, []
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
    if each.is_float:
        return _FLOATS[each.bits]
    letter = _INTEGERS[each.bits]
    return letter.upper() if each.is_unsigned else letter
