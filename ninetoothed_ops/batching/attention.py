"""Rules of attention: the batch of calls goes into its own, and that of nested tensors into the heads."""

from collections.abc import Iterator

import torch

from .batch import Batch

_SEED = 6


def with_lse(batch: Batch, query, key, value, mask, lengths, sinks, seed, *options):
    if _draws_the_same(batch, seed):
        return batch.one_by_one(query, key, value, mask, lengths, sinks, seed, *options)
    given = _folded(batch, query, key, value, mask, lengths, sinks, seed, False)
    output, lse = batch.operator(*given, *options)
    return batch.parted(output), batch.parted(lse, 1)


def gradients(batch: Batch, query, key, value, mask, lengths, sinks, seed, grad, output, lse, *options):
    tensors, needed = (query, key, value, mask, lengths, sinks, seed), options[-1]
    if _draws_the_same(batch, seed):
        return batch.one_by_one(*tensors, grad, output, lse, *options)
    given = _folded(batch, *tensors, needed[3] or needed[4])
    results = batch.folded(7, grad), batch.folded(8, output), batch.folded(9, lse, 1)
    found = batch.operator(*given, *results, *options)
    found = list(_needed(batch, found, needed))
    if needed[3]:
        found[3] = found[3].sum(1, keepdim=True) if batch.like[3].shape[0] == 1 else found[3]
    if needed[4] and batch.like[4].ndim == 1:
        found[4] = found[4].sum(1)
    return tuple(found)


def _draws_the_same(batch: Batch, seed) -> bool:
    """Tell whether all calls drop the same weights: one that is larger would draw numbers of its own for each."""
    return seed is not None and not batch.has(_SEED)


def _folded(batch: Batch, query, key, value, mask, lengths, sinks, seed, is_differentiated: bool) -> tuple:
    """Fold calls into the batch of one. What they share is expanded where each has a gradient of its own."""
    operands = [batch.folded(i, each) for i, each in enumerate((query, key, value))]
    entries = operands[0].shape[0] // max(batch.size, 1)
    if mask is not None and (batch.has(3) or is_differentiated or mask.shape[0] != 1):
        mask = batch.whole(3, mask)
        mask = mask.expand(-1, entries, *mask.shape[2:]).flatten(0, 1)
    if sinks is not None and (batch.has(5) or is_differentiated or sinks.ndim == 2):
        sinks = batch.whole(5, sinks)
        sinks = (sinks if sinks.ndim == 3 else sinks[:, None].expand(-1, entries, -1)).flatten(0, 1)
    # Of as many seeds one is enough for numbers that differ.
    return *operands, mask, batch.folded(4, lengths), sinks, None if seed is None else seed[0]


def dropout(batch: Batch, seed, shape, *options):
    return batch.parted(batch.operator(seed[0], (batch.size * shape[0], *shape[1:]), *options))


def jagged(results: int):
    """Make the rule of attention of nested tensors, with so many tensors after those that tell of its entries."""

    def rule(batch: Batch, *args):
        if batch.has(3, 4, 5, 6):
            return batch.one_by_one(*args)
        of_entries, options = args[3:7], args[7 + results :]
        operands = [batch.folded(i, each) for i, each in enumerate(args[:3])]
        rest = [batch.folded(7 + i, each) for i, each in enumerate(args[7 : 7 + results])]
        found = batch.operator(*operands, *of_entries, *rest, *options)
        return tuple(_needed(batch, found, options[4]) if results else map(batch.parted, found))

    return rule


def _needed(batch: Batch, found, needed) -> Iterator[torch.Tensor]:
    """Give gradients of queries, keys, values and others, as far as they are asked for."""
    for i, (each, is_needed) in enumerate(zip(found, needed)):
        yield batch.parted(each) if is_needed else batch.unneeded(i)
