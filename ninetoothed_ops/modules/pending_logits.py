"""Logits that a loss may not need: the states and the head of which they are the product, and what was done to them.

A model hands its logits to PyTorch's `cross_entropy`, perhaps scaled, capped, cast and shifted. All that is written
down, and the loss computed without them. Whatever else is asked of them is asked of the logits, which are computed
then, as without a swap: so nothing is guessed.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from ..ops.cross_entropy import REDUCTIONS
from ..ops.linear_cross_entropy import linear_cross_entropy


def _of_logits(name: str) -> Any:
    """Make a method that is one of the logits."""

    def method(self: Any, *args: Any) -> Any:
        return getattr(self.computed(), name)(*args)

    return method


@dataclass(frozen=True, eq=False)
class PendingLogits:
    """The logits of a head for rows of states: scale * logits, or scale * tanh(inner * logits).

    source: the states as they came to the head; `states` follows the shapes of the logits. operations: what was done to
    the logits, in order. inner: the scale before a tanh, None without one.
    """

    head: nn.Linear
    source: torch.Tensor
    states: torch.Tensor
    dtype: torch.dtype
    operations: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = ()
    scale: float = 1.0
    inner: float | None = None

    def computed(self) -> torch.Tensor:
        """Compute the logits, and do all that was done to them."""
        logits = type(self.head).forward(self.head, self.source)
        for each in self.operations:
            logits = each(logits)
        return logits

    @property
    def shape(self) -> torch.Size:
        return torch.Size((*self.states.shape[:-1], self.head.out_features))

    @property
    def device(self) -> torch.device:
        return self.states.device

    @property
    def ndim(self) -> int:
        return self.states.ndim

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def _with(self, operation: Callable, **changes: Any) -> "PendingLogits":
        return replace(self, operations=(*self.operations, operation), **changes)

    def float(self) -> "PendingLogits":
        return self._with(lambda logits: logits.float(), dtype=torch.float32)

    def contiguous(self) -> "PendingLogits":
        return self

    def to(self, *args: Any, **kwargs: Any) -> Any:
        (asked,) = args if len(args) == 1 and not kwargs else (None,)
        if isinstance(asked, torch.dtype) and asked.is_floating_point:
            return self._with(lambda logits: logits.to(asked), dtype=asked)
        return self if asked is not None and asked == self.device else self.computed().to(*args, **kwargs)

    def view(self, *shape: Any) -> Any:
        sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], list | tuple) else shape
        if not (all(isinstance(size, int) for size in sizes) and sizes[-1] == self.head.out_features):
            return self.computed().view(*shape)
        states = self.states.reshape(*sizes[:-1], self.states.shape[-1])
        return self._with(lambda logits: logits.view(*sizes), states=states)

    reshape = view

    def __getitem__(self, key: Any) -> Any:
        keys = key if isinstance(key, tuple) else (key,)
        is_whole = keys[-1] == slice(None) and (... in keys[:-1] or len(keys) == self.ndim)
        if not is_whole or any(not isinstance(each, slice | type(...)) for each in keys):
            return self.computed()[key]
        return self._with(lambda logits: logits[key], states=self.states[key])

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, int | float) or self.inner is not None and self.scale != 1.0:
            return self.computed() * other
        return self._with(lambda logits: logits * other, scale=self.scale * other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        if not isinstance(other, int | float) or self.inner is not None:
            return self.computed() / other
        return self._with(lambda logits: logits / other, scale=self.scale / other)

    def tanh(self) -> Any:
        if self.inner is not None:
            return self.computed().tanh()
        return self._with(torch.tanh, scale=1.0, inner=self.scale)

    # Operators are looked up in the class.
    __add__, __radd__, __sub__, __rsub__ = map(_of_logits, ("__add__", "__radd__", "__sub__", "__rsub__"))
    __neg__, __pow__, __matmul__, __rtruediv__ = map(_of_logits, ("__neg__", "__pow__", "__matmul__", "__rtruediv__"))
    __lt__, __le__, __gt__, __ge__ = map(_of_logits, ("__lt__", "__le__", "__gt__", "__ge__"))
    __len__, __iter__ = map(_of_logits, ("__len__", "__iter__"))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.computed(), name)

    @classmethod
    def __torch_function__(cls, function: Callable, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, (first, *rest) = kwargs or {}, args or (None,)
        if function is functional.cross_entropy:
            given = dict(kwargs) if first is None else {"input": first, **kwargs}
            return _loss(given.pop("input"), *rest, **given)
        if function in (torch.tanh, torch.Tensor.tanh) and isinstance(first, cls):
            return first.tanh()

        def logits_of(value: Any) -> Any:
            return value.computed() if isinstance(value, cls) else value

        return function(*map(logits_of, args), **{name: logits_of(value) for name, value in kwargs.items()})


def _loss(
    input: PendingLogits,
    target: torch.Tensor,
    weight: torch.Tensor | None = None,
    size_average: None = None,
    ignore_index: int = -100,
    reduce: None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> torch.Tensor:
    options: dict[str, Any] = {"ignore_index": ignore_index, "reduction": reduction, "label_smoothing": label_smoothing}
    # One rounding apart, 30 * tanh(x / 30) is the softcap of 30.
    is_capped = input.inner is not None
    fits = not is_capped or abs(input.inner * input.scale - 1) < 1e-6  # type: ignore[operator]
    is_plain = isinstance(target, torch.Tensor) and target.dtype is torch.int64 and target.shape == input.shape[:-1]
    if not (fits and is_plain and input.ndim == 2 and weight is size_average is reduce is None):
        return functional.cross_entropy(input.computed(), target, weight, size_average, reduce=reduce, **options)
    if reduction not in REDUCTIONS or not 0.0 <= label_smoothing <= 1.0:
        return functional.cross_entropy(input.computed(), target, **options)  # which raises
    bias: torch.Tensor | None = input.head.bias
    states, softcap = input.states, float(input.scale) if is_capped else None
    if not is_capped and input.scale != 1.0:
        states, bias = states * input.scale, None if bias is None else bias * input.scale

    return linear_cross_entropy(states, input.head.weight, target, bias, softcap=softcap, **options).to(input.dtype)
