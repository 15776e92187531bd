"""Launches on the CPU that, as those on a GPU, see addresses alone: what a recording replays is then run for real."""

import ctypes
from dataclasses import dataclass
from typing import Any

import torch

from ninetoothed.runtime import executable, fast_path


@dataclass(frozen=True)
class FromAddresses:
    """The PyTorch backend's run of a kernel on whatever lies at the addresses, with the layouts of the first call."""

    evaluation: Any
    layouts: tuple
    is_replayable = True
    device = None

    @property
    def definition(self):
        return self.evaluation.definition

    @property
    def precision(self):
        return self.evaluation.precision

    @property
    def separate(self):
        return self.evaluation.separate

    @property
    def free_names(self):
        return self.evaluation.free_names

    def launch(self, given):
        values = tuple(
            value if layout is None else _tensor(value, *layout)
            for value, layout in zip(given, self.layouts, strict=True)
        )
        self.evaluation.run(values)


def _tensor(address, shape, stride, dtype):
    if 0 in shape:
        return torch.empty(shape, dtype=dtype)
    last = sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
    memory = (ctypes.c_char * ((last + 1) * dtype.itemsize)).from_address(address)
    return torch.frombuffer(memory, dtype=dtype).as_strided(shape, stride)


def use(monkeypatch):
    """Let kernels on the CPU run from addresses."""
    of, written = executable.CpuExecutable.of.__func__, fast_path.written

    def from_addresses(cls, definition, variant, call, integers, place):
        layouts = tuple(
            (tuple(value.shape), value.stride(), value.dtype) if isinstance(value, torch.Tensor) else None
            for value in call.arguments
        )
        return FromAddresses(of(cls, definition, variant, call, integers, place), layouts)

    def launched(source, found, values):
        if not isinstance(found, FromAddresses):
            return written(source, found, values)
        source.add(f"{source.name(found.launch)}(({''.join(f'{value}, ' for value in values)}))")
        return "True"

    monkeypatch.setattr(executable.CpuExecutable, "of", classmethod(from_addresses))
    monkeypatch.setattr(fast_path, "written", launched)
