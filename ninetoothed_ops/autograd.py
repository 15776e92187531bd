"""`torch.autograd` for operators that are not PyTorch's: gradients in reverse, tangents in forward mode."""

from collections.abc import Callable, Iterable, Mapping

import torch
from torch.autograd import forward_ad

from ninetoothed.errors import UnsupportedError
from ninetoothed.runtime import private, private_dispatch, private_functorch
from ninetoothed.runtime.private import FunctionSchema, OpOverload

from .forward_mode import WITHOUT, call_on_duals, tangents_of, tensors_among
from .recording import Gradient, recorder, recorder_of_plain_calls


def in_reverse(
    operator: OpOverload,
    schema: FunctionSchema,
    gradient: Gradient,
    kernels: Mapping[str, Callable],
    allocate: Callable,
) -> Callable:
    """Make the kernel for autograd: a gradient in reverse is recorded, any other derivative is an error.

    Every call passes through it, and most want no derivative and have nothing else in their way: for these it calls the
    kernel of their device, by its name in `kernels`, which the dispatcher would find after microseconds.
    """
    name, redispatch = operator.name(), operator.redispatch
    has_transforms, is_enabled = private.has_transforms, torch.is_grad_enabled
    tracing_state = private_dispatch.tracing_state
    any_requires_grad, may_have_tangents = private.any_requires_grad, private.may_have_tangents
    below, read_keys = private.below_autograd(), private.read_keys
    record = recorder(operator, schema, gradient, below)
    below_autograd, keys_below = below or (None, None)
    # They are derived by `torch.func`.
    has_tangents = below is not None and private.at_one_level is not None
    has_tangents = has_tangents and not gradient.is_missing and name not in WITHOUT
    plain = {private.plain_keys(device): kernel for device, kernel in kernels.items()}
    kernel_of, is_ours = plain.get, private_dispatch.has_ours_alone(name, kernels)
    recorder_of = {
        keys: recorder_of_plain_calls(operator, schema, gradient, kernel) for keys, kernel in plain.items()
    }.get

    # What runs between graphs is called by the dispatcher, and would be traced, down to the code that launches.
    @private.hidden_from_dynamo
    def autograd(keyset, *args, **kwargs):
        if tracing_state() is not None:
            with private_dispatch.untraced():
                return autograd(keyset, *args, **kwargs)
        transformed = has_transforms()
        # A level that was not entered through `forward_ad`, as in a traced graph, is not counted there.
        if (transformed or may_have_tangents()) and _have_tangents((*args, *kwargs.values())):
            if gradient.recorded is not None:
                return gradient.recorded(*args, **kwargs)
            if not has_tangents or transformed and not private_functorch.IS_THERE:
                raise no_tangents(name)
            output = call_on_duals(operator, allocate, args, kwargs)
            if transformed or not (is_enabled() and any_requires_grad(*args, **kwargs)):
                return output
            # The graph is of what has tangents, too: so have gradients.
            return record(keyset, args, kwargs, tangents_of(output))
        if is_enabled() and any_requires_grad(*args, **kwargs):
            if transformed and gradient.is_missing:
                raise no_backward(name)
            record_plain = recorder_of(read_keys(keyset)) if is_ours() and not transformed else None
            return record(keyset, args, kwargs) if record_plain is None else record_plain(args, kwargs)
        kernel = kernel_of(read_keys(keyset))
        if kernel is not None and is_ours():
            return kernel(*args, **kwargs)
        if below_autograd is None:
            return record(keyset, args, kwargs)
        with below_autograd():
            return redispatch(keyset & keys_below, *args, **kwargs)

    return autograd


def _have_tangents(values: Iterable) -> bool:
    """Tell whether forward-mode differentiation goes through any of the values. PyTorch has one level of it, 0."""
    return private.counts_tangents() and any(
        forward_ad.unpack_dual(tensor, level=0).tangent is not None for tensor in tensors_among(values)
    )


def no_tangents(name: str) -> UnsupportedError:
    return UnsupportedError(
        f"{name} has no forward-mode derivative, as it has no backward or this PyTorch hides its transforms; call it "
        "on tensors without tangents, or use PyTorch's own operator under torch.func.jvp and torch.autograd.forward_ad"
    )


def no_backward(name: str) -> UnsupportedError:
    return UnsupportedError(
        f"{name} has no backward yet; call it under torch.no_grad(), or on inputs that do not require grad"
    )
