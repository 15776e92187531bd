"""The place of the greatest element of each long row.

output[i] = the first j for which input[i, j] is the greatest of row i

A row is read block by block; a later block counts only if it has a greater element, or the first NaN, which comes
before any number.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange

BLOCK = 2048


def arrangement(input, output):
    return *arrange.row_blocks(input, BLOCK_SIZE=BLOCK), output.tile(None)


def application(input, output):
    best, place = ntl.max(input[0], 0, return_indices=True)

    for i in range(1, input.shape[0]):
        found, where = ntl.max(input[i], 0, return_indices=True)
        is_better = (found > best) | ((found != found) & (best == best))
        place = ntl.where(is_better, where + i * BLOCK, place)
        best = ntl.where(is_better, found, best)

    output = place


kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(1)), kernel_name="argmax")


def argmax(input):
    output = torch.empty(input.shape[0], dtype=torch.int64, device=input.device)
    kernel(input, output)
    return output


def check(device):
    for rows, columns, dtype in ((3, 2100, torch.float32), (9, 5000, torch.float16), (5, 31, torch.int32)):
        input = (50 * torch.randn(rows, 2 * columns, device=device)).to(dtype)[:, ::2]
        greatest = input.double().amax(1, keepdim=True)
        yield argmax(input), torch.arange(columns, device=device).where(input == greatest, columns).amin(1)
    input = torch.randn(2, 5000, device=device)
    input[1, [2500, 4999]] = torch.nan
    yield argmax(input), torch.stack((input[0].double().sort().indices[-1], torch.tensor(2500, device=device)))


def timed(device):
    logits = torch.randn(4096, 128256, device=device, dtype=torch.float16)
    return (logits,), argmax, lambda logits: logits.argmax(1)
