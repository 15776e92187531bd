"""Show what a call runs, without running it: the Triton source."""

from __future__ import annotations

from typing import Any

from ninetoothed.errors import ArgumentTypeError
from ninetoothed.runtime import executable
from ninetoothed.runtime.dispatch import launcher_of
from ninetoothed.runtime.selection import machine
from ninetoothed.runtime.selection.problem import Configuration


class KernelSource(str):
    """The Triton source of a call, under a comment that tells the configuration and the GPU.

    text: the source without that comment. configuration: what was chosen, such as `.blocks` and `.num_warps`. gpu: the
    `GPU` that it is for.
    """

    text: str
    configuration: Configuration
    gpu: machine.Machine

    def __new__(cls, text: str, configuration: Configuration, gpu: machine.Machine) -> KernelSource:
        source = super().__new__(cls, f"# {configuration} for {gpu}\n{text}")
        source.text, source.configuration, source.gpu = text, configuration, gpu
        return source

    def __reduce__(self) -> tuple[Any, ...]:
        return KernelSource, (self.text, self.configuration, self.gpu)

    def __repr__(self) -> str:
        return str(self)


def source(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any], gpu: Any = None) -> KernelSource:
    """Return the Triton source of a call: for the GPU given, else the present one, else an H200.

    `gpu` is a `GPU` or the name of one, such as "h100", and may stand among the keywords of the call.
    """
    kwargs = dict(kwargs)
    gpu = _gpu(kwargs.pop("gpu", None) if gpu is None else gpu)
    variant = launcher_of(kernel).trace(args, kwargs, gpu)
    text = executable.emitted_for(kernel.definition, variant).source
    return KernelSource(text, variant.selection.configuration, gpu)


def _gpu(asked: Any) -> machine.Machine:
    gpu = machine.named(asked) if isinstance(asked, str) else asked
    if gpu is None:
        gpu = machine.current() or machine.H200
    if not isinstance(gpu, machine.Machine):
        raise ArgumentTypeError(
            f'`gpu` is given {gpu!r}; pass a name, such as "H200", or a `ninetoothed.runtime.selection.machine.Machine`'
        )
    return gpu
