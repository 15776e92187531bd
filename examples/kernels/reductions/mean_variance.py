"""Mean and variance of long rows.

mean[i] = mean over j of input[i, j]; variance[i] = sum over j of (input[i, j] - mean[i])^2 / (columns - 1)

Rows are read once: what is known of the blocks so far is merged with the next block, without sums of squares that
cancel. Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange

BLOCK = 1024


def arrangement(input, mean, variance):
    return *arrange.row_blocks(input, BLOCK_SIZE=BLOCK), mean.tile(None), variance.tile(None)


def application(input, mean, variance):
    columns = input.source.shape[1]
    average, squares = 0.0, 0.0

    for i in range(input.shape[0]):
        block = input[i].to(ntl.float32)
        before, after = i * BLOCK, min((i + 1) * BLOCK, columns)
        own = ntl.sum(block) / (after - before)
        centred = block - own
        shift = own - average
        moved = shift * (after - before) / after
        squares += ntl.sum(centred * centred) + shift * moved * before
        average += moved

    mean = average
    variance = squares / (columns - 1)


kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(1), Tensor(1)), kernel_name="mean_variance")


def mean_variance(input):
    mean, variance = torch.empty(2, input.shape[0], device=input.device)
    kernel(input, mean, variance)
    return mean, variance


def check(device):
    for rows, columns, dtype in ((3, 1100, torch.float32), (5, 3001, torch.float16), (2, 7, torch.bfloat16)):
        input = (100 + torch.randn(2 * rows, columns, device=device)).to(dtype)[::2]
        mean, variance = mean_variance(input)
        yield mean, input.double().mean(1)
        yield variance, input.double().var(1)


def timed(device):
    input = torch.randn(4096, 32768, device=device)
    return (input,), mean_variance, lambda input: torch.var_mean(input, 1)[::-1]
