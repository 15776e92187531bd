"""Images and filters with their channels last, as the convolution reads them best on a GPU."""

import torch
from torch.utils.weak import WeakIdKeyDictionary

# Fewer channels fill no wide load; smaller filters are read from cache whatever their order.
FEWEST_CHANNELS = 16

# Filters -> ((their version, their address), the repacked ones). Filters of a model change rarely,
# and repacking them costs more than the convolution of a small image.
_PACKED: WeakIdKeyDictionary = WeakIdKeyDictionary()


def pays(weight: torch.Tensor) -> bool:
    """Whether images and filters are read faster with their channels last."""
    return weight.device.type == "cuda" and weight.ndim == 4 and weight.shape[1] >= FEWEST_CHANNELS


def packed(weight: torch.Tensor) -> torch.Tensor:
    """Filters with their channels last: made again only when the filters have changed since."""
    if weight.is_contiguous(memory_format=torch.channels_last):
        return weight
    if weight.is_inference():  # such tensors do not count their versions
        return weight.contiguous(memory_format=torch.channels_last)
    place = (weight._version, weight.data_ptr())
    known = _PACKED.get(weight)
    if known is None or known[0] != place:
        known = (place, weight.detach().contiguous(memory_format=torch.channels_last))
        _PACKED[weight] = known
    return known[1]
