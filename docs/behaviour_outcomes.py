"""Outcomes of calls, which can be compared: a description of results or of an error, and values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves


@dataclass(frozen=True)
class Outcome:
    """Hold the result of a call: `text` is compared as it is, `values` up to rounding."""

    text: str
    values: tuple[torch.Tensor, ...] = ()

    @property
    def is_error(self) -> bool:
        """Tell whether it is an error."""
        return re.match(r"\w*Error: ", self.text) is not None

    def differs(self, other: Outcome) -> bool:
        """Tell whether another call gave something else."""
        if self.text != other.text or len(self.values) != len(other.values):
            return True
        return not all(_is_close(*pair) for pair in zip(self.values, other.values, strict=True))


# Of each case of a behaviour, by its label, a call that is tried.
Cases = dict[str, Callable[[], Outcome]]


def tried(compute: Callable[[], Outcome]) -> Outcome:
    """Compute an outcome; of an error, its class and the first line of its message."""
    try:
        return compute()
    except Exception as error:
        # Which of its operators PyTorch could not run is no matter.
        message = re.sub(r"Could not run '[\w:.]+' with", "Could not run it with", str(error).strip())
        return Outcome(f"{type(error).__name__}: {message[:200]}".partition("\n")[0])


def of(results: Any, *facts: Callable[[torch.Tensor], Any], with_values: bool = True) -> Outcome:
    """Describe results by their types and shapes, and by facts of each."""
    tensors = [each for each in tree_leaves(results) if isinstance(each, torch.Tensor)]
    described = [
        " ".join((name_of(each), str(list(each.shape)), *(str(fact(each)) for fact in facts))) for each in tensors
    ]
    return Outcome(", ".join(described), tuple(map(_plain, tensors)) if with_values else ())


def name_of(tensor: torch.Tensor) -> str:
    """Name the type of a tensor."""
    return str(tensor.dtype).removeprefix("torch.")


def gradients(
    function: Callable, tensors: Sequence[torch.Tensor], *others: torch.Tensor
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Call a function, and give its results and the gradients of a weighted sum of them, of others, too."""
    results = [each for each in tree_leaves(function(*tensors)) if isinstance(each, torch.Tensor)]
    recorded = [each for each in results if each.requires_grad]
    leaves = [each for each in (*tensors, *others) if each.requires_grad]
    weights = [_weights(each) for each in recorded]
    found = torch.autograd.grad(recorded, leaves, weights, allow_unused=True) if recorded else ()
    return results, [each for each in found if each is not None]


def tensors_of(results: Any) -> list[torch.Tensor]:
    """List the results of a call."""
    return list(results) if isinstance(results, tuple) else [results]


def clones(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """Copy tensors: some operators write."""
    return [each.clone() for each in tensors]


def _weights(result: torch.Tensor) -> torch.Tensor:
    """Make weights of a result that are not all alike: a sum of softmax has no gradient."""
    count = torch.arange(result.numel(), dtype=torch.float32, device=result.device) % 5 - 1.5
    return count.reshape(result.shape).to(result.dtype)


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """Give the numbers of a tensor, whatever its layout; none of one that has no memory."""
    tensor = tensor.detach()
    if tensor.is_meta:
        return torch.empty(0)
    with torch._C.DisableTorchFunctionSubclass():
        if tensor.layout is not torch.strided:
            tensor = tensor.to_dense()
        return tensor.double() if tensor.is_floating_point() else tensor


def _is_close(own: torch.Tensor, theirs: torch.Tensor) -> bool:
    tolerance = 2e-2
    return own.shape == theirs.shape and torch.allclose(own, theirs, rtol=tolerance, atol=tolerance, equal_nan=True)
