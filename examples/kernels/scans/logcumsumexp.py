"""Running logarithms of sums of exponentials, of long rows.

output[i, j] = log(exp(input[i, 0]) + ... + exp(input[i, j]))

Pairs (peak, sum relative to it) are scanned in a block, and carried from block to block.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def arrangement(input, output):
    return arrange.row_blocks(input, output, BLOCK_SIZE=1024)


def joined(peak, total, other_peak, other_total):
    higher = ntl.maximum(peak, other_peak)
    shift = ntl.where(higher == float("-inf"), 0.0, higher)  # -inf - -inf would be NaN
    return higher, total * ntl.exp(peak - shift) + other_total * ntl.exp(other_peak - shift)


def application(input, output):
    peak, total = float("-inf"), 0.0

    for i in range(input.shape[0]):
        block = input[i].to(ntl.float32)
        peaks, totals = ntl.associative_scan((block, ntl.full(block.shape, 1.0, dtype=ntl.float32)), 0, joined)
        peaks, totals = joined(peak, total, peaks, totals)
        output[i] = peaks + ntl.log(totals)
        own = ntl.max(block)
        shift = ntl.where(own == float("-inf"), 0.0, own)
        peak, total = joined(peak, total, own, ntl.sum(ntl.exp(block - shift)))


kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(2)), kernel_name="logcumsumexp")


def logcumsumexp(input):
    output = torch.empty_like(input)
    kernel(input, output)
    return output


def check(device):
    for rows, columns, dtype in ((3, 1100, torch.float32), (2, 2500, torch.float16), (5, 7, torch.float32)):
        input = (9 * torch.randn(rows, 2 * columns, device=device)).to(dtype)[:, ::2]
        yield logcumsumexp(input), input.double().logcumsumexp(1)


def timed(device):
    return (torch.randn(4096, 16384, device=device),), logcumsumexp, lambda input: input.logcumsumexp(1)
