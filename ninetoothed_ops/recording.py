"""Recording: an operator's call in the graph of autograd, with the gradient that it was registered with."""

import itertools
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch

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


@dataclass(frozen=True)
class _Recorded:
    """An operator with its gradient, and what its schema says: asked for in each call, that takes microseconds.

    defaults: of the positional arguments, None for those without; the dispatcher leaves out what equals them.
    by_keyword: the defaults of the others. has_lists: whether there are lists of tensors. is_one: whether it gives one.
    """

    operator: OpOverload
    gradient: Gradient
    defaults: tuple
    by_keyword: dict[str, Any]
    has_lists: bool
    is_one: bool

    @classmethod
    def of(cls, operator: OpOverload, schema: FunctionSchema, gradient: Gradient) -> "_Recorded":
        """Read a schema."""
        return cls(
            operator,
            gradient,
            tuple(each.default_value for each in schema.arguments if not each.kwarg_only),
            {each.name: each.default_value for each in schema.arguments if each.kwarg_only},
            any("List[Tensor]" in str(each.type) for each in (*schema.arguments, *schema.returns)),
            len(schema.returns) == 1,
        )

    @property
    def name(self) -> str:
        """The name of its Function, which PyTorch shows where it shows a graph."""
        return str(self.operator).partition(".")[2].replace(".", "_")

    def set_up(self, ctx: Any, inputs: tuple, kwargs: dict[str, Any], output: Any) -> None:
        """Let the gradient keep what it needs of a call."""
        setup_context = self.gradient.setup_context
        if setup_context is None:
            return
        if self.by_keyword:
            named = {**self.by_keyword, **kwargs}
            setup_context(ctx=ctx, inputs=inputs, keyword_only_inputs=named, output=output)
        else:
            setup_context(ctx=ctx, inputs=inputs, output=output)

    def backward(self, ctx: Any, grads: Iterable) -> tuple:
        """Compute the gradients of the positional arguments."""
        found = self.gradient.backward(ctx, *grads)
        found = found if isinstance(found, tuple) else (found,)
        if len(found) != len(self.defaults):
            raise ArgumentError(
                f"backward of {self.operator.name()} gave {len(found)} gradients; return a tuple of "
                f"{len(self.defaults)}, one for each argument that is not keyword-only, None where there is none"
            )
        return found


def recorder(
    operator: OpOverload,
    schema: FunctionSchema,
    gradient: Gradient,
    below: tuple[Callable[[], AbstractContextManager], Any] | None,
) -> Callable:
    """Make the function `(keyset, args, kwargs)` that calls an operator and records the call, whatever its arguments.

    below: how the dispatcher is told to go on below autograd; None where only PyTorch can tell it.
    """
    recorded = gradient.recorded
    if recorded is not None:
        return lambda keyset, args, kwargs: recorded(*args, **kwargs)
    if below is None:
        return _by_pytorch(operator, gradient)

    return _recorder(_Recorded.of(operator, schema, gradient), *below)


def recorder_of_plain_calls(
    operator: OpOverload, schema: FunctionSchema, gradient: Gradient, kernel: Callable
) -> Callable | None:
    """Make the function `(args, kwargs)` that runs a kernel on plain tensors and records the call.

    It does as `_CallInGraph` does, in a fraction of the time: nothing has to be taken apart, nor handed on. None for an
    operator with lists of tensors, or one that others compute where it is recorded.
    """
    recorded = _Recorded.of(operator, schema, gradient)
    defaults, by_keyword = recorded.defaults, recorded.by_keyword
    if recorded.has_lists or gradient.recorded is not None:
        return None
    count, rest = len(defaults), (None,) * len(by_keyword)

    class PlainCall(private.FunctionOfOneLevel):
        @staticmethod
        def forward(ctx, *args):
            kwargs = dict(zip(by_keyword, args[count:])) if by_keyword else {}
            output = kernel(*args[:count], **kwargs)
            ctx.needs_input_grad = ctx.needs_input_grad[:count]
            recorded.set_up(ctx, args[:count], kwargs, output)
            return output

        @staticmethod
        def backward(ctx, *grads):
            return recorded.backward(ctx, grads) + rest

    apply = type(recorded.name, (PlainCall,), {}).apply  # type: ignore[attr-defined]

    def record(args, kwargs):
        named = {**by_keyword, **kwargs}.values() if by_keyword else ()
        return apply(*args, *defaults[len(args) :], *named)

    return record


@dataclass(frozen=True)
class _Call:
    """A call to be recorded, its arguments of type Tensor[] taken apart: PyTorch sees no tensors in lists."""

    recorded: _Recorded
    kwargs: dict[str, Any]
    # For each positional argument, and for each output: the length of a list of tensors.
    lengths: tuple[int | None, ...]
    output_lengths: tuple[int | None, ...]


class _CallInGraph:
    """A call of an operator in the graph of autograd: `apply(call, (output, tangents), *flat)`.

    `flat` are the positional arguments. Tangents are those of each output, None where there are none. The output is no
    part of the call, which the graph keeps: the output keeps the graph.
    """

    @staticmethod
    def forward(ctx: Any, call: _Call, computed: tuple, *flat: Any) -> Any:
        # The call and what it computed are the first arguments.
        ctx.call, ctx.needs_input_grad = call, tuple(_nested(ctx.needs_input_grad[2:], call.lengths))
        output, ctx.tangents = computed
        call.recorded.set_up(ctx, tuple(_nested(flat, call.lengths)), call.kwargs, output)
        if isinstance(output, torch.Tensor):
            return output
        return tuple(_flat([output] if call.recorded.is_one else output, call.output_lengths))

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> Any:
        # They were computed before; what is saved of the output has them, too.
        tangents, ctx.tangents = ctx.tangents, None
        return tangents

    @staticmethod
    def backward(ctx: Any, *flat: Any) -> Any:
        call = ctx.call
        grads = call.recorded.backward(ctx, _nested(flat, call.output_lengths))
        return None, None, *_flat(grads, call.lengths)


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


def _recorder(recorded: _Recorded, below_autograd: Callable[[], AbstractContextManager], keys_below: Any) -> Callable:
    """Make the function that calls an operator and records the call."""
    bases = torch.autograd.Function, private.FunctionOfOneLevel
    function, of_one_level = (type(recorded.name, (_CallInGraph, base), {}) for base in bases)

    def apply(*args):
        if not private.has_transforms():
            return function.apply(*args)  # type: ignore[attr-defined]
        if private.at_one_level is None:
            raise _no_transforms(recorded.operator)
        # The kernel for autograd is called at each level of `torch.func`, and records for that one alone.
        with private.at_one_level():
            return of_one_level.apply(*args)  # type: ignore[attr-defined]

    def record(keyset, args, kwargs, tangents=None):
        args = (*args, *recorded.defaults[len(args) :])
        # Not inside `apply`, which turns gradients and tangents off: outer levels of `torch.func` have yet to see both.
        with below_autograd():
            output = recorded.operator.redispatch(keyset & keys_below, *args, **kwargs)
        lengths, output_lengths = _lengths(args), _lengths([output] if recorded.is_one else output)
        call = _Call(recorded, kwargs, lengths, output_lengths)
        output = apply(call, (output, tangents), *_flat(args, lengths))
        if isinstance(output, torch.Tensor):
            return output
        outputs = _nested(output, output_lengths)
        return outputs[0] if recorded.is_one else tuple(outputs)

    return record


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


def _no_transforms(operator: OpOverload) -> UnsupportedError:
    return UnsupportedError(
        f"the backward of {operator.name()} cannot be transformed by torch.func.grad, vjp or jacrev with this version "
        "of PyTorch; call backward() or torch.autograd.grad"
    )
