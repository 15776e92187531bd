"""Draw a token of those that together have a probability of top_p, the likeliest first.

Of p = softmax(x), the tokens with p[j] >= t are kept, for the greatest t with sum of these >= top_p; drawn is the first
token at which their running sum exceeds u times their sum.

No row is sorted: the threshold is found by halving. Floats that are not negative have the order of their bits, so that
31 halvings find it exactly. Source: Holtzman and others, "The curious case of neural text degeneration", 2019.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def arrangement(x, top_p, u, output):
    return arrange.rows(x)[0], top_p, u.tile(None), output.tile(None)


def application(x, top_p, u, output):
    p = ntl.softmax(x.to(ntl.float32))
    bits = p.to(ntl.int32, bitcast=True)
    low, high = 0, 1 << 30  # enough is kept from `low` on, and too little from `high` on

    for _ in range(31):
        middle = (low + high) // 2
        is_enough = ntl.sum(ntl.where(bits >= middle, p, 0.0)) >= top_p
        low, high = ntl.where(is_enough, middle, low), ntl.where(is_enough, high, middle)

    sums = ntl.cumsum(ntl.where(bits >= low, p, 0.0))
    output = ntl.sum(sums <= u * ntl.max(sums))


tensors = Tensor(2), Tensor(0), Tensor(1), Tensor(1)
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="top_p")


def reference(x, top_p, u):
    ordered, places = x.softmax(1).sort(dim=1, descending=True)
    is_kept = ordered.cumsum(1) - ordered < top_p
    sums = torch.zeros_like(ordered).scatter(1, places, torch.where(is_kept, ordered, 0)).cumsum(1)
    return (sums <= u[:, None] * sums[:, -1:]).sum(1)


def top_p(x, top_p, u):
    output = torch.empty_like(u, dtype=torch.int64)
    kernel(x, top_p, u, output)
    return output


def check(device):
    for rows, columns, share in ((5, 20, 0.9), (100, 300, 0.5), (3, 1, 0.1), (0, 7, 0.9)):
        x, u = 3 * torch.randn(rows, 2 * columns, device=device)[:, ::2], torch.rand(rows, device=device)
        yield top_p(x, share, u), reference(x.double(), share, u.double())


def timed(device):
    return (torch.randn(128, 32000, device=device), 0.9, torch.rand(128, device=device)), top_p, reference
