"""Models of transformers whose loss, in training with labels, is computed without their logits.

The forward is the model's own. While it runs, its head gives pending logits, which become a loss where the model hands
them to `cross_entropy`, by whatever loss function it has.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ninetoothed.runtime import private

from .eligibility import unsuitable, unsupported
from .linear import NTLinear
from .pending_logits import PendingLogits
from .substitute import Substitute, is_outdated, own_forward


class NTCausalLM(Substitute):
    """A model of transformers that computes its loss without its logits, by `ninetoothed.linear_cross_entropy`.

    In training with labels and where gradients are recorded, its output has no logits, unless it is called with
    `skip_logits=False`. Anything else is as before: in `eval()`, without labels, under `torch.compile` of the whole
    model, and with a head that became another module since, as adapters and sharding make it.
    """

    @classmethod
    def facts(cls, replaced: type[nn.Module]) -> dict[str, Any]:
        original = replaced.forward
        place = list(inspect.signature(original).parameters).index("labels") - 1

        @functools.wraps(original)
        def forward(self: Any, *args: Any, skip_logits: bool = True, **kwargs: Any) -> Any:
            function = original if not is_outdated(self) else own_forward(self)
            labels = args[place] if len(args) > place else kwargs.get("labels")
            is_training = self.training and labels is not None and torch.is_grad_enabled()
            head = self.get_output_embeddings() if is_training and skip_logits else None
            if not defers(head) or torch.compiler.is_compiling():
                return function(self, *args, **kwargs)
            return _without_logits(head, function, self, args, kwargs)

        # By this name the Trainer knows whose labels it has to shift.
        return {"forward": forward, "_get_name": lambda self: replaced.__name__}


def defers(head: Any) -> bool:
    """Tell whether a head is a plain linear layer that nobody looks at, whose product can be left out."""
    if type(head) not in (nn.Linear, NTLinear):
        return False
    if not private.runs_forward_alone(head):
        return False
    return type(head.weight) is nn.Parameter and type(head.weight.data) is torch.Tensor


def _without_logits(head: Any, function: Callable, model: Any, args: tuple, kwargs: dict) -> Any:
    def forward(states: torch.Tensor) -> PendingLogits:
        return PendingLogits(head, states, states, states.dtype)

    vars(head)["forward"] = forward
    try:
        output = function(model, *args, **kwargs)
    finally:
        vars(head).pop("forward", None)
    if isinstance(output, tuple):
        return tuple(each for each in output if not isinstance(each, PendingLogits))
    if isinstance(output.get("logits"), PendingLogits):
        output["logits"] = None
    return output


def replacement(module: nn.Module) -> type[nn.Module] | str | None:
    """Choose NTCausalLM for a model that hands the logits of a linear head to a loss function; None for no model."""
    forward = type(module).forward
    if not (hasattr(module, "get_output_embeddings") and hasattr(module, "loss_function")):
        return None
    head: Any = module.get_output_embeddings()  # type: ignore[operator]
    if head is None:
        return None
    if "labels" not in inspect.signature(forward).parameters:
        return "its forward takes no labels"
    if "loss_function" not in inspect.unwrap(forward).__code__.co_names:
        return "its forward computes its loss itself"
    if not defers(head):
        return "its head is no plain torch.nn.Linear"
    return unsuitable(module) or unsupported(head.weight, "head's weight") or NTCausalLM
