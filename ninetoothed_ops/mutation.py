"""Operators that write into some of their arguments: `register_mutating`, beside `register`, whose write into none."""

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import forward_ad

from ninetoothed.errors import UnsupportedError
from ninetoothed.runtime import private
from ninetoothed.runtime.launch_plan import ReplayedFunction
from ninetoothed.runtime.private import OpOverload

# PyTorch forgets what a Library holds when that is collected.
_LIBRARIES: list[torch.library.Library] = []


def register_mutating(schema: str, allocate: Callable, launch: Callable, flatten: Callable | None = None) -> OpOverload:
    """Register an operator that writes into the arguments that its schema marks, `Tensor(a!)`, and return it.

    `allocate`, `launch` and `flatten` are those of `register` with `replay=True`; `launch` writes into the arguments,
    too, whose versions are counted. The operator has no derivative: it raises UnsupportedError where one would be
    recorded.
    """
    namespace, _, signature = schema.partition("::")
    name = signature.partition("(")[0]
    library = torch.library.Library(namespace, "FRAGMENT")
    _LIBRARIES.append(library)
    library.define(signature, tags=(torch.Tag.pt2_compliant_tag,))
    operator = getattr(getattr(torch.ops, namespace), name).default
    written = [i for i, each in enumerate(private.parse_schema(schema).arguments) if each.alias_info is not None]

    def forward(*args):
        output = allocate(*args)
        launch(output, *args)
        return output

    def of_operator(function: Callable) -> Callable:
        return function if flatten is None else lambda *args: function(*flatten(*args))

    made: dict[str, Callable] = {"CPU": forward, "CUDA": ReplayedFunction(allocate, launch)}
    kernels = {device: _counting(of_operator(kernel), written, operator.name()) for device, kernel in made.items()}
    for device, kernel in kernels.items():
        library.impl(name, kernel, device)
    torch.library.register_fake(operator, of_operator(allocate), lib=library)
    below = private.below_autograd()
    if below is not None:
        library.impl(name, _without_derivative(operator, kernels, *below), "Autograd", with_keyset=True)

    return operator


def _counting(kernel: Callable, written: list[int], name: str) -> Callable:
    """Count the versions of what a kernel writes, by which autograd sees that something it has saved has changed."""

    def count(*args):
        _refuse_derivative(name, args)
        for value in (args[i] for i in written):
            if not value.is_inference():
                torch.autograd.graph.increment_version(value)
        return kernel(*args)

    return count


def _without_derivative(
    operator: OpOverload, kernels: dict[str, Callable], below_autograd: Callable, keys_below: Any
) -> Callable:
    """Make the kernel for autograd, which hands calls on; to the kernel of their device where nothing else is asked."""
    name, read_keys = operator.name(), private.read_keys
    kernel_of = {private.plain_keys(device): kernel for device, kernel in kernels.items()}.get

    def check(keyset, *args):
        kernel = kernel_of(read_keys(keyset))
        if kernel is not None:
            return kernel(*args)
        _refuse_derivative(name, args)
        with below_autograd():
            return operator.redispatch(keyset & keys_below, *args)

    return check


def _refuse_derivative(name: str, args: tuple) -> None:
    has_tangents = private.may_have_tangents() and any(
        forward_ad.unpack_dual(value, level=0).tangent is not None for value in args if isinstance(value, torch.Tensor)
    )
    if has_tangents or (torch.is_grad_enabled() and private.any_requires_grad(*args)):
        raise UnsupportedError(
            f"{name} writes into its arguments and has no derivative; call it under torch.no_grad(), or on tensors "
            "that do not require grad"
        )
