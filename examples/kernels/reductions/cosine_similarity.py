"""Cosine similarity of pairs of rows.

output[i] = sum over j of x[i, j] * y[i, j] / (|x[i]| * |y[i]|), with norms of at least eps
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def arrangement(x, y, eps, output):
    return *arrange.rows(x, y), eps, output.tile(None)


def norm(row, eps):
    return ntl.maximum(ntl.sqrt(ntl.sum(row * row)), eps)


def application(x, y, eps, output):
    first, second = x.to(ntl.float32), y.to(ntl.float32)
    output = ntl.sum(first * second) / (norm(first, eps) * norm(second, eps))


tensors = (Tensor(2), Tensor(2), Tensor(0), Tensor(1))
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="cosine_similarity")


def cosine_similarity(x, y, eps=1e-8):
    output = x.new_empty(x.shape[0])
    kernel(x, y, eps, output)
    return output


def check(device):
    for rows, columns, dtype in ((5, 27, torch.float32), (33, 1000, torch.float16), (3, 1, torch.float32)):
        x, y = torch.randn(2, rows, columns, device=device).to(dtype)
        x, y = x + y, y.T.contiguous().T
        expected = F.normalize(x.double()) * F.normalize(y.double())
        yield cosine_similarity(x, y), expected.sum(1)


def timed(device):
    return torch.randn(2, 16384, 4096, device=device).half().unbind(), cosine_similarity, F.cosine_similarity
