"""Losses of logits that are never stored: a product whose tiles are reduced at once, and the losses of what is left.

    peaks[row, tile] = max over the tile's columns of score,  sums[row, tile] = sum of exp(score - peak)
    picked[row, tile] = the score of the row's target, 0 if it lies in another tile

The scores are those of `cross_entropy`: rows @ weight^T + bias or, with a softcap, softcap * tanh of it / softcap.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, block_size

from .cross_entropy import loss_of, own_share, score_of
from .mm import BLOCK_SIZE_K
from .parameters import flags

# The number of results depends on it, so it is fixed; as a block size, so that the kernel is recognised as a product.
COLUMNS = 256
BLOCK_SIZE_M, BLOCK_SIZE_N = block_size(128, 128), block_size(COLUMNS, COLUMNS)


def arrangement(rows, weight, bias, target, softcap, peaks, sums, picked, biased, capped):
    peaks, sums, picked = (each.tile(BLOCK_SIZE_M, None) for each in (peaks, sums, picked))
    rows_arranged = rows.tile(BLOCK_SIZE_M, BLOCK_SIZE_K, loop=1).expand(-1, peaks.shape[1])
    weight_arranged = weight.tile(BLOCK_SIZE_K, BLOCK_SIZE_N, loop=0).expand(peaks.shape[0], -1)
    bias_arranged = bias.tile(BLOCK_SIZE_N).unsqueeze(0).expand(peaks.shape[0], -1)
    target_arranged = target.tile(BLOCK_SIZE_M).unsqueeze(1).expand(-1, peaks.shape[1])

    return rows_arranged, weight_arranged, bias_arranged, target_arranged, softcap, peaks, sums, picked, biased, capped


def application(rows, weight, bias, target, softcap, peaks, sums, picked, biased, capped):
    logits = ntl.zeros((rows.dtype.shape[0], weight.dtype.shape[1]), dtype=ntl.float32)
    for k in range(rows.shape[0]):
        logits += ntl.dot(rows[k], weight[k])
    if biased:
        logits += ntl.cast(bias, ntl.float32)[None, :]

    scores = score_of(logits, ntl.cast(softcap, ntl.float32), capped)
    columns, narrow = bias.offsets(0), ntl.cast(target, ntl.int32)
    picked = ntl.sum(ntl.where(columns[None, :] == narrow[:, None], scores, 0.0), axis=1)
    scores = ntl.where(columns[None, :] < bias.source.shape[0], scores, float("-inf"))
    peak = ntl.max(scores, axis=1)
    shift = ntl.where(peak == float("-inf"), 0.0, peak)
    peaks = peak
    sums = ntl.sum(ntl.exp(scores - shift[:, None]), axis=1)


@functools.cache
def make():
    """The kernel `(rows, weight, bias, target, softcap, peaks, sums, picked, biased, capped)`, of halves.

    weight: (depth, classes). bias: a vector of the classes, which is read if `biased`. The three results are of
    float32, (rows, tiles of so many COLUMNS).
    """
    tensors = Tensor(2), Tensor(2), Tensor(1), Tensor(1), Tensor(0), Tensor(2), Tensor(2), Tensor(2), *flags(2)

    # A tile of float32 takes half of the registers of so many warps.
    return ninetoothed.make(arrangement, application, tensors, kernel_name="linear_log_sums", num_warps=8)


def arrangement_of_losses(
    peaks, sums, picked, target, weight, ignore_index, classes, keep, z_loss, loss, lse, mass, weighted, squared
):
    tiles = (each.tile(None, -1) for each in (peaks, sums, picked))
    target, loss, lse, mass = (each.tile(None) for each in (target, loss, lse, mass))
    weight = weight.tile(COLUMNS, loop=0).expand(target.shape[0])

    return *tiles, target, weight, ignore_index, classes, keep, z_loss, loss, lse, mass, weighted, squared


def application_of_losses(
    peaks, sums, picked, target, weight, ignore_index, classes, keep, z_loss, loss, lse, mass, weighted, squared
):
    kept, z = ntl.cast(keep, ntl.float32), ntl.cast(z_loss, ntl.float32)
    peak = ntl.max(peaks)
    shift = ntl.where(peak == float("-inf"), 0.0, peak)
    log_of_total = peak + ntl.log(ntl.sum(sums * ntl.exp(peaks - shift)))
    own = own_share(target, weight, kept, weighted)

    is_ignored, is_class = target == ignore_index, (target >= 0) & (target < classes)
    loss = loss_of(is_ignored, is_class, own, log_of_total, own * ntl.sum(picked), z, squared)
    lse = log_of_total
    mass = ntl.where(is_ignored, 0.0, own)


@functools.cache
def make_of_losses():
    """The kernel `(peaks, sums, picked, target, weight, ignore_index, classes, keep, z_loss, loss, lse, mass, ...)`.

    The last two are flags, `weighted` and `squared`; all others are those of `cross_entropy.make`.
    """
    tiles = Tensor(2, other=float("-inf")), Tensor(2, other=0), Tensor(2, other=0)
    tensors = *tiles, Tensor(1), Tensor(1), *(Tensor(0) for _ in range(4)), *(Tensor(1) for _ in range(3)), *flags(2)

    return ninetoothed.make(arrangement_of_losses, application_of_losses, tensors, kernel_name="losses_of_tiles")
