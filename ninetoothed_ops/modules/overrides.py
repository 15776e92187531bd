"""Overrides: whether something is put in the place of PyTorch's functions, which our operators would pass by.

A `TorchFunctionMode` (a counter of operations, a quantiser) and a class of tensors (the quantised weights of torchao)
know `torch.nn.functional.linear`, not `torch.ops.ninetoothed.linear`: where there is one, modules call what they
replace. So they do for inputs that are sparse, nested or of MKL-DNN, of which PyTorch's functions take some; but for
nested ones of layout `torch.jagged`, which our operators take themselves.
"""

from typing import Any

import torch

from ninetoothed.runtime import private

from ..ops.dtensors import is_dtensor
from .quantisation import tell_tracer

_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter, type(None)})


def are_overridden(*tensors: torch.Tensor | None, takes_nested: bool = False, takes_dtensors: bool = False) -> bool:
    """Tell whether PyTorch's functions of these tensors are given to a mode, or to the class of one of them.

    Or to the layout of the first, an input: that of the others, parameters, is asked when modules are swapped.

    takes_nested, takes_dtensors: whether the module calls nothing but an operator, with a nested tensor as it is, or
    with DTensors, whose calls PyTorch shares out as the operator says.
    PyTorch's own modes (a default device, those with which it exports) change nothing that is computed.
    """
    first = tensors[0] if tensors else None
    if takes_nested and private.is_jagged(first):
        tensors = tensors[1:]
    elif isinstance(first, torch.Tensor) and (first.layout is not torch.strided or first.is_nested):
        return True
    for tensor in tensors:
        if type(tensor) not in _PLAIN and not (takes_dtensors and is_dtensor(tensor)) and _computes_itself(tensor):
            return True
    for mode in private.function_modes():
        if not type(mode).__module__.startswith("torch."):
            return True
    return False


def are_recorded(*tensors: torch.Tensor) -> bool:
    """Tell whether autograd records what is computed of these tensors. Compiled code can ask it, too."""
    if not torch.is_grad_enabled():
        return False
    for tensor in tensors:
        if tensor.requires_grad:
            return True
    return False


def leaves_to_compiler(module: torch.nn.Module, *tensors: torch.Tensor) -> bool:
    """Tell whether `torch.compile` gets PyTorch's products and activations: in compiled steps of training.

    Inductor fuses what lies around them, and computes activations again in backward; operators of ours would be walls
    between which it sees nothing. A library's products of so many rows were 2 % faster than ours on an H200.
    """
    return module.training and torch.compiler.is_compiling() and are_recorded(*tensors)


def _computes_itself(tensor: Any) -> bool:
    if not isinstance(tensor, torch.Tensor):
        tell_tracer(tensor)
        return False
    # The class is asked: of a tensor itself, compiled code does not say that it has `__tensor_flatten__`.
    cls = type(tensor)
    return cls.__torch_function__ is not private.disabled_torch_function or hasattr(cls, "__tensor_flatten__")
