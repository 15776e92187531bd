"""Forward mode: the tangent of what an operator gives, by its own kernels.

An operator that is linear in some of its arguments gives it for their tangents in their place (`TERMS`); one whose
derivative is symmetric, by its gradient (`SYMMETRIC`). Of all others it is derived: a gradient, J^T g, is linear in g,
and its own gradient for g is J t.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd import forward_ad

from ninetoothed.runtime import private, private_functorch
from ninetoothed.runtime.private import OpOverload

# For each operator, terms that add up to the tangent: the arguments that tangents stand in for, in which it is linear
# together, and those that are left out of the term.
TERMS: dict[str, tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]] = {
    "activation_backward": (((0,), ()),),
    "add": (((0, 1), ()),),
    "addmm": (((0, 1), ()), ((2,), (0,))),
    "bmm": (((0,), ()), ((1,), ())),
    "conv2d": (((0,), (2,)), ((1, 2), ())),
    "conv2d_backward_input": (((0,), ()), ((1,), ())),
    "conv2d_backward_weight": (((0,), ()), ((1,), ())),
    "dropout_of_seed": (((0,), ()),),
    "embedding": (((0,), ()),),
    "embedding_backward": (((0,), ()),),
    "joint_linear": (((0,), (2,)), ((1, 2), ())),
    "linear": (((0,), (2,)), ((1, 2), ())),
    "mm": (((0,), ()), ((1,), ())),
    "rope": (((0,), ()),),
    "rope_backward": (((0,), ()),),
    "rope_pair": (((0, 1), ()),),
    "silu_backward": (((0,), ()),),
    "softmax_backward": (((0,), ()),),
    "softmax_jagged_backward": (((0,), ()),),
}
# Others are called in its place wherever there may be tangents.
WITHOUT = frozenset({"ninetoothed::linear_cross_entropy_with_gradients"})
# Operators whose tangent is their gradient of the tangent: of the tangent, the arguments and the result.
SYMMETRIC: dict[str, Callable[..., torch.Tensor]] = {
    "activation": lambda t, args, kwargs, _: torch.ops.ninetoothed.activation_backward(t, *args),
    "gelu": lambda t, args, kwargs, _: torch.ops.ninetoothed.activation_backward(
        t, *args, "gelu_tanh" if kwargs.get("approximate") == "tanh" else "gelu"
    ),
    "silu": lambda t, args, kwargs, _: torch.ops.ninetoothed.silu_backward(t, *args),
    "softmax": lambda t, args, kwargs, output: torch.ops.ninetoothed.softmax_backward(
        t.to(output.dtype), output, args[1], output.dtype
    ),
}


@dataclass(frozen=True)
class _CallAtPrimals:
    """A call at primal values: of an operator, its arguments flat, and how they are put together."""

    operator: OpOverload
    allocate: Callable
    args: tuple
    kwargs: dict[str, Any]

    def with_tensors(self, values: list) -> tuple:
        """Put tensors in the place of those of the arguments."""
        items = iter(values)

        def of(value):
            if isinstance(value, list | tuple):
                return [of(item) for item in value]
            return next(items) if isinstance(value, torch.Tensor) else value

        return tuple(map(of, self.args))


def call_on_duals(operator: OpOverload, allocate: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Call an operator on tensors of which some have tangents; its results have theirs. `allocate` gives such."""
    primals, tangents = [], []
    for tensor in tensors_among(args):
        primal, tangent = forward_ad.unpack_dual(tensor, level=0)
        primals.append(primal)
        tangents.append(tangent)
    call = _CallAtPrimals(operator, allocate, args, kwargs)
    places = [i for i, each in enumerate(tangents) if each is not None]
    run = private_functorch.run_below if private.has_transforms() else lambda call, *values: call(*values)

    def compute(primals, given):
        return _derive(call, list(primals), dict(zip(places, given)))

    output, found = run(compute, primals, [tangents[i] for i in places])
    if isinstance(output, torch.Tensor):
        return _dual(output, found)
    return tuple(_dual(*each) for each in zip(output, found))


def tangents_of(output: Any) -> Any:
    """Give the tangent of each result, None for those that have none."""
    if isinstance(output, torch.Tensor):
        return forward_ad.unpack_dual(output, level=0).tangent
    return tuple(map(tangents_of, output))


def tensors_among(values: Iterable) -> list[torch.Tensor]:
    """Collect the tensors among values and in lists among them."""
    flat = (item for value in values for item in (value if isinstance(value, list | tuple) else (value,)))
    return [item for item in flat if isinstance(item, torch.Tensor)]


def _dual(output: torch.Tensor, tangent: torch.Tensor | None) -> torch.Tensor:
    if tangent is None or not output.is_floating_point():
        return output
    return forward_ad.make_dual(output, tangent.to(output.dtype), level=0)


def _derive(call: _CallAtPrimals, primals: list, tangents: dict[int, torch.Tensor]) -> tuple[Any, Any]:
    """Compute the results of a call, and their tangents, by those of some tensors among its arguments."""
    name = call.operator.name().partition("::")[2] if call.operator.namespace == "ninetoothed" else ""
    args = call.with_tensors(primals)
    given = call.with_tensors([tangents.get(i) for i in range(len(primals))])
    if name in SYMMETRIC:
        output = call.operator(*args, **call.kwargs)
        return output, SYMMETRIC[name](given[0], args, call.kwargs, output)
    terms = TERMS.get(name, ())
    linear = {place for replaced, _ in terms for place in replaced}
    if terms and not any(
        tensors_among([value]) for i, value in enumerate(_tangents_alone(args, given)) if i not in linear
    ):
        return call.operator(*args, **call.kwargs), _sum_of_terms(call, args, given, terms)
    return _by_gradients(call, primals, tangents)


def _tangents_alone(args: tuple, given: tuple) -> list:
    """Give the tangent of each argument, None for those that are no tensors."""
    return [new if tensors_among([old]) else None for old, new in zip(args, given)]


def _sum_of_terms(call: _CallAtPrimals, args: tuple, given: tuple, terms) -> Any:
    total = None
    for replaced, left_out in terms:
        if not any(tensors_among([given[i]]) for i in replaced if i < len(given)):
            continue
        inner = list(args)
        for i in (i for i in replaced if i < len(args)):
            inner[i] = _or_zeros(given[i], args[i])
        for i in (i for i in left_out if i < len(args)):
            inner[i] = _nothing(args[i])
        term = call.operator(*inner, **call.kwargs)
        total = term if total is None else _added(total, term)
    return total


def _or_zeros(tangent: Any, primal: Any) -> Any:
    if isinstance(primal, list | tuple):
        return [_or_zeros(*each) for each in zip(tangent, primal)]
    return torch.zeros_like(primal) if tangent is None and isinstance(primal, torch.Tensor) else tangent


def _nothing(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return []
    return torch.zeros_like(value) if isinstance(value, torch.Tensor) else value


def _added(left: Any, right: Any) -> Any:
    return left + right if isinstance(left, torch.Tensor) else tuple(a + b for a, b in zip(left, right))


def _by_gradients(call: _CallAtPrimals, primals: list, tangents: dict[int, torch.Tensor]) -> tuple[Any, Any]:
    """Derive the tangents: of <J^T g, t>, the gradient for g is J t."""
    places, depends = list(tangents), list[bool]()

    def product(*values_and_slopes):
        values, slopes = values_and_slopes[: len(places)], values_and_slopes[len(places) :]
        tensors = list(primals)
        for place, value in zip(places, values):
            tensors[place] = value
        output = call.operator(*call.with_tensors(tensors), **call.kwargs)
        depends[:] = [each.requires_grad for each in _floats(output)]
        return _inner(_floats(output), slopes), output

    def along_tangents(*slopes):
        gradients = torch.func.grad(product, tuple(range(len(places))), has_aux=True)
        found, output = gradients(*(primals[i] for i in places), *slopes)
        return _inner(found, [tangents[i] for i in places]), output

    # What is allocated tells how many results there are, and of which shapes.
    like = _floats(call.allocate(*call.with_tensors([each.detach() for each in primals]), **call.kwargs))
    found, output = torch.func.grad(along_tangents, tuple(range(len(like))), has_aux=True)(*map(torch.zeros_like, like))
    if isinstance(output, torch.Tensor):
        return output, found[0]
    items = iter([each if is_differentiable else None for each, is_differentiable in zip(found, depends)])
    return output, tuple(next(items) if each.is_floating_point() else None for each in output)


def _floats(output: Any) -> list[torch.Tensor]:
    outputs = [output] if isinstance(output, torch.Tensor) else output
    return [each for each in outputs if each.is_floating_point()]


def _inner(left: Iterable, right: Iterable) -> torch.Tensor:
    return sum((a * b.to(a.dtype)).sum() for a, b in zip(left, right))
