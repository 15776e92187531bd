"""Quantisation by PyTorch itself, which finds modules by their very classes, and says nothing of what it misses."""

import warnings
from typing import Any

from torch import nn


class PassedByWarning(UserWarning):
    """Swapped modules that `torch.ao.quantization` was given: it leaves them as they are, and says nothing."""


class PassedBy(nn.Module):
    """A module in the place of one that `torch.ao.quantization` looks for by its very class.

    `quantize_dynamic` and `prepare` give each module a `qconfig`, and convert those whose type is in a table. No
    subclass is. (torchao's `quantize_` asks whether a module is a Linear, which these are.)
    """

    # TorchScript would compile it.
    __jit_unused_properties__ = ("qconfig",)

    @property
    def qconfig(self) -> Any:
        if "qconfig" not in self.__dict__:
            raise AttributeError("qconfig")
        return self.__dict__["qconfig"]

    @qconfig.setter
    def qconfig(self, value: Any) -> None:
        _warn()
        self.__dict__["qconfig"] = value

    @qconfig.deleter
    def qconfig(self) -> None:
        self.__dict__.pop("qconfig", None)


def tell_tracer(value: Any) -> None:
    """Warn where a value stands for a tensor that `prepare_fx` traces: its graph has our operators, which it skips."""
    if type(getattr(value, "tracer", None)).__module__.startswith("torch.ao.quantization"):
        _warn()


def _warn() -> None:
    warnings.warn(
        "torch.ao.quantization finds modules by PyTorch's own classes: it leaves all that swap_modules has put into "
        "the model as it is. Take the swap back (report.undo()), quantise, then swap what is left.",
        PassedByWarning,
        stacklevel=3,
    )
