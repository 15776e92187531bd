"""The static caches of transformers, as steps use them that are captured once and replayed.

A layer of full attention counts its tokens on the device. One of a sliding window counts them in Python, too, and acts
by that: it fills up, and from then on it drops its oldest token. So a step of each kind has a graph of its own, and
Python's count goes on at each replay.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from transformers import cache_utils

from ..modules.caches import are_own

FULL: Any = cache_utils.StaticLayer
SLIDING: Any = cache_utils.StaticSlidingWindowLayer


def memory_of(cache: Any) -> list[torch.Tensor]:
    """List the tensors of a static cache that a step reads and writes."""
    return [each for layer in cache.layers for each in (layer.keys, layer.values, layer.cumulative_length)]


def unlike_static(cache: Any) -> str:
    """Give the reason why a cache is none that `StepCache` knows, with all its memory; "" if it is."""
    if type(cache) is not cache_utils.StaticCache:
        return f"its cache is a {type(cache).__name__}, not a StaticCache"
    layers: Any = cache.layers
    are_known = all(type(each) in (FULL, SLIDING) and getattr(each, "is_initialized", False) for each in layers)
    is_own = are_known and all(are_own(cache_utils, cache, type(each), each) for each in layers)
    return "" if is_own else "its cache is empty, offloaded, or updated by a function that is not transformers'"


@dataclass(frozen=True)
class StepCache:
    """A static cache while steps of one token run over it.

    memory: its tensors. layout: the class and the shape of each layer. sliding: the layers that count in Python.
    """

    cache: Any
    memory: list[torch.Tensor]
    layout: tuple[tuple, ...]
    sliding: tuple[Any, ...]

    @classmethod
    def of(cls, cache: Any) -> "StepCache":
        layout = tuple((type(each), each.keys.dtype, each.keys.shape, each.values.shape) for each in cache.layers)
        return cls(cache, memory_of(cache), layout, tuple(each for each in cache.layers if type(each) is SLIDING))

    @property
    def kind(self) -> tuple:
        """Tell kinds of steps apart: which layers drop a token."""
        return self.layout, tuple(map(_is_full, self.sliding))

    def advance(self) -> None:
        """Count a token in Python, where the device has counted it."""
        for layer in self.sliding:
            layer.cumulative_length_int += 1

    def run(self, step: Callable[[], Any]) -> Any:
        """Run a step that counts no token in Python, and drops one without a number from the host."""
        counts = [layer.cumulative_length_int for layer in self.sliding]
        full = [layer for layer in self.sliding if _is_full(layer)]
        for layer in full:
            layer.update = functools.partial(_roll, layer)
        try:
            return step()
        finally:
            for layer in full:
                del layer.update
            for layer, count in zip(self.sliding, counts):
                layer.cumulative_length_int = count


def _is_full(layer: Any) -> bool:
    return layer.cumulative_length_int >= layer.max_cache_len


def _roll(layer: Any, key: torch.Tensor, value: torch.Tensor, *_: Any, **__: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Drop the oldest token and add one, as the layer's own `update` does."""
    for kept, new in ((layer.keys, key), (layer.values, value)):
        kept.copy_(torch.cat((kept[:, :, 1:], new.to(kept.dtype)), 2))
    return layer.keys, layer.values
