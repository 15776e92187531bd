"""Let operators take nested tensors of layout `torch.jagged`: those that compute rows one by one run on the values.

    linear(x, weight)   of x: (batch, jagged, in)   ->   nest(linear(x.values(), weight))

That is so where the jagged dimension is not among the last ones, which the operator computes together. All else is left
to PyTorch's function of the same name, which computes it, or raises its own error: offsets that differ, above all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import torch

from ninetoothed.errors import ArgumentError, UnsupportedError
from ninetoothed.runtime import private
from ninetoothed.runtime.jagged import JaggedParts
from ninetoothed.runtime.private import FunctionSchema, OpOverload

from .autograd import no_backward
from .recording import Gradient, recorder_of_plain_calls

# How many of the last dimensions an operator computes together, of its arguments.
Whole = Callable[..., int]


def by_values(name: str, namesake: Callable, whole: Whole | int = 0) -> Callable:
    """Make the function of nested tensors of the operator `ninetoothed::name`.

    namesake: PyTorch's function of the operator's arguments. whole: how many of the last dimensions are computed
    together; 0 for an operator that is elementwise and broadcasts.
    """

    def nested(*args: Any, **kwargs: Any) -> Any:
        count = whole if isinstance(whole, int) else whole(*args, **kwargs)
        first = next(each for each in (*args, *kwargs.values()) if isinstance(each, torch.Tensor) and each.is_nested)
        rows = Rows.of(first, count) if private.is_jagged(first) else None
        values = None if rows is None else rows.take((*args, *kwargs.values()))
        if rows is None or values is None:
            return namesake(*args, **kwargs)
        named = dict(zip(kwargs, values[len(args) :], strict=True))
        return rows.nest(overload(name)(*values[: len(args)], **named))

    return nested


def overload(name: str) -> Any:
    """Return an operator as it is registered by now."""
    return getattr(torch.ops.ninetoothed, name).default


def refusing(name: str) -> Callable:
    """Make the function of nested tensors of an operator that takes none."""

    def nested(*args: Any, **kwargs: Any) -> Any:
        raise UnsupportedError(
            f"{name} takes no nested tensors; call it with their values, `x.values()`, or give `register` a function "
            "of such tensors, `nested=`"
        )

    return nested


def longest_of(name: str, parts: JaggedParts) -> int:
    """Return the length of the longest entry for the operator `name`; it is read where PyTorch does not know it.

    In a graph that is traced it cannot be read. It is no longer than all together: programs past an entry's end do
    nothing.
    """
    if parts.is_traced and private.known_longest(parts.nested) is None:
        return parts.values.shape[parts.dim - 1]
    longest = parts.find_longest()
    if longest is None:
        raise ArgumentError(
            f"ninetoothed::{name} is given a nested tensor of which the longest entry is not known, and a CUDA graph "
            "is being captured; call it once before, or give `max_seqlen` to `torch.nested.nested_tensor_from_jagged`"
        )
    return longest


def itself_on_nested(operator: OpOverload, schema: FunctionSchema, gradient: Gradient, compute: Callable) -> Callable:
    """Make the function of nested tensors of an operator whose own functions take them: `compute`, and its gradient."""
    name = operator.name()
    known = Gradient(lambda ctx, *grads: _raise(no_backward(name)), None) if gradient.is_missing else gradient
    record = recorder_of_plain_calls(operator, schema, known, compute)

    def nested(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling() or _are_traced((*args, *kwargs.values())):
            raise UnsupportedError(
                f"{name} is given nested tensors where a graph is traced, which its functions cannot tell the shapes"
                " of; give `register` a function of them, `nested=`, that calls operators on their values"
            )
        if not (torch.is_grad_enabled() and private.any_requires_grad(*args, **kwargs)):
            return compute(*args, **kwargs)
        if gradient.recorded is not None:
            return gradient.recorded(*args, **kwargs)
        if record is None:
            raise UnsupportedError(
                f"{name} takes lists of tensors, and has no gradient for nested ones; call it on values"
            )
        return record(args, kwargs)

    return nested


@private.hidden_from_dynamo
def _are_traced(arguments: tuple) -> bool:
    """Tell by their offsets whether nested tensors are those of a graph: PyTorch 2.11 does not say that it traces one.

    Dynamo must not trace this: it would find itself.
    """
    return any(type(JaggedParts.of(each).offsets) is not torch.Tensor for each in arguments if private.is_jagged(each))


def _raise(error: Exception) -> NoReturn:
    raise error


@dataclass(frozen=True)
class Rows:
    """The rows of a nested tensor: how it is nested, its rank, and how many of the last dimensions make a row."""

    parts: JaggedParts
    ndim: int
    whole: int

    @classmethod
    def of(cls, nested: Any, whole: int) -> Rows | None:
        """Return the rows of a nested tensor; None where entries have their ends within a row."""
        parts = JaggedParts.of(nested)
        ndim = parts.values.ndim + 1
        return cls(parts, ndim, whole) if parts.dim < ndim - whole else None

    def take(self, arguments: tuple) -> list[Any] | None:
        """Return arguments for the values; None where some do not fit together by rows."""
        taken = [self._taken(each) if isinstance(each, torch.Tensor) else each for each in arguments]
        is_dense = [isinstance(each, torch.Tensor) and not each.is_nested for each in arguments]
        # What is between entries would have a part in the gradients of dense tensors.
        has_holes = self.parts.lengths is not None and any(is_dense)
        fits = all(new is not None or old is None for new, old in zip(taken, arguments, strict=True))
        return taken if fits and not has_holes else None

    def _taken(self, tensor: torch.Tensor) -> torch.Tensor | None:
        if private.is_jagged(tensor):
            other = JaggedParts.of(tensor)
            alike = (other.values.ndim, other.dim) == (self.ndim - 1, self.parts.dim)
            return other.values if alike and other.shares_entries(self.parts) else None
        if tensor.is_nested:
            return None
        return tensor if self.whole else self._broadcast(tensor)

    def _broadcast(self, dense: torch.Tensor) -> torch.Tensor | None:
        """Return a dense tensor as it broadcasts with the values; None where it differs from entry to entry."""
        missing = self.ndim - dense.ndim
        if any(dense.shape[d - missing] != 1 for d in (0, self.parts.dim) if d >= missing):
            return None
        return None if missing < 0 else dense.squeeze(0) if missing == 0 else dense

    def nest(self, results: Any) -> Any:
        """Nest results of the values."""
        if isinstance(results, tuple):
            return tuple(map(self.parts.nest, results))
        return self.parts.nest(results)
