"""Joint projections: sibling linear layers, which read one input, as one product.

`join` moves the weights of the siblings into one memory, one behind another. Each Parameter stays the same object, with
a storage of its own that is exactly its part of that memory: in-place updates, loading, saving and copying see separate
tensors, as before. Read as a whole, the memory is the concatenation of the weights, and `project` multiplies by it.

Whether that still holds is no record that could go stale, but seen in each call: the joint memory is held, so that a
weight whose address lies in it is a part of it. Weights that were moved, replaced or converted lie elsewhere, and then
each layer computes its own product. So does each wherever its own call could do more than the product.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import nn

from ninetoothed.runtime.private import has_global_hook, runs_forward_alone

from ..ops.linear import operator as linear
from .linear import NTLinear
from .overrides import are_overridden

# To what multiple of bytes weights are aligned where kernels read them fastest.
ALIGNMENT = 16
# The attribute by which a module holds its JointWeights.
JOINT = "_joint_weights"


class JointProjection(NamedTuple):
    """Tell of the sibling layers of one module: one product or, for a `reason`, still one product each."""

    name: str
    layers: tuple[str, ...]
    reason: str
    module: nn.Module


class JointWeights:
    """Hold the memory of joined weights, (N1 + N2 + ..., K), and of biases; None once layers have left it.

    A copy or a pickle holds nothing: PyTorch copies the weights of a module one by one.
    """

    def __init__(self) -> None:
        self.weight: torch.Tensor | None = None
        self.bias: torch.Tensor | None = None

    def __reduce__(self) -> tuple:
        return JointWeights, ()


class JointModule(nn.Module):
    """A module whose forward calls the layers that `siblings` names on one tensor, through `project`."""

    siblings: ClassVar[tuple[str, ...]]

    def _apply(self, fn: Callable, recurse: bool = True) -> Any:
        """Join anew what PyTorch moves or converts one weight at a time (`to`, `half`, `cuda`)."""
        if JOINT not in vars(self):
            return super()._apply(fn, recurse)
        before = _addresses(self)
        result = super()._apply(fn, recurse)
        if _addresses(self) != before:
            join(self)
        return result


def project(module: JointModule, input: torch.Tensor, siblings: Sequence[str]) -> tuple[torch.Tensor, ...]:
    """Call the sibling layers of a module on one input: `(..., K)` -> `(..., N1)`, `(..., N2)`, ...

    Where their weights are joined, the results are parts of one product: strided views of `(..., N1 + N2 + ...)`.
    """
    layers = [_layer(module, name) for name in siblings]
    # Compiled and traced code would take the addresses of today for those of ever.
    if not (torch.compiler.is_compiling() or torch.jit.is_tracing()):
        joint = vars(module).get(JOINT)
        if joint is not None:
            # Read once: another thread may separate them meanwhile, and what is held here stays valid.
            weight, bias = joint.weight, joint.bias
            if weight is not None and _are_plain_calls(layers, input, weight):
                if _are_parts(layers, weight, bias):
                    return _product(input, weight, bias, [layer.weight.shape[0] for layer in layers])
                joint.weight = joint.bias = None
    return tuple(layer(input) for layer in layers)


def _product(
    input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, sizes: list[int]
) -> tuple[torch.Tensor, ...]:
    return linear(input, weight, bias).split(sizes, -1)


def _are_plain_calls(layers: list[Any], input: torch.Tensor, weight: torch.Tensor) -> bool:
    """Tell whether calling the layers on the input would multiply by their weights, and do nothing else."""
    if type(input) is not torch.Tensor or are_overridden(input) or has_global_hook():
        return False
    is_same_kind = input.dtype == weight.dtype and input.device == weight.device
    if not is_same_kind or not input.ndim or input.shape[-1] != weight.shape[1]:
        return False
    # Autocast keeps what it has cast of each parameter; it would cast the joint weight in each call.
    if torch.is_autocast_enabled(input.device.type):
        return False
    records = torch.is_grad_enabled()
    if records and input.requires_grad:
        return False
    for layer in layers:
        if type(layer) is not NTLinear or not runs_forward_alone(layer):
            return False
        if records and any(p is not None and p.requires_grad for p in layer._parameters.values()):
            return False
    return True


def _layer(module: nn.Module, name: str) -> Any:
    # Several times as quick as the attribute.
    modules = module._modules
    return modules[name] if name in modules and name not in module.__dict__ else getattr(module, name)


def _are_parts(layers: list[Any], weight: torch.Tensor, bias: torch.Tensor | None) -> bool:
    """Tell whether the weights of the layers, and the biases, are the rows of the joint ones, in order."""
    return _is_filled(weight, [layer._parameters.get("weight") for layer in layers]) and (
        all(layer._parameters.get("bias") is None for layer in layers)
        if bias is None
        else _is_filled(bias, [layer._parameters.get("bias") for layer in layers])
    )


def _is_filled(whole: torch.Tensor, parts: Sequence[torch.Tensor | None]) -> bool:
    """Tell whether contiguous parts lie one behind another in the memory of `whole`, and fill it."""
    first = address = whole.data_ptr()
    stride, row = whole.stride(), whole.stride(0) * whole.itemsize
    width, device = whole.shape[1:], whole.device
    for part in parts:
        if type(part) is not nn.Parameter or part.data_ptr() != address or part.dtype is not whole.dtype:
            return False
        if part.stride() != stride or part.shape[1:] != width or part.device != device:
            return False
        address += part.shape[0] * row
    return address == first + whole.nbytes


def join(module: JointModule, users: Counter[int] | None = None) -> str:
    """Join the weights of a module's siblings where nothing is in the way; give the reason where something is, or "".

    `users` counts the tensors of the model that use the storage at an address. Tensors elsewhere cannot be known:
    those that share memory with a weight keep the old one.
    """
    joint = vars(module).get(JOINT)
    layers: list[Any] = [getattr(module, name, None) for name in module.siblings]
    if joint is not None and joint.weight is not None and _are_parts(layers, joint.weight, joint.bias):
        return ""
    joint = vars(module).setdefault(JOINT, JointWeights())
    joint.weight = joint.bias = None
    reason = _hindrance(layers, module.siblings, users or Counter())
    if reason:
        return reason
    weights, biases = ([layer._parameters.get(name) for layer in layers] for name in ("weight", "bias"))
    try:
        # Inference tensors could not be trained later.
        with torch.inference_mode(False), torch.no_grad():
            weight = torch.cat([each.detach() for each in weights])
            bias = None if biases[0] is None else torch.cat([each.detach() for each in biases])
    except RuntimeError as error:  # for want of memory
        return f"their weights could not be copied: {str(error).partition(chr(10))[0]}"
    _move_into(weight, weights)
    if bias is not None:
        _move_into(bias, biases)
    joint.weight, joint.bias = weight, bias
    return ""


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
    joint = vars(module).pop(JOINT, None)
    wholes = [] if joint is None else [whole for whole in (joint.weight, joint.bias) if whole is not None]
    for parameter in module.parameters() if wholes else ():
        if any(0 <= parameter.data_ptr() - whole.data_ptr() < whole.nbytes for whole in wholes):
            parameter.data = parameter.data.clone()


def join_all(model: nn.Module) -> tuple[JointProjection, ...]:
    """Join the siblings of every module of a model that calls them through `project`."""
    tensors = [each for each in (*model.parameters(), *model.buffers()) if type(each) in (torch.Tensor, nn.Parameter)]
    users = Counter(each.untyped_storage().data_ptr() for each in tensors if each.layout == torch.strided)
    modules = [(name, each) for name, each in model.named_modules() if isinstance(each, JointModule)]
    return tuple(JointProjection(name, each.siblings, join(each, users), each) for name, each in modules)


def _hindrance(layers: list[Any], names: Sequence[str], users: Counter[int]) -> str:
    """Give the reason why the weights of layers cannot be joined; "" if they can."""
    for layer, name in zip(layers, names):
        if type(layer) is not NTLinear:
            return f"its {name} is a {type(layer).__name__}, not an NTLinear"
        for parameter in layer._parameters.values():
            reason = parameter is not None and _unmovable(parameter, users)
            if reason:
                return f"a parameter of its {name} {reason}"
    if len({id(layer.weight) for layer in layers}) < len(layers):
        return "some of its projections have one weight"
    parameters = [list(layer._parameters.items()) for layer in layers]
    likes = [[(n, p is None or (p.dtype, p.device, p.shape[1:])) for n, p in each] for each in parameters]
    if likes != [likes[0]] * len(likes):
        return "its projections differ in type, device, input or bias"
    return ""


def _unmovable(parameter: torch.Tensor, users: Counter[int]) -> str:
    """Give the reason why a parameter has to stay in its memory; "" if it may move."""
    if type(parameter) is not nn.Parameter or type(parameter.data) is not torch.Tensor:
        return "is no plain tensor"
    if parameter.device.type == "meta" or not parameter.numel():
        return "has no memory"
    if parameter.is_inference():
        return "was made in inference mode"
    storage = parameter.untyped_storage()
    if storage.nbytes() != parameter.nbytes or not parameter.is_contiguous() or users[storage.data_ptr()] > 1:
        return "shares its memory with something else"
    if parameter.device.type == "cpu" and parameter.is_shared():
        return "is shared between processes"
    # A part that begins elsewhere would be read more slowly than before.
    if parameter.nbytes % ALIGNMENT:
        return f"does not fill a multiple of {ALIGNMENT} bytes"
    return ""


def _addresses(module: JointModule) -> list[int]:
    layers = [getattr(module, name, None) for name in module.siblings]
    weights = [layer._parameters.get("weight") for layer in layers if isinstance(layer, nn.Linear)]
    return [weight.data_ptr() for weight in weights if type(weight) is nn.Parameter]
