"""Call CUDA's driver by ctypes: load machine code, launch it, encode descriptors of tensors."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ninetoothed.errors import LoadError

LIBRARY = "libcuda.so.1"
# CUDA's numbers.
_DYNAMIC_SHARED_MEMORY = 8
_NO_CONTEXT = 201
_PROMOTION_128 = 2
_PREFER_SHARED = 1
_NEEDED = (
    *("cuGetErrorString", "cuDriverGetVersion", "cuModuleLoadData", "cuModuleGetFunction", "cuFuncSetAttribute"),
    "cuLaunchKernelEx",
)


@dataclass(frozen=True)
class Encoding:
    """The encoding of a tensor's descriptor. element_type: the driver's number for it; element_size: in bytes."""

    swizzle: int
    element_type: int
    element_size: int
    block: tuple[int, ...]


class Driver:
    """The driver's library. Functions raise `LoadError` with its words where it fails."""

    def __init__(self, library: Any):
        self._library = library
        if lacking := [name for name in _NEEDED if not hasattr(library, name)]:
            raise LoadError(f"CUDA's driver is too old: it has no {', '.join(lacking)}; install a newer one")
        self._encode = getattr(library, "cuTensorMapEncodeTiled", None)

    def function(self, code: bytes, name: str, shared: int, assembler: str) -> ctypes.c_void_p:
        """Load machine code into the current context, and find a function in it.

        assembler: what has made it. A driver may be too old for its code.
        """
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        status = self.in_context(functools.partial(self._library.cuModuleLoadData, ctypes.byref(module), code))
        self.check(status, f"load the machine code of {assembler}")
        found = self._library.cuModuleGetFunction(ctypes.byref(function), module, name.encode())
        self.check(found, f"find the function {name}")
        if shared > 48 * 1024:
            if hasattr(self._library, "cuFuncSetCacheConfig"):  # as Triton does
                self._library.cuFuncSetCacheConfig(function, _PREFER_SHARED)
            allowed = self._library.cuFuncSetAttribute(function, _DYNAMIC_SHARED_MEMORY, shared)
            self.check(allowed, f"give a program {shared} bytes of shared memory")
        return function

    def launcher(self, memory: Any, start: int, function: ctypes.c_void_p, parameters: Any) -> Callable[[], int]:
        """Return what launches a function as memory tells from `start` on, and gives the driver's status.

        Of `cuLaunchKernel` eleven arguments would be converted at each launch, which takes half a microsecond.
        """
        given = ctypes.byref(memory, start), ctypes.c_void_p.from_param(function.value), ctypes.byref(parameters), None
        return functools.partial(self._library.cuLaunchKernelEx, *given)

    def check(self, status: int, what: str) -> None:
        """Raise where a call of the driver has failed."""
        if status:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(status, ctypes.byref(text))
            said = text.value.decode() if text.value else "it does not say why"
            raise LoadError(f"CUDA's driver {self.version} could not {what}: {said} (error {status})")

    @property
    def version(self) -> str:
        """The version of CUDA that the driver supports."""
        number = ctypes.c_int()
        self._library.cuDriverGetVersion(ctypes.byref(number))
        return f"{number.value // 1000}.{number.value % 1000 // 10}"

    def in_context(self, call: Callable[[], int]) -> int:
        """Call the driver, again with a context where this thread has none; return its status.

        Threads get theirs at their first call of CUDA's runtime. One whose memory PyTorch has at hand, as that of a
        backward pass, may have made none yet.
        """
        status = call()
        if status == _NO_CONTEXT:
            torch.cuda.mem_get_info()  # Any call of the runtime that is allowed while a graph is captured.
            status = call()
        return status

    def encode(self, encoding: Encoding, address: int, sizes: list[int], strides: list[int]) -> bytes:
        """Encode the descriptor of a tensor, as Triton does."""
        if self._encode is None:
            raise LoadError(f"CUDA's driver {self.version} has no descriptors of tensors; install a newer one")
        rank, block = len(encoding.block), encoding.block
        shape = (ctypes.c_uint64 * rank)(*reversed(sizes))
        steps = (ctypes.c_uint64 * rank)(*(encoding.element_size * stride for stride in reversed(strides[:-1])))
        box, ones = (ctypes.c_uint32 * rank)(*reversed(block)), (ctypes.c_uint32 * rank)(*(1,) * rank)
        memory = ctypes.create_string_buffer(128 + 64)
        start = -(-ctypes.addressof(memory) // 64) * 64
        given = ctypes.c_void_p(start), encoding.element_type, rank, ctypes.c_void_p(address), shape, steps, box, ones
        status = self.in_context(functools.partial(self._encode, *given, 0, encoding.swizzle, _PROMOTION_128, 0))
        self.check(status, f"encode a descriptor of sizes {sizes} and strides {strides}")
        return ctypes.string_at(start, 128)


@functools.cache
def driver() -> Driver:
    """Return the driver of this machine; `LoadError` where there is none."""
    return opened(LIBRARY)


def opened(library: str, load: Callable[[str], Any] = ctypes.CDLL) -> Driver:
    """Open a driver's library by its name or path."""
    try:
        return Driver(load(library))
    except OSError as error:
        raise LoadError(f"there is no driver of CUDA here: {error}; kernels that were built run on a GPU") from error
