"""Operators that write into some of their arguments: `register_mutating`, beside `register`, whose write into none."""

from collections.abc import Callable
from typing import Any

import torch

from ninetoothed.runtime import private
from ninetoothed.runtime.launch_plan import ReplayedFunction
from ninetoothed.runtime.private import OpOverload

from .autocast import without_autocast
from .autograd import in_reverse, no_backward
from .recording import Gradient

# PyTorch forgets what a Library holds when that is collected.
_LIBRARIES: list[torch.library.Library] = []


def register_mutating(
    schema: str, allocate: Callable, launch: Callable, recorded: Callable, flatten: Callable | None = None
) -> OpOverload:
    """Register an operator that writes into the arguments that its schema marks, `Tensor(a!)`, and return it.

    `allocate`, `launch`, `recorded` and `flatten` are those of `register` with `replay=True`. `launch` writes into the
    arguments, too, whose versions are counted; `recorded` does by operators of PyTorch's that write in place.
    """
    namespace, _, signature = schema.partition("::")
    name = signature.partition("(")[0]
    library = torch.library.Library(namespace, "FRAGMENT")
    _LIBRARIES.append(library)
    library.define(signature, tags=(torch.Tag.pt2_compliant_tag,))
    operator = getattr(getattr(torch.ops, namespace), name).default
    parsed = private.parse_schema(schema)
    written = [i for i, each in enumerate(parsed.arguments) if each.alias_info is not None]

    def forward(*args):
        output = allocate(*args)
        launch(output, *args)
        return output

    def of_operator(function: Callable) -> Callable:
        return function if flatten is None else lambda *args: function(*flatten(*args))

    made: dict[str, Callable] = {"CPU": forward, "CUDA": ReplayedFunction(allocate, launch)}
    kernels = {device: _counting(of_operator(kernel), written) for device, kernel in made.items()}
    for device, kernel in kernels.items():
        library.impl(name, kernel, device)
    torch.library.register_fake(operator, of_operator(allocate), lib=library)
    # In the place of a backward, `recorded` is called.
    gradient = Gradient(no_backward, None, recorded=_without_autocast(recorded))
    library.impl(name, in_reverse(operator, parsed, gradient, kernels), "Autograd", with_keyset=True)

    return operator


def _counting(kernel: Callable, written: list[int]) -> Callable:
    """Count the versions of what a kernel writes, by which autograd sees that something it has saved has changed."""

    @private.hidden_from_dynamo
    def count(*args):
        for value in (args[i] for i in written):
            if not value.is_inference():
                torch.autograd.graph.increment_version(value)
        return kernel(*args)

    return count


def _without_autocast(function: Callable) -> Callable:
    """Make the function whose tensors `torch.autocast` does not cast, as it does not those of kernels."""

    @private.hidden_from_dynamo
    def call(first: torch.Tensor, *args: Any) -> Any:
        with without_autocast(first.device.type):
            return function(first, *args)

    return call
