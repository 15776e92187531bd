"""Shares: how much of a model runs on NineToothed."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.parameter import is_lazy

# Tables that are looked up: nothing is computed with their weights.
TABLES = nn.Embedding, nn.EmbeddingBag


class Share(NamedTuple):
    """A part of a whole: how many are ours, and how many there are."""

    ours: int = 0
    total: int = 0

    def __str__(self) -> str:
        """Write it rounded down, so that 100% are all."""
        return f"{1000 * self.ours // max(self.total, 1) / 10:g}%"


def of_weights(model: nn.Module, kinds: tuple[type[nn.Module], ...], parts: type[nn.Module]) -> Share:
    """Count the elements of a model's weights, embeddings aside, and those that modules of our kinds alone hold.

    Of `parts`, of our kinds, too, the weights are not computed with by ours. Weights are parameters and, as quantised
    ones often are, buffers whose name says so.
    """
    sizes: dict[bool, dict[int, int]] = {True: {}, False: {}}
    for module in model.modules():
        is_ours = isinstance(module, kinds) and not isinstance(module, parts)
        buffers = (each for name, each in module.named_buffers(recurse=False) if "weight" in name)
        for each in () if isinstance(module, TABLES) else (*own_parameters(module), *buffers):
            if not is_lazy(each):
                sizes[is_ours][id(each)] = each.numel()
    ours = sum(size for key, size in sizes[True].items() if key not in sizes[False])
    return Share(ours, ours + sum(sizes[False].values()))


def of_flops(model: nn.Module, *args: Any, **kwargs: Any) -> Share:
    """Call a model, without gradients, and count the floating-point operations of its products, and those of ours."""
    from torch.utils.flop_counter import FlopCounterMode

    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(*args, **kwargs)
    counts = {str(operator): count for operator, count in counter.get_flop_counts()["Global"].items()}
    ours = sum(count for name, count in counts.items() if name.startswith("ninetoothed."))
    return Share(ours, sum(counts.values()))


def own_parameters(module: nn.Module) -> Iterator[nn.Parameter]:
    """Give the parameters that a module holds and no part of it does: heads also hold the bias of their layer."""
    own = [each for each in module._parameters.values() if each is not None]
    inner = {id(each) for child in module.children() for each in child.parameters()} if own else ()
    return (each for each in own if id(each) not in inner)
