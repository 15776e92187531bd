"""How many elements are in each of so many bins of equal width.

counts[b] = number of x with floor((x - low) / (high - low) * bins) = b; x = high is in the last bin, others in none

Source: PyTorch's `histc`. Each program counts its own elements, and adds its counts to those of all.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

BLOCK = 4096
DATA_DEPENDENT = "`counts` is added to, atomically: `verify` does not follow that"


def arrangement(x, low, high, counts):
    x = x.tile(BLOCK)
    return x, low, high, counts.tile(-1).expand(x.shape)


def application(x, low, high, counts):
    bins = counts.shape[0]
    place = ntl.floor((x - low) / (high - low) * bins).to(ntl.int32)
    place = ntl.where(x == high, bins - 1, place)
    inside = (x >= low) & (x <= high)
    ntl.atomic_add(counts, ntl.histogram(ntl.where(inside, place, -1), bins))


tensors = Tensor(1), Tensor(0), Tensor(0), Tensor(1, shape_options={"constexpr": True})
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="histogram")


def reference(x, bins, low, high):
    return torch.histc(x, bins, low, high).int()


def histogram(x, bins, low, high):
    counts = torch.zeros(bins, dtype=torch.int32, device=x.device)
    kernel(x, low, high, counts)
    return counts


def check(device):
    for size, bins, low, high in ((5000, 64, -1.0, 1.0), (33, 10, 0.0, 0.5), (1, 1, -9.0, 9.0), (0, 5, 0.0, 1.0)):
        x = torch.randn(size, device=device)
        yield histogram(x, bins, low, high), reference(x.double(), bins, low, high)
    x = torch.randint(0, 9, (900,), device=device).float()[::3]  # on the edges
    yield histogram(x, 8, 0.0, 8.0), reference(x.double(), 8, 0.0, 8.0)


def timed(device):
    return (torch.randn(2**26, device=device), 256, -4.0, 4.0), histogram, reference
