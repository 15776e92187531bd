"""Tensor descriptors for the launches of twins: which tensors can have one, and how many programs stay on a GPU."""

import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor


def readable(*tensors, transposed=True):
    """Tell whether descriptors can read all tensors: aligned rows of neighbours, or columns where `transposed`."""
    device = tensors[0].device
    if device.type == "cuda" and torch.cuda.get_device_capability(device) < (9, 0):
        return False
    return all(rows_are_aligned(tensor) or (transposed and rows_are_aligned(tensor.mT)) for tensor in tensors)


def rows_are_aligned(tensor):
    *outer, inner = tensor.stride()
    aligned = all(stride > 0 and stride * tensor.element_size() % 16 == 0 for stride in outer)
    return inner == 1 and aligned and tensor.data_ptr() % 16 == 0


def describe(tensor):
    """(descriptor, whether it is of the transpose); its blocks are set by the configuration that runs."""
    transposed = not rows_are_aligned(tensor)
    rows = tensor.mT if transposed else tensor
    return TensorDescriptor.from_tensor(rows, [1] * rows.ndim), transposed


def programs(device, tiles, persistent):
    """As many as there are tiles, or as the GPU runs at once where each takes several."""
    if not persistent or device.type != "cuda":
        return tiles
    return min(tiles, torch.cuda.get_device_properties(device).multi_processor_count)


def tiles(m, n, meta):
    return triton.cdiv(m, meta["BLOCK_SIZE_M"]) * triton.cdiv(n, meta["BLOCK_SIZE_N"])
