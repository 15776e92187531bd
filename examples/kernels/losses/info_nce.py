"""Contrastive loss of queries and keys, without storing their scores.

loss[i] = log(sum over j of exp(query[i] . keys[j] / t)) - query[i] . keys[i] / t

Key i belongs to query i, and all others are wrong answers; there may be more keys than queries. A program goes through
all keys with its block of queries, and a peak that rises. Van den Oord, Li and Vinyals, "Representation Learning with
Contrastive Predictive Coding", 2018; Radford and others, "Learning Transferable Visual Models From Natural Language
Supervision", 2021.
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, block_size


def arrangement(query, keys, temperature, loss, M=block_size(), N=block_size()):
    query = query.tile(M, -1).squeeze(1)  # (blocks,), (M, depth)
    keys = keys.tile(N, -1, loop=0).squeeze(1).expand(query.shape)  # the same for all programs: (blocks,), (N, depth)
    return query, keys, temperature, loss.tile(M)


def application(query, keys, temperature, loss):
    peak = ntl.full(loss.shape, float("-inf"), dtype=ntl.float32)
    total = ntl.zeros(loss.shape, dtype=ntl.float32)
    chosen = ntl.zeros(loss.shape, dtype=ntl.float32)

    for n in range(keys.shape[0]):
        scores = ntl.dot(query, ntl.trans(keys[n])) / temperature
        higher = ntl.maximum(peak, ntl.max(scores, axis=1))
        total = total * ntl.exp(peak - higher) + ntl.sum(ntl.exp(scores - higher[:, None]), axis=1)
        is_own = query.offsets(0)[:, None] == keys[n].offsets(0)[None, :]
        chosen += ntl.sum(ntl.where(is_own, scores, 0.0), axis=1)
        peak = higher

    loss = peak + ntl.log(total) - chosen


tensors = (Tensor(2), Tensor(2), Tensor(0), Tensor(1))
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="info_nce")


def info_nce(query, keys, temperature=0.07):
    loss = torch.empty(query.shape[0], device=query.device)
    kernel(query, keys, temperature, loss)
    return loss


def check(device):
    for queries, keys, depth, dtype in (
        (5, 9, 21, torch.float32),
        (70, 133, 64, torch.float16),
        (0, 3, 8, torch.float32),
    ):
        query = F.normalize(torch.randn(2 * queries, depth, device=device))[::2].to(dtype)
        key = F.normalize(torch.randn(depth, keys, device=device), dim=0).to(dtype).T
        scores = query.double() @ key.double().T / 0.3
        yield info_nce(query, key, 0.3), scores.logsumexp(1) - scores.diagonal()


def timed(device):
    def eager(query, keys):
        scores = query @ keys.T / 0.07
        return F.cross_entropy(scores.float(), torch.arange(len(query), device=query.device), reduction="none")

    return F.normalize(torch.randn(2, 8192, 128, device=device), dim=2).half().unbind(), info_nce, eager
