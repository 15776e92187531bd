"""What `torch.autocast` asks of a module."""

import torch


def autocast(*tensors: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
    """The tensors in the type in which `torch.nn.functional.linear` and its like would take them.

    Inside `torch.autocast` that is the type it names, for every floating-point tensor but float64; outside, their own.
    PyTorch casts for its own operators only, so a module that calls another operator has to do it.
    """
    kind = tensors[0].device.type
    # PyTorch 2.11 cannot compile `torch.amp.is_autocast_available`, so the one device that has no autocast is named.
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        return tensors
    dtype = torch.get_autocast_dtype(kind)
    return tuple(tensor.to(dtype) if _casts(tensor) else tensor for tensor in tensors)


def _casts(tensor: torch.Tensor | None) -> bool:
    return tensor is not None and tensor.is_floating_point() and tensor.dtype != torch.float64
