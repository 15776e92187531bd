"""Call CUDA's driver by ctypes: load machine code, launch it, encode descriptors of tensors."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

from ninetoothed.errors import LoadError

LIBRARY = "libcuda.so.1"
# CUDA's numbers.
_DYNAMIC_SHARED_MEMORY = 8
_NO_CONTEXT = 201
_PROMOTION_128 = 2
_NEEDED = (
    *("cuGetErrorString", "cuDriverGetVersion", "cuModuleLoadData", "cuModuleGetFunction", "cuFuncSetAttribute"),
    "cuLaunchKernelEx",
)


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
        self.check(self._library.cuModuleLoadData(ctypes.byref(module), code), f"load the machine code of {assembler}")
        found = self._library.cuModuleGetFunction(ctypes.byref(function), module, name.encode())
        self.check(found, f"find the function {name}")
        if shared > 48 * 1024:
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

    def is_without_context(self, status: int) -> bool:
        """Tell whether a call failed since this thread has no context yet."""
        return status == _NO_CONTEXT

    def encode(
        self, address: int, kind: tuple[int, int, int], block: list[int], sizes: list[int], strides: list[int]
    ) -> bytes:
        """Encode the descriptor of a tensor, as Triton does.

        kind: the swizzle, the type of the elements as the driver numbers it, and their bytes.
        """
        if self._encode is None:
            raise LoadError(f"CUDA's driver {self.version} has no descriptors of tensors; install a newer one")
        swizzle, element_type, element_size = kind
        rank = len(block)
        shape = (ctypes.c_uint64 * rank)(*reversed(sizes))
        steps = (ctypes.c_uint64 * rank)(*(element_size * stride for stride in reversed(strides[:-1])))
        box, ones = (ctypes.c_uint32 * rank)(*reversed(block)), (ctypes.c_uint32 * rank)(*(1,) * rank)
        memory = ctypes.create_string_buffer(128 + 64)
        start = -(-ctypes.addressof(memory) // 64) * 64
        status = self._encode(
            ctypes.c_void_p(start),
            *(element_type, rank, ctypes.c_void_p(address), shape, steps, box, ones, 0, swizzle, _PROMOTION_128, 0),
        )
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
