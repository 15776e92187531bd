"""Images and filters with their channels last, as the convolution reads them best on a GPU."""

import functools
import weakref
from collections.abc import Sequence

import torch

from ninetoothed.runtime.private import current_stream, version_of
from ninetoothed.runtime.workspace import outliving

# Fewer channels fill no wide load; smaller filters are read from cache whatever their order.
FEWEST_CHANNELS = 16

# By the identity of filters, and the stream on which they were repacked, which another stream does not wait for: a
# reference to them, their version, their address and the repacked ones. Filters of a model change rarely, and repacking
# them costs more than the convolution of a small image. PyTorch's dictionary with weak keys for tensors takes a
# microsecond to look into, ten times as long.
_PACKED: dict[tuple[int, int], tuple[weakref.ref, int, int, torch.Tensor]] = {}


def pays(weight: torch.Tensor, stride: Sequence[int] = (1, 1)) -> bool:
    """Tell whether images and filters are read faster with their channels last.

    One pixel is a matrix already, unless a stride leaves out what lies between.
    """
    is_wide = weight.ndim == 4 and weight.shape[1] >= FEWEST_CHANNELS and weight.is_cuda
    return is_wide and (weight.shape[2] * weight.shape[3] > 1 or max(stride) > 1)


def packed(weight: torch.Tensor) -> torch.Tensor:
    """Filters with their channels last: made again only when the filters have changed since.

    Those that do not count their versions, as inference tensors do not, are left as they are. So are all while a graph
    is captured: a replay needs the filters as they are by then, and what is captured has run on nothing yet. What is
    repacked there belongs to the graph.
    """
    stream = 0
    if weight.is_cuda:
        if torch.cuda.is_current_stream_capturing():
            return weight
        stream = current_stream(weight.get_device())
    key = id(weight), stream
    known = _PACKED.get(key)
    if known is not None and known[0]() is weight:
        _, seen, address, filters = known
        if seen == version_of(weight) and address == weight.data_ptr():
            return filters
    if weight.is_inference() or weight.is_contiguous(memory_format=torch.channels_last):
        return weight
    version = version_of(weight)
    if version is None:
        return weight
    repack = functools.partial(weight.detach().contiguous, memory_format=torch.channels_last)
    filters = outliving(repack, weight.device)
    reference = weakref.ref(weight, lambda _: _PACKED.pop(key, None))
    _PACKED[key] = reference, version, weight.data_ptr(), filters
    return filters
