"""Images and filters with their channels last, as the convolution reads them best on a GPU.

Filters that are not laid out so are repacked in each call: writes through `.data`, of kernels and of replayed graphs
are counted nowhere, so that nothing could tell whether repacked ones that were kept are those of now.
"""

from collections.abc import Sequence

import torch

# Fewer channels fill no wide load; smaller filters are read from cache whatever their order.
FEWEST_CHANNELS = 16


def pays(weight: torch.Tensor, stride: Sequence[int] = (1, 1)) -> bool:
    """Tell whether images and filters are read faster with their channels last."""
    return weight.is_cuda and pays_on_gpu(weight.shape, stride)


def pays_on_gpu(size: Sequence[int], stride: Sequence[int] = (1, 1)) -> bool:
    """Tell whether a GPU reads images and filters, these of this size, faster with their channels last.

    One pixel is a matrix already, unless a stride leaves out what lies between.
    """
    return len(size) == 4 and size[1] >= FEWEST_CHANNELS and (size[2] * size[3] > 1 or max(stride) > 1)
