"""The k greatest elements of each row, and their places.

values[i, j] = input[i, places[i, j]] is the j-th greatest of row i, for j below k

Each program sorts a row in registers, by a bitonic network. Batcher, "Sorting networks and their applications", 1968.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def application(input, values, places):
    values, places = ntl.topk(input, values.shape[0], return_indices=True)


known = (None, {"constexpr": True})  # `topk` must know the length of a row, and k, when it is compiled
tensors = (Tensor(2, shape_options=known), Tensor(2, shape_options=known), Tensor(2))
kernel = ninetoothed.make(arrange.rows, application, tensors, kernel_name="top_k")


def top_k(input, k):
    values = input.new_empty(input.shape[0], k)
    places = torch.empty_like(values, dtype=torch.int64)
    kernel(input, values, places)
    return values, places


def check(device):
    for rows, columns, k, dtype in ((3, 21, 5, torch.float32), (9, 70, 8, torch.float16), (4, 33, 33, torch.float32)):
        input = torch.randn(rows, 2 * columns, device=device).to(dtype)[:, ::2]
        values, places = top_k(input, k)
        expected = input.double().sort(dim=1, descending=True, stable=True)
        yield values, expected.values[:, :k]
        yield places, expected.indices[:, :k]


def timed(device):
    logits = torch.randn(16384, 256, device=device)
    return (logits,), lambda logits: top_k(logits, 8), lambda logits: logits.topk(8)
