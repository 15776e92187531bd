"""Launches on the CPU that, as those on a GPU, see addresses alone: what a recording replays is then run for real."""

import ctypes
import dataclasses

import torch

from ninetoothed.runtime import executable, fast_path
from ninetoothed.runtime.launch_steps import Launch, Scalar, TensorAddress


def _tensor(address, shape, stride, dtype):
    if 0 in shape:
        return torch.empty(shape, dtype=dtype)
    last = sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
    memory = (ctypes.c_char * ((last + 1) * dtype.itemsize)).from_address(address)
    return torch.frombuffer(memory, dtype=dtype).as_strided(shape, stride)


def use(monkeypatch):
    """Let kernels on the CPU run from addresses, with the layouts of the first call; those on a GPU do so anyway."""
    plan_of, write_step = executable.plan_of, fast_path.write_step

    def from_addresses(definition, variant, call, *others):
        plan = plan_of(definition, variant, call, *others)
        if plan.device is not None:
            return plan
        (run,) = plan.steps
        are_tensors = [isinstance(value, torch.Tensor) for value in call.arguments]
        layouts = [
            (tuple(value.shape), value.stride(), value.dtype) if is_tensor else None
            for value, is_tensor in zip(call.arguments, are_tensors, strict=True)
        ]

        def kernel(*given):
            pairs = zip(given, layouts, strict=True)
            run(tuple(value if layout is None else _tensor(value, *layout) for value, layout in pairs))

        passed = tuple(TensorAddress(i) if is_tensor else Scalar(i) for i, is_tensor in enumerate(are_tensors))
        return dataclasses.replace(plan, steps=(Launch(kernel, (1, 1, 1), passed),))

    def write(source, step, device):
        if device is not None or not isinstance(step, Launch):
            return write_step(source, step, device)
        values = [fast_path.written_value(source, each) for each in step.passed]
        passed = [each if isinstance(each, str) else source.name(each) for each in values]
        source.add(f"{source.name(step.kernel)}({', '.join(passed)})")

    monkeypatch.setattr(executable, "plan_of", from_addresses)
    monkeypatch.setattr(fast_path, "write_step", write)
