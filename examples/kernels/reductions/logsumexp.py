"""Logarithm of a sum of exponentials.

output[i] = log(sum over j of exp(input[i, j])), for each row

Rows are read once, block by block: what is summed relative to one peak is scaled when a higher one comes. Milakov and
Gimelshein, "Online normalizer calculation for softmax", 2018.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def arrangement(input, output):
    return *arrange.row_blocks(input, BLOCK_SIZE=1024), output.tile(None)


def application(input, output):
    peak, total = float("-inf"), 0.0

    for i in range(input.shape[0]):
        block = input[i].to(ntl.float32)
        higher = ntl.maximum(peak, ntl.max(block))
        shift = ntl.where(higher == float("-inf"), 0.0, higher)  # -inf - -inf would be NaN
        total = total * ntl.exp(peak - shift) + ntl.sum(ntl.exp(block - shift))
        peak = higher

    output = peak + ntl.log(total)


kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(1)), kernel_name="logsumexp")


def logsumexp(input):
    output = input.new_empty(input.shape[0])
    kernel(input, output)
    return output


def check(device):
    for rows, columns, dtype in ((3, 1100, torch.float32), (5, 3001, torch.float16), (2, 7, torch.bfloat16)):
        input = (20 * torch.randn(2 * rows, columns, device=device)).to(dtype)[::2]
        input[0, : columns // 2] = -torch.inf
        yield logsumexp(input), input.double().logsumexp(1)
    input = torch.full((2, 5), -torch.inf, device=device)
    yield logsumexp(input), input.double().logsumexp(1)


def timed(device):
    input = torch.randn(4096, 32000, device=device, dtype=torch.float16)
    return (input,), logsumexp, lambda input: input.logsumexp(1)
