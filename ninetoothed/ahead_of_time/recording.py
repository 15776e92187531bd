"""Record the calls that a program makes, and build what they run into a folder."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from ninetoothed.ahead_of_time import builder
from ninetoothed.ahead_of_time.carry import CarriedVariant, carried
from ninetoothed.built.folder import BuiltFolder
from ninetoothed.built.identity import identity
from ninetoothed.definition import KernelDefinition
from ninetoothed.errors import NineToothedError
from ninetoothed.runtime.dispatch import Launcher
from ninetoothed.runtime.loading.served import served
from ninetoothed.runtime.selection.machine import Machine

_LOG = logging.getLogger("ninetoothed")


@dataclass(eq=False)
class Recording:
    """The calls of kernels that were new, compiled as they came, and those that cannot be built, by their names.

    folder: what was written, once the recording has ended.
    """

    path: Path
    gpus: Sequence[Machine]
    left_out: dict[str, str] = field(default_factory=dict)
    folder: BuiltFolder | None = None
    _made: list[CarriedVariant] = field(default_factory=list)
    _launchers: dict[tuple, Launcher] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)

    def observe(self, definition: KernelDefinition, arguments: tuple, constants: Mapping[str, Any]) -> None:
        """Compile a call for each GPU; one of empty tensors mostly launches nothing, and is left out."""
        if any(isinstance(each, torch.Tensor) and not each.numel() for each in arguments):
            return
        own = identity(definition).digest
        variety = own, tuple(parameter.touched for parameter in definition.parameters)
        launcher = self._launchers.setdefault(variety, Launcher(definition))
        name = self._names.setdefault(own, self._free(definition.name))
        for gpu in self.gpus:
            try:
                compiled = launcher.compile(arguments, dict(constants), gpu)
                made = carried(compiled.plan, compiled.call, compiled.selection, compiled.variant, {})
            except NineToothedError as error:  # what the call itself would raise is raised when it runs
                self.left_out[definition.name] = str(error)
                _LOG.warning("kernel %s is not built: %s", definition.name, error)
                continue
            self._made.append(replace(made, variant=replace(made.variant, kernel=name, identity=own)))

    def _free(self, name: str) -> str:
        """Return a name that no other kernel has: `softmax`, `softmax_2`."""
        taken, number, found = set(self._names.values()), 1, name
        while found in taken:
            number += 1
            found = f"{name}_{number}"
        return found

    def write(self) -> BuiltFolder:
        """Write the folder."""
        self.folder = builder.write(self.path, self.path.name, self._made, in_c=False)
        return self.folder


@contextmanager
def recording(path: Path, gpus: Sequence[Machine]) -> Iterator[Recording]:
    """Record what is called meanwhile, in any thread."""
    state, made = served(), Recording(path, gpus)
    state.watch(made.observe)
    try:
        yield made
    finally:
        state.observers = tuple(each for each in state.observers if each != made.observe)
    made.write()
