"""Machine code behind a driver that only records: what its launches give it, read from memory as the driver would."""

import ctypes
import struct
import types

from ninetoothed.runtime.compilation import parameters
from ninetoothed.runtime.launching.code import LoadedCode, MachineCode
from ninetoothed.runtime.launching.driver import Driver


class Recording(Driver):
    """reached: (programs, stream, values) of each launch. statuses: what the next launches give instead of 0."""

    def __init__(self, taken):
        self._taken, self.reached, self.statuses = taken, [], []

    def launcher(self, memory, start, function, pointers):
        def launch():
            *shape, shared, stream, attributes, count = struct.unpack_from("=7I4xQQI", memory, start)
            assert shape[3:] == [128, 1, 1] and shared == 4096 and not attributes and not count
            self.reached.append((tuple(shape[:3]), stream, tuple(map(read, self._taken, pointers))))
            assert all(not ctypes.c_uint64.from_address(each).value for each in pointers[len(self._taken) :])
            return self.statuses.pop(0) if self.statuses else 0

        return launch

    def check(self, status, what):
        if status:
            raise RuntimeError(f"could not {what}: {status}")

    def encode(self, encoding, address, sizes, strides):
        return f"map {encoding.block} of {address}, {sizes}, {strides}".encode().ljust(128)


def read(parameter, address):
    """Read a parameter where the driver does; of a bfloat16 two bytes."""
    width = struct.calcsize(f"={parameter.letter}") - parameter.start
    found = bytes(parameter.start) + ctypes.string_at(address, width)
    (value,) = struct.unpack(f"={parameter.letter}", found)
    return value.decode().strip() if isinstance(value, bytes) else value


def loaded(taken, hooks=None):
    """Machine code that takes these parameters, and the driver that records."""
    driver = Recording(tuple(taken))
    code = MachineCode("kernel", "function", driver._taken, 128, 4096, b"", "an assembler")
    return LoadedCode(code, driver, ctypes.c_void_p(5), hooks), driver


def loaded_for(emitted, hooks=None):
    """Machine code of an emitted text, of which Triton would tell this."""
    described = [
        {"swizzle": 3, "elem_size": 2, "elem_type": 6, "block_size": list(each.block)} for each in emitted.descriptors
    ]
    return loaded(parameters.parameters(emitted, types.SimpleNamespace(tensordesc_meta=described)), hooks)
