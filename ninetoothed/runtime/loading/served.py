"""Let kernels of this process be those that were built, and record calls so that they can be built.

    load("built").serve()              calls of kernels find their machine code in the folder, and nothing is traced
    with recording("built"): ...       what is called meanwhile is built into the folder

Both look at calls that are new to a kernel, and all are where either begins: what calls led to before is forgotten.
There is one state for all threads, since a backward pass has its own.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch

from ninetoothed.built.identity import Identity, identity
from ninetoothed.definition import KernelDefinition
from ninetoothed.errors import LoadError, NineToothedError
from ninetoothed.runtime.arguments import BoundCall
from ninetoothed.runtime.call_cache import caches
from ninetoothed.runtime.launch_steps import LaunchPlan

if TYPE_CHECKING:
    from ninetoothed.runtime.loading.loaded import BuiltKernel, Loaded

_LOG = logging.getLogger("ninetoothed")

# Called with a kernel's definition, the arguments of a new call, and its constexpr symbols.
Observer = Callable[[KernelDefinition, tuple, Mapping[str, Any]], None]


@dataclass(eq=False)
class Served:
    """The kernels that calls find by the identities of theirs; and who observes new calls.

    refuses: whether a call that was not built is an error rather than compiled.
    """

    kernels: dict[str, tuple[BuiltKernel, ...]] = field(default_factory=dict)
    refuses: bool = False
    observers: tuple[Observer, ...] = ()
    identities: WeakKeyDictionary[KernelDefinition, Identity] = field(default_factory=WeakKeyDictionary)

    def add(self, loaded: Loaded, refuses: bool) -> None:
        """Serve the kernels of a folder, too."""
        kernels = dict(self.kernels)
        for kernel in loaded.kernels.values():
            known = kernels.get(kernel.identity, ())
            kernels[kernel.identity] = (kernel, *(each for each in known if each is not kernel))
        self.kernels, self.refuses = kernels, refuses
        caches().forget()

    def watch(self, observer: Observer) -> None:
        """Let an observer see calls from now on."""
        self.observers += (observer,)
        caches().forget()

    def plan(self, definition: KernelDefinition, call: BoundCall, device: torch.device) -> LaunchPlan | None:
        """Plan a call by what was built; None where it has to be compiled. Raises `LoadError` where that is refused."""
        if not self.kernels or device.type != "cuda":
            return None
        own = self._identity(definition)
        reason = "no kernel like it was built"
        for kernel in self.kernels.get(own.digest, ()):
            try:
                return kernel.plan(definition, call, own.free_names, device)
            except NineToothedError as error:
                reason = str(error)
        if any(isinstance(each, torch.Tensor) and not each.numel() for each in call.arguments):
            return None  # most such calls launch nothing
        if self.refuses:
            raise LoadError(f"kernel `{definition.name}` is not compiled here, as was asked for: {reason}")
        _LOG.warning("kernel %s is compiled now: %s", definition.name, reason)
        return None

    def _identity(self, definition: KernelDefinition) -> Identity:
        """Return the identity of a kernel: computed anew where a value that it names is another."""
        known = self.identities.get(definition)
        if known is None or not all(name.is_current for name in known.free_names):
            known = self.identities[definition] = identity(definition)
        return known

    def observe(self, definition: KernelDefinition, arguments: tuple, constants: Mapping[str, Any]) -> None:
        """Tell observers of a new call."""
        for observer in self.observers:
            observer(definition, arguments, constants)


@functools.cache
def served() -> Served:
    """Return the state of this process."""
    return Served()
