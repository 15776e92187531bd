"""A batch of calls, as `torch.vmap` makes it of one: which arguments differ from call to call."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

# Of a batch and the arguments of an operator, in which what is batched has the batch first; and so has what it gives.
Rule = Callable[..., Any]


@dataclass(frozen=True)
class Batch:
    """So many calls of an operator as one, and what one of them gives.

    flags: for each positional argument, whether it has the batch in its first dimension; of a list, for each item.
    like: what one call would give, allocated and not filled.
    """

    operator: Callable
    size: int
    flags: tuple
    like: Any

    def has(self, *places: int) -> bool:
        """Tell whether any of the arguments at these places is batched."""
        return any(any(flag) if isinstance(flag, tuple) else flag for flag in (self.flags[i] for i in places))

    def has_only(self, *places: int) -> bool:
        """Tell whether no argument but those at these places is batched."""
        return not self.has(*(i for i in range(len(self.flags)) if i not in places))

    def whole(self, place: int, tensor: Any) -> Any:
        """Give an argument with the batch first: one that is the same in all calls is expanded."""
        if not isinstance(tensor, torch.Tensor) or self.flags[place]:
            return tensor
        return tensor.expand(self.size, *tensor.shape)

    def wholes(self, *tensors: Any, start: int = 0) -> list:
        """Give arguments, one after another from the place `start` on, with the batch first."""
        return [self.whole(start + i, each) for i, each in enumerate(tensors)]

    def folded(self, place: int, tensor: Any, dim: int = 0) -> Any:
        """Give an argument whose dimension `dim` has the batch in it, in front: (batch * size, ...)."""
        return tensor if tensor is None else fold(self.whole(place, tensor), dim)

    def parted(self, output: Any, dim: int = 0) -> Any:
        """Take the batch out of a dimension of what an operator gave, or of each of several."""
        if isinstance(output, tuple | list):
            return tuple(self.parted(each, dim) for each in output)
        return output.unflatten(dim, (self.size, output.shape[dim] // max(self.size, 1))).movedim(dim, 0)

    def unneeded(self, place: int) -> torch.Tensor:
        """Give what stands for a result that nobody asked for."""
        like = self.like[place]
        return like.new_empty((self.size, *like.shape))

    def one_by_one(self, *args: Any, **kwargs: Any) -> Any:
        """Call the operator for each: what no batch of its kernels computes."""
        calls = [self.operator(*self._of_call(i, args), **kwargs) for i in range(self.size)]
        if isinstance(calls[0], torch.Tensor):
            return torch.stack(calls)
        return tuple(map(torch.stack, zip(*calls)))

    def _of_call(self, i: int, args: Sequence) -> list:
        return [each[i] if flag is True else each for each, flag in zip(args, self.flags)]


def fold(tensor: torch.Tensor, dim: int = 0) -> torch.Tensor:
    """Fold the batch, which is first, into a dimension of what follows."""
    return tensor.movedim(0, dim).flatten(dim, dim + 1)


def beside(vector: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """View what belongs to the last dimensions of a tensor, each with the batch first, so that they broadcast."""
    return vector.view(vector.shape[0], *(1,) * (tensor.ndim - vector.ndim), *vector.shape[1:])
