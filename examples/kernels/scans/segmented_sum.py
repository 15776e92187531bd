"""Running sums that begin anew with each segment.

output[i, j] = input[i, j] + (0 where starts[i, j], else output[i, j - 1])

Pairs (has a start, sum since) are joined: what comes before a start does not count. Schwartz, "Ultracomputers", 1980;
Blelloch, "Prefix Sums and Their Applications", 1990.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def joined(has_start, total, other_has_start, other_total):
    return has_start | other_has_start, other_total + ntl.where(other_has_start != 0, 0.0, total)


def application(input, starts, output):
    _, output = ntl.associative_scan((starts.to(ntl.int32), input.to(ntl.float32)), 0, joined)


kernel = ninetoothed.make(arrange.rows, application, (Tensor(2), Tensor(2), Tensor(2)), kernel_name="segmented_sum")


def segmented_sum(input, starts):
    output = torch.empty_like(input)
    kernel(input, starts, output)
    return output


def check(device):
    for rows, columns, dtype in ((3, 21, torch.float32), (9, 300, torch.float16), (2, 1, torch.float32)):
        input = torch.randn(rows, columns, device=device).to(dtype)
        starts = torch.rand(rows, 2 * columns, device=device)[:, ::2] < 0.2
        yield segmented_sum(input, starts), of_sums(input.double(), starts)


def of_sums(input, starts):
    """Take the sum before a segment away from running sums: much cancels, unless they are of float64."""
    sums = input.cumsum(1)
    places = torch.arange(input.shape[1], device=input.device)
    first = torch.where(starts, places, 0).cummax(1).values
    before = torch.where(first > 0, sums.gather(1, (first - 1).clamp(min=0)), 0)
    return sums - before


def timed(device):
    input, starts = torch.randn(8192, 8192, device=device), torch.rand(8192, 8192, device=device) < 0.01
    return (input, starts), segmented_sum, of_sums
