"""Images and filters with their channels last, as the convolution reads them best on a GPU.

Filters that are not laid out so are repacked in each call: writes through `.data`, of kernels and of replayed graphs
are counted nowhere, so that nothing could tell whether repacked ones that were kept are those of now.
"""

from collections.abc import Sequence

import torch

from ..kernels import repack as kernels

# Fewer channels fill no wide load; smaller filters are read from cache whatever their order.
FEWEST_CHANNELS = 16


def pays(weight: torch.Tensor, stride: Sequence[int] = (1, 1)) -> bool:
    """Tell whether images and filters are read faster with their channels last.

    One pixel is a matrix already, unless a stride leaves out what lies between.
    """
    is_wide = weight.ndim == 4 and weight.shape[1] >= FEWEST_CHANNELS and weight.is_cuda
    return is_wide and (weight.shape[2] * weight.shape[3] > 1 or max(stride) > 1)


def packed(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Give each tensor with its channels last: itself where they are."""
    return tuple(map(_packed, tensors))


def _packed(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_contiguous(memory_format=torch.channels_last) or not tensor.is_contiguous():
        return tensor.contiguous(memory_format=torch.channels_last)
    target = torch.empty_like(tensor, memory_format=torch.channels_last)
    repack(target, tensor)

    return target


def repack(target: torch.Tensor, source: torch.Tensor) -> None:
    """Copy what has its channels last to what has them first, or the other way round."""
    has_few_pixels = source.shape[2] * source.shape[3] <= kernels.FEW_PIXELS
    kernels.make(has_few_pixels)(source.flatten(2), target.flatten(2))
