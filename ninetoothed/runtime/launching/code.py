"""Machine code on one device, and its launches. Triton would have a C compiler make a launcher for each signature.

    parameters    "Q" x_ptr, "Q" y_ptr, "i" n
    values        None, None, 1000             None: each launch gives it
    memory        grid, threads, shared memory | stream, x_ptr, y_ptr | n

`prepare` writes the memory; a launch packs the middle part, and calls the driver.
"""

from __future__ import annotations

import contextlib
import ctypes
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ninetoothed.runtime import private_triton
from ninetoothed.runtime.launching.driver import Driver, Encoding

# `CUlaunchConfig`: programs and threads along three axes, shared memory; then the stream, and no attributes.
_HEAD = struct.Struct("=7I")
_STREAM, _SIZE = 32, 56
# Triton adds pointers to memory that it provides, and our kernels need none of it: null, for as many as there may be.
_SPARE = 4


@dataclass(frozen=True)
class CodeParameter:
    """A parameter of machine code: how `struct` packs it, and where it starts within that, in bytes.

    encoding: of a descriptor, which is followed by its sizes and strides.
    """

    letter: str
    start: int = 0
    encoding: Encoding | None = None


POINTER, INTEGER = CodeParameter("Q"), CodeParameter("q")
_NUMBERS = {"float": {16: "e", 32: "f", 64: "d"}, "int": {8: "b", 16: "h", 32: "i", 64: "q"}}


def number(bits: int, is_float: bool, is_unsigned: bool, is_bfloat16: bool = False) -> CodeParameter:
    """Return the parameter that is a number of so many bits."""
    if is_bfloat16:  # the upper half of a float32
        return CodeParameter("f", 2)
    letter = _NUMBERS["float" if is_float else "int"][bits]
    return CodeParameter(letter.upper() if is_unsigned and not is_float else letter)


def descriptor(encoding: Encoding) -> list[CodeParameter]:
    """Return the parameters that stand for a descriptor; numbers of fewer bits are the lower ones of these."""
    return [CodeParameter("128s", encoding=encoding), *[INTEGER] * (2 * len(encoding.block))]


# Memory of a launch, where the stream lies in it, and what launches as it tells, with the driver's status.
Slot = tuple[Any, int, Callable[[], int]]


@dataclass(frozen=True, eq=False)
class PreparedLaunch:
    """The launch of so many programs, with what is the same at all launches.

    A launch takes one of the `spare` slots, which no other thread has then, and gives it back: `pack` takes memory and
    place of the slot, the stream and what each launch gives. When the driver returns, it has copied the memory.
    launch: does that, too, and what else may be needed: it makes slots, calls hooks, and tells what fails.
    """

    launch: Callable[..., None]
    spare: list[Slot] | None = None
    pack: Callable[..., None] | None = None


class Launchable(Protocol):
    """Machine code on one device. hooks: where those lie that watch launches; None where there can be none."""

    @property
    def hooks(self) -> Any: ...

    def prepare(self, programs: tuple[int, int, int], values: Sequence[Any]) -> PreparedLaunch:
        """Prepare launches with these values of the parameters, None for each that a launch gives."""

    def encode(self, position: int, address: int, sizes: list[int], strides: list[int]) -> bytes:
        """Encode what is passed for the descriptor of this position among all."""


@dataclass(frozen=True)
class MachineCode:
    """The code of a kernel: how messages call it, its function, what that takes, and what has assembled it."""

    kernel: str
    function: str
    parameters: tuple[CodeParameter, ...]
    threads: int
    shared: int
    code: bytes
    assembler: str


class _Packing:
    """The parameters from a place in memory on: their format, where each starts, and where they end."""

    def __init__(self, parameters: Iterable[CodeParameter], begin: int):
        self.format, self.starts, self.end = "", [], begin
        self._letters = []
        for each in parameters:
            width = struct.calcsize(f"={each.letter}")
            start = -(-self.end // min(width, 64)) * min(width, 64)
            self.format += "x" * (start - self.end) + each.letter
            self.starts.append(start + each.start)
            self._letters.append(each.letter)
            self.end = start + width

    def pack(self, packed: struct.Struct, memory: Any, at: int, *values: Any) -> None:
        """Pack values, and others before them. A float that is too large for float32 is infinite."""
        try:
            packed.pack_into(memory, at, *values)
        except OverflowError:
            first = len(values) - len(self._letters)
            pairs = zip(self._letters, values[first:], strict=True)
            narrowed = (ctypes.c_float(value).value if letter == "f" else value for letter, value in pairs)
            packed.pack_into(memory, at, *values[:first], *narrowed)


@dataclass(frozen=True, eq=False)
class LoadedCode:
    """Machine code on one device."""

    code: MachineCode
    driver: Driver
    function: ctypes.c_void_p
    hooks: Any = None

    @classmethod
    def of(cls, code: MachineCode, driver: Driver, hooks: Any = None) -> LoadedCode:
        """Load machine code on the current device."""
        return cls(code, driver, driver.function(code.code, code.function, code.shared, code.assembler), hooks)

    def encode(self, position: int, address: int, sizes: list[int], strides: list[int]) -> bytes:
        encodings = [each.encoding for each in self.code.parameters if each.encoding is not None]
        return self.driver.encode(encodings[position], address, sizes, strides)

    def prepare(self, programs: tuple[int, int, int], values: Sequence[Any]) -> PreparedLaunch:
        pairs = list(zip(self.code.parameters, values, strict=True))
        given = _Packing([each for each, value in pairs if value is None], _SIZE)
        known = _Packing([each for each, value in pairs if value is not None], given.end)
        same = bytearray(known.end + 8)
        _HEAD.pack_into(same, 0, *programs, self.code.threads, 1, 1, self.code.shared)
        constant = (value for value in values if value is not None)
        known.pack(struct.Struct(f"={known.format}"), same, given.end, *constant)
        order = {False: iter(given.starts), True: iter(known.starts)}
        places = [next(order[value is not None]) for value in values] + [known.end] * _SPARE
        packed = struct.Struct(f"=Q{_SIZE - _STREAM - 8}x{given.format}")

        def slot() -> Slot:
            memory = ctypes.create_string_buffer(len(same) + 64)
            at = -ctypes.addressof(memory) % 64
            base = ctypes.addressof(memory) + at
            ctypes.memmove(base, bytes(same), len(same))
            pointers = (ctypes.c_void_p * len(places))(*(base + place for place in places))
            return memory, at + _STREAM, self.driver.launcher(memory, at, self.function, pointers)

        spare = [slot()]

        def launch(stream: int, *values: Any) -> None:
            try:
                own = spare.pop()
            except IndexError:  # other threads have all there are
                own = slot()
            memory, at, call = own
            with _watched(self, stream):
                given.pack(packed, memory, at, stream, *values)
                status = self.driver.in_context(call)
            spare.append(own)
            self.driver.check(status, f"launch kernel `{self.code.kernel}`")

        return PreparedLaunch(launch, spare, packed.pack_into)


def is_watching(hook: Any) -> bool:
    """Tell whether a hook does anything: a function or None, or a chain of functions, which may be empty."""
    return bool(getattr(hook, "calls", hook))


@contextlib.contextmanager
def _watched(loaded: LoadedCode, stream: int) -> Iterator[None]:
    """Tell Triton's hooks of a launch, where there are any."""
    found = (getattr(loaded.hooks, f"launch_{name}_hook", None) for name in ("enter", "exit"))
    enter, leave = (hook if is_watching(hook) else None for hook in found)
    if enter is None and leave is None:
        yield
        return
    told = private_triton.launch_metadata(loaded.code.kernel, loaded.function.value, stream)
    if enter is not None:
        enter(told)
    yield
    if leave is not None:
        leave(told)
