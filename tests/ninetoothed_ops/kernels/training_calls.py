"""Calls of the kernels of training, beside those of `calls.py`: norms of channels, embedding, dropout, divergences."""

import torch

from ninetoothed_ops.kernels import (
    channel_moments,
    channel_norm,
    channel_norm_backward,
    dropout,
    embedding,
    embedding_backward,
    gated,
    jsd,
    jsd_backward,
    kl_div,
    kl_div_backward,
)
from ninetoothed_ops.kernels.cross_entropy import chunk_of
from ninetoothed_ops.ops import channels

NAMES = ("channel_moments", "channel_norm", "dropout", "embedding", "jsd", "kl_div", "kl_div_of_rows")
NAMES += ("moments_of_parts", "dropout_of_rows")
GRADIENTS = ("channel_norm_backward", "channel_sums", "channel_totals", "channel_vectors", "embedding_backward")
GRADIENTS += ("jsd_backward", "kl_div_backward", "swiglu_backward_with_output")


def call(name, make, sizes):
    """A kernel and arguments, of tensors by `make(*shape)`, whose output is the last tensor."""
    if "channel" in name or name == "moments_of_parts":
        return of_channels(name, make, sizes["images"])
    if "embedding" in name:
        return of_embedding(name, make, *sizes["rows"])
    rows, columns = sizes["rows"]
    match name:
        case "dropout":
            n = sizes["vector"]
            return dropout.make_of_vectors(), (make(n), torch.tensor(5), 0.25, 1 / 0.75, make(n))
        case "dropout_of_rows":
            return dropout.make(2), (make(rows, columns), torch.tensor(5), 0.25, 1 / 0.75, make(rows, columns))
        case "swiglu_backward_with_output":
            tensors = tuple(make(sizes["vector"]) for _ in range(6))
            return gated.make_backward_with_output("silu", 1), tensors
        case "kl_div":
            return kl_div.make(1), (*(make(sizes["vector"]) for _ in range(3)), True)
        case "kl_div_backward":
            n = sizes["vector"]
            given = make(n), make(n), make(n), 0.5, make(n), make(n)
            return kl_div_backward.make(1), (*given, True, True, True)
        case "kl_div_of_rows":
            kernel = kl_div.make_of_rows(chunk_of(columns))
            return kernel, (make(rows, columns), make(rows, columns), make(rows).float(), True)
    labels = torch.arange(rows) % 3
    given = make(rows, columns), make(rows, columns), labels, 2, 0.3
    if name == "jsd":
        return jsd.make(chunk_of(columns)), (*given, make(rows).float(), True, 2)
    outputs = make(rows, columns), make(rows, columns)
    return jsd_backward.make(chunk_of(columns)), (make(rows).float(), *given, *outputs, True, 2, True, True)


def of_channels(name, make, shape):
    image, blocks, size, parts = parted(make, shape)
    mean, weight, bias = (make(*shape[:3]) for _ in range(3))
    variance, eps = make(*shape[:3]).square(), 1e-3
    sums = [make(*shape[:3], parts).float() for _ in range(2)]
    match name:
        case "channel_moments":
            return channel_moments.make(*blocks, size // blocks[1]), (image, *sums)
        case "moments_of_parts":
            results = make(*shape[:2]).float(), make(*shape[:2]).float()
            return channel_moments.make_of_parts(channels.rows_of(sums[0])), (*sums, *results, shape[3], size)
        case "channel_norm":
            given = image, mean, variance, weight, bias, eps, make(*shape)
            return channel_norm.make(*blocks), (*given, True, True)
        case "channel_sums":
            given = make(*shape), image, mean.float(), *sums
            return channel_norm_backward.make_sums(*blocks, size // blocks[1]), given
        case "channel_norm_backward":
            totals = [make(*shape[:3]).float() for _ in range(2)]
            given = make(*shape), image, mean, variance, weight, *totals, eps, 1 / 64, make(*shape)
            return channel_norm_backward.make(*blocks), (*given, True, False)
    results = make(*shape[:2]).float(), make(*shape[:2]).float()
    if name == "channel_totals":
        return channel_norm_backward.make_totals(channels.rows_of(sums[0])), (*sums, weight, *results, True)
    kernel = channel_norm_backward.make_vectors(channels.rows_of(sums[0]))
    return kernel, (*sums, variance, *results, eps, True, True)


def parted(make, shape):
    """An image, and how the operators cut it."""
    image = make(*shape)
    return image, *channels.parts_of(image)


def of_embedding(name, make, rows, columns):
    """Tokens of which some take one row, and some rows that none takes."""
    ids = torch.arange(2 * rows) % max(rows - 2, 1)
    if name == "embedding":
        return embedding.make(), (ids, make(rows, columns), make(2 * rows, columns))
    taken, order = ids.sort(stable=True)
    starts, ends = (torch.searchsorted(taken, torch.arange(rows), right=right) for right in (False, True))
    return embedding_backward.make(), (order, starts, ends, make(2 * rows, columns), make(rows, columns), True)
