"""`torch.autograd` for operators that are not PyTorch's: gradients in reverse, and errors for all other derivatives."""

import itertools
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.autograd import forward_ad

from ninetoothed.errors import ArgumentError, UnsupportedError
from ninetoothed.runtime import private
from ninetoothed.runtime.private import FunctionSchema, OpOverload


@dataclass(frozen=True)
class Gradient:
    """The gradient of an operator: `backward` and `setup_context` are those of `torch.library.register_autograd`.

    `recorded` computes the same by operators that have gradients, in the place of both. `is_missing` tells that
    `backward` only raises.
    """

    backward: Callable
    setup_context: Callable | None
    is_missing: bool = False
    recorded: Callable | None = None


def in_reverse(
    operator: OpOverload, schema: FunctionSchema, gradient: Gradient, kernels: Mapping[str, Callable]
) -> Callable:
    """Make the kernel for autograd: a gradient in reverse is recorded, any other derivative is an error.

    Every call passes through it, and most want no derivative and have nothing else in their way: for these it calls the
    kernel of their device, by its name in `kernels`, which the dispatcher would find after microseconds.
    """
    name, redispatch = operator.name(), operator.redispatch
    has_transforms, is_enabled = private.has_transforms, torch.is_grad_enabled
    any_requires_grad, may_have_tangents = private.any_requires_grad, private.may_have_tangents
    below, read_keys = private.below_autograd(), private.read_keys
    if gradient.recorded is not None:
        record = _composed(gradient.recorded)
    else:
        record = _by_pytorch(operator, gradient) if below is None else _recorder(operator, schema, gradient, *below)
    below_autograd, keys_below = below or (None, None)
    kernel_of = {private.plain_keys(device): kernel for device, kernel in kernels.items()}.get

    def autograd(keyset, *args, **kwargs):
        transformed = has_transforms()
        # A level that was not entered through `forward_ad`, as in a traced graph, is not counted there.
        if (transformed or may_have_tangents()) and _have_tangents((*args, *kwargs.values())):
            raise UnsupportedError(
                f"{name} has no forward-mode derivative yet; call it on tensors without tangents, or use PyTorch's own "
                "operator under torch.func.jvp, jacfwd and torch.autograd.forward_ad"
            )
        if is_enabled() and any_requires_grad(*args, **kwargs):
            if transformed and gradient.is_missing:
                raise no_backward(name)
            return record(keyset, args, kwargs)
        kernel = kernel_of(read_keys(keyset))
        if kernel is not None:
            return kernel(*args, **kwargs)
        if below_autograd is None:
            return record(keyset, args, kwargs)
        with below_autograd():
            return redispatch(keyset & keys_below, *args, **kwargs)

    return autograd


def _composed(recorded: Callable) -> Callable:
    """Make the function that computes an operator by others, each of which records its own call."""
    return lambda keyset, args, kwargs: recorded(*args, **kwargs)


@dataclass(frozen=True)
class _Call:
    """A call to be recorded, its arguments of type Tensor[] taken apart: PyTorch sees no tensors in lists."""

    operator: OpOverload
    schema: FunctionSchema
    gradient: Gradient
    # A context and keys of the dispatcher, by which it goes below autograd.
    below_autograd: Callable[[], AbstractContextManager]
    keyset: Any
    kwargs: dict[str, Any]
    # For each positional argument, and for each output once `forward` has run: the length of a list of tensors.
    lengths: tuple[int | None, ...]
    output_lengths: list[int | None] = field(default_factory=list)


class _Function(torch.autograd.Function):
    """A call of an operator in the graph of autograd: `apply(call, *flat)`, `flat` the positional arguments."""

    @classmethod
    def apply(cls, call: _Call, *flat: Any) -> Any:
        if not private.has_transforms():
            return super().apply(call, *flat)
        if private.at_one_level is None:
            raise _no_transforms(call.operator)
        # The kernel for autograd is called at each level of `torch.func`, and records for that one alone.
        with private.at_one_level():
            return super(torch.autograd.Function, cls).apply(call, *flat)  # type: ignore[misc]

    @staticmethod
    def forward(ctx: Any, call: _Call, *flat: Any) -> Any:
        args = _nested(flat, call.lengths)
        # PyTorch turns gradients off here; levels of `torch.func` further out have yet to record the call.
        with call.below_autograd(), torch.enable_grad():
            output = call.operator.redispatch(call.keyset, *args, **call.kwargs)
        _set_up_context(ctx, call, args, output)
        if isinstance(output, torch.Tensor):
            return output
        outputs = [output] if len(call.schema.returns) == 1 else output
        call.output_lengths.extend(_lengths(outputs))
        return tuple(_flat(outputs, call.output_lengths))

    @staticmethod
    def backward(ctx: Any, *flat: Any) -> Any:
        call, needed = ctx.call, ctx.needs_input_grad
        ctx.needs_input_grad = tuple(_nested(needed[1:], call.lengths))
        try:
            grads = call.gradient.backward(ctx, *_nested(flat, call.output_lengths or [None]))
        finally:
            ctx.needs_input_grad = needed
        grads = grads if isinstance(grads, tuple) else (grads,)
        if len(grads) != len(call.lengths):
            raise ArgumentError(
                f"backward of {call.operator.name()} gave {len(grads)} gradients; return a tuple of "
                f"{len(call.lengths)}, one for each argument that is not keyword-only, None where there is none"
            )
        return None, *_flat(grads, call.lengths)


class _MadeByPyTorch(torch.library.Library):
    """Keep the kernel that PyTorch makes for autograd, and register nothing."""

    def impl(self, op_name: Any, fn: Callable, *_: Any, **__: Any) -> None:
        self.kernel = fn


def _by_pytorch(operator: OpOverload, gradient: Gradient) -> Callable:
    """Make the function that `_recorder` makes by PyTorch's public means, which `torch.func` cannot transform."""
    kept = _MadeByPyTorch(operator.namespace, "FRAGMENT")
    torch.library.register_autograd(operator, gradient.backward, setup_context=gradient.setup_context, lib=kept)

    def record(keyset, args, kwargs):
        is_recorded = torch.is_grad_enabled() and private.any_requires_grad(*args, **kwargs)
        if is_recorded and private.has_transforms():
            raise _no_transforms(operator)
        return kept.kernel(keyset, *args, **kwargs)

    return record


def _recorder(
    operator: OpOverload,
    schema: FunctionSchema,
    gradient: Gradient,
    below_autograd: Callable[[], AbstractContextManager],
    keys_below: Any,
) -> Callable:
    """Make the function that calls an operator and records the call."""
    defaults = [each.default_value for each in schema.arguments if not each.kwarg_only]
    # PyTorch shows the name where it shows a graph.
    function = type(str(operator).partition(".")[2].replace(".", "_"), (_Function,), {})

    def record(keyset, args, kwargs):
        # The dispatcher leaves out arguments that equal their defaults.
        args = (*args, *defaults[len(args) :])
        lengths = _lengths(args)
        call = _Call(operator, schema, gradient, below_autograd, keyset & keys_below, kwargs, lengths)
        output = function.apply(call, *_flat(args, lengths))  # type: ignore[attr-defined]
        if isinstance(output, torch.Tensor):
            return output
        outputs = _nested(output, call.output_lengths)
        return outputs[0] if len(schema.returns) == 1 else tuple(outputs)

    return record


def _set_up_context(ctx: Any, call: _Call, args: list, output: Any) -> None:
    ctx.call = call
    if call.gradient.setup_context is None:
        return
    by_keyword = {each.name: each.default_value for each in call.schema.arguments if each.kwarg_only}
    more = {"keyword_only_inputs": {**by_keyword, **call.kwargs}} if by_keyword else {}
    needed = ctx.needs_input_grad
    ctx.needs_input_grad = tuple(_nested(needed[1:], call.lengths))
    try:
        call.gradient.setup_context(ctx=ctx, inputs=tuple(args), output=output, **more)
    finally:
        ctx.needs_input_grad = needed


def _lengths(values: Iterable) -> tuple[int | None, ...]:
    """The length of each value that is a list of tensors, None for any other value."""
    return tuple(len(value) if _is_list_of_tensors(value) else None for value in values)


def _is_list_of_tensors(value: Any) -> bool:
    return isinstance(value, list | tuple) and any(isinstance(item, torch.Tensor) for item in value)


def _flat(values: Iterable, lengths: Iterable[int | None]) -> list:
    """Take lists of these lengths apart; None stands for a list of None."""
    flat: list = []
    for value, length in zip(values, lengths):
        flat.extend([value] if length is None else [None] * length if value is None else value)
    return flat


def _nested(flat: Iterable, lengths: Iterable[int | None]) -> list:
    """Put lists of these lengths together again."""
    items = iter(flat)

    return [next(items) if length is None else list(itertools.islice(items, length)) for length in lengths]


def _have_tangents(values: Iterable) -> bool:
    """Tell whether forward-mode differentiation goes through any of the values. PyTorch has one level of it, 0."""
    return private.counts_tangents() and any(
        forward_ad.unpack_dual(tensor, level=0).tangent is not None for tensor in tensors_among(values)
    )


def tensors_among(values: Iterable) -> list[torch.Tensor]:
    """Collect the tensors among values and in lists among them."""
    flat = (item for value in values for item in (value if isinstance(value, list | tuple) else (value,)))

    return [item for item in flat if isinstance(item, torch.Tensor)]


def no_backward(name: str) -> UnsupportedError:
    return UnsupportedError(
        f"{name} has no backward yet; call it under torch.no_grad(), or on inputs that do not require grad"
    )


def _no_transforms(operator: OpOverload) -> UnsupportedError:
    return UnsupportedError(
        f"the backward of {operator.name()} cannot be transformed by torch.func.grad, vjp or jacrev with this version "
        "of PyTorch; call backward() or torch.autograd.grad"
    )
