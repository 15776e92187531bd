"""Joint projections: sibling linear layers, which read one input, as one product.

`join` moves the weights of the siblings into one memory, one behind another. Each Parameter stays the same object, with
a storage of its own that is exactly its part of that memory: in-place updates, loading, saving and copying see separate
tensors, as before. `project` gives the weights to `ninetoothed.joint_linear`, which sees in each call whether they lie
so, and multiplies by each apart where some were moved, replaced or converted since: nothing here can go stale.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple

import torch
from torch import nn

from ninetoothed.runtime.private import has_global_hook, has_transforms, runs_forward_alone

from ..ops.adjacent import concatenated
from ..ops.joint_linear import operator as joint_linear
from .eligibility import unmovable, users_of_memory
from .linear import FORWARD, NTLinear
from .overrides import are_overridden, are_recorded

# To what multiple of bytes weights are aligned where kernels read them fastest.
ALIGNMENT = 16
# The attribute by which a module is known to be joined, a `JointMemory`.
JOINT = "_joint_memory"


@dataclass(frozen=True)
class JointMemory:
    """Each memory that was made for the weights of a module: (address, bytes). It keeps none of them."""

    places: tuple[tuple[int, int], ...] = ()

    def holds(self, parameter: torch.Tensor) -> bool:
        """Tell whether a parameter lies in one of them."""
        return type(parameter) is nn.Parameter and any(
            0 <= parameter.data_ptr() - start < size for start, size in self.places
        )


class JointProjection(NamedTuple):
    """Tell of the sibling layers of one module: one product or, for a `reason`, still one product each."""

    name: str
    layers: tuple[str, ...]
    reason: str
    module: nn.Module


class JointModule(nn.Module):
    """A module whose forward calls the layers that `siblings` names on one tensor, through `project`."""

    siblings: ClassVar[tuple[str, ...]]
    _joint_memory: JointMemory | None = None

    def _apply(self, fn: Callable, recurse: bool = True) -> Any:
        """Join anew what PyTorch moves or converts one weight at a time (`to`, `half`, `cuda`).

        What it leaves where it was may be shared with tensors elsewhere, as `load_state_dict(assign=True)` shares it.
        """
        is_joint = JOINT in vars(self)
        before = _addresses(self) if is_joint else []
        result = super()._apply(fn, recurse)
        if is_joint and all(new != old for new, old in zip(_addresses(self), before)):
            join(self)
        return result


def project(module: JointModule, input: torch.Tensor, siblings: Sequence[str]) -> tuple[torch.Tensor, ...]:
    """Call the sibling layers of a module on one input: `(..., K)` -> `(..., N1)`, `(..., N2)`, ...

    Where the module is joined, the results are parts of one product: strided views of `(..., N1 + N2 + ...)`. Where a
    gradient is recorded they are not: those of the parts would have to be put together before they are multiplied.
    """
    layers = [_layer(module, name) for name in siblings]
    joined = joint_parameters(module, input, layers)
    if joined is None or are_recorded(input, *joined[0], *joined[1]):
        return tuple(layer(input) for layer in layers)
    weights, biases = joined
    whole, sizes = joint_linear(input, weights, biases), [weight.shape[0] for weight in weights]
    if not torch.is_grad_enabled():
        return whole.split_with_sizes(sizes, -1)
    # Of parts that one function gives, PyTorch records no change in place.
    return tuple(whole.narrow(-1, end - size, size) for size, end in zip(sizes, accumulate(sizes)))


def joint_parameters(
    module: JointModule, input: torch.Tensor, layers: Sequence[Any]
) -> tuple[list[nn.Parameter], list[nn.Parameter]] | None:
    """Give weights and biases of the sibling layers of a joined module; None where calling these may do more."""
    if JOINT not in module.__dict__ or not _are_plain(layers) or has_global_hook() or has_transforms():
        return None
    weights, biases = ([layer._parameters[name] for layer in layers] for name in ("weight", "bias"))
    biases = [] if biases[0] is None else biases
    return None if are_overridden(input, *weights, *biases) else (weights, biases)


def _are_plain(layers: Sequence[Any]) -> bool:
    """Tell whether calling each layer multiplies by its weight and does nothing else, and all have a bias, or none.

    Of two types that it finds in modules, compiled code compares identities by a function in Python, at each call: so
    the class is named first, here and wherever a module's type is asked for in compiled code.
    """
    if nn.Linear.forward is not FORWARD:
        return False
    count = 0
    for layer in layers:
        if NTLinear is not type(layer) or layer._parameters.get("weight") is None or not runs_forward_alone(layer):
            return False
        count += layer._parameters.get("bias") is not None
    return count in (0, len(layers))


def weight_alone(layer: Any) -> nn.Parameter | None:
    """Give the weight of a layer where calling it multiplies by that and does nothing else."""
    is_plain = _are_plain([layer]) and layer._parameters.get("bias") is None and not has_global_hook()
    return layer._parameters["weight"] if is_plain else None


def _layer(module: nn.Module, name: str) -> Any:
    # Several times as quick as the attribute.
    modules = module._modules
    return modules[name] if name in modules and name not in module.__dict__ else getattr(module, name)


def join(module: JointModule, users: Counter[int] | None = None) -> str:
    """Join the weights of a module's siblings where nothing is in the way; give the reason where something is, or "".

    `users` counts the tensors of the model that use the storage at an address. Tensors elsewhere cannot be known:
    those that share memory with a weight keep the old one.
    """
    layers: list[Any] = [getattr(module, name, None) for name in module.siblings]
    reason = _difference(layers, module.siblings)
    if reason:
        return reason
    groups = [
        [layer._parameters[name] for layer in layers]
        for name, each in layers[0]._parameters.items()
        if each is not None
    ]
    # Those that lie one behind another already stay where they are.
    moved = [group for group in groups if concatenated(group) is None]
    for group in moved:
        for parameter, name in zip(group, module.siblings):
            reason = unmovable(parameter, users or Counter())
            # A part that begins elsewhere would be read more slowly than before.
            if not reason and parameter.nbytes % ALIGNMENT:
                reason = f"does not fill a multiple of {ALIGNMENT} bytes"
            if reason:
                return f"a parameter of its {name} {reason}"
    try:
        # Inference tensors could not be trained later.
        with torch.inference_mode(False), torch.no_grad():
            wholes = [torch.cat([each.detach() for each in group]) for group in moved]
    except RuntimeError as error:  # for want of memory
        return f"their weights could not be copied: {str(error).partition(chr(10))[0]}"
    for whole, group in zip(wholes, moved):
        _move_into(whole, group)
    before = vars(module).get(JOINT, JointMemory())
    still = before.places if any(before.holds(parameter) for group in groups for parameter in group) else ()
    setattr(module, JOINT, JointMemory((*still, *((whole.data_ptr(), whole.nbytes) for whole in wholes))))
    return ""


def _addresses(module: JointModule) -> list[int]:
    """List where the parameters of a module's siblings lie."""
    layers = (getattr(module, name, None) for name in module.siblings)
    parameters = (each for layer in layers if isinstance(layer, nn.Module) for each in layer._parameters.values())
    return [each.data_ptr() if type(each.data) is torch.Tensor else 0 for each in parameters if each is not None]


def _move_into(whole: torch.Tensor, parts: Sequence[nn.Parameter]) -> None:
    """Let each parameter be its rows of `whole`, by a storage that is this part alone and keeps all of it alive."""
    storage, start = whole.untyped_storage(), 0
    for part in parts:
        end = start + part.nbytes
        empty = torch.empty(0, dtype=part.dtype, device=part.device)
        part.data = empty.set_(storage[start:end], 0, part.shape, part.stride())
        start = end


def separate(module: nn.Module) -> None:
    """Give joined weights a memory of their own each, wherever in the module they are by now."""
    memory = vars(module).pop(JOINT, JointMemory())
    for parameter in module.parameters():
        if memory.holds(parameter):
            parameter.data = parameter.data.clone()


def join_all(model: nn.Module) -> tuple[JointProjection, ...]:
    """Join the siblings of every module of a model that calls them through `project`."""
    users = users_of_memory(model)
    modules = [(name, each) for name, each in model.named_modules() if isinstance(each, JointModule)]
    return tuple(JointProjection(name, each.siblings, join(each, users), each) for name, each in modules)


def _difference(layers: list[Any], names: Sequence[str]) -> str:
    """Give the reason why layers cannot be one product, whose weights lie where they may; "" if they can."""
    for layer, name in zip(layers, names):
        if type(layer) is not NTLinear:
            return f"its {name} is a {type(layer).__name__}, not an NTLinear"
    if len({id(layer.weight) for layer in layers}) < len(layers):
        return "some of its projections have one weight"
    parameters = [list(layer._parameters.items()) for layer in layers]
    likes = [[(n, p is None or (p.dtype, p.device, p.shape[1:])) for n, p in each] for each in parameters]
    if likes != [likes[0]] * len(likes):
        return "its projections differ in type, device, input or bias"
    return ""
