"""Launch a kernel through Triton's own launcher: on GPUs that are not NVIDIA's, or with memory that Triton provides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ninetoothed.errors import UnsupportedError
from ninetoothed.runtime.launching.code import PreparedLaunch, is_watching


class ThroughTriton:
    """A kernel on one device. settings: Triton's, with its hooks."""

    hooks = None

    def __init__(self, kernel: Any, settings: Any):
        self._kernel, self._settings = kernel, settings
        kernel.run  # noqa: B018 - has it compile its launcher, and loads the kernel

    def encode(self, position: int, address: int, sizes: list[int], strides: list[int]) -> bytes:
        raise UnsupportedError(f"kernel `{self._kernel.name}` has descriptors, and has to be launched by Triton")

    def prepare(self, programs: tuple[int, int, int], values: Sequence[Any]) -> PreparedLaunch:
        kernel = self._kernel

        def launch(stream: int, *given: Any) -> None:
            rest = iter(given)
            passed = [next(rest) if value is None else value for value in values]
            hooks = self._settings.launch_enter_hook, self._settings.launch_exit_hook
            enter, leave = (hook if is_watching(hook) else None for hook in hooks)
            told = None if enter is None else kernel.launch_metadata(programs, stream, *passed)
            kernel.run(*programs, stream, kernel.function, kernel.packed_metadata, told, enter, leave, *passed)

        return PreparedLaunch(launch)
