"""Rules of operators that compute each element, or each row along a dimension, by itself."""

import torch

from .batch import Batch


def alike(batch: Batch, *args, **kwargs):
    """Call an operator of tensors of one shape on all of the batch."""
    return batch.operator(*batch.wholes(*args), **kwargs)


def gradients_of_rows(batch: Batch, *args):
    """Call an operator of rows whose last argument tells which results are needed."""
    found = batch.operator(*batch.wholes(*args))
    return tuple(each if needed else batch.unneeded(i) for i, (each, needed) in enumerate(zip(found, args[-1])))


def dropout(batch: Batch, input, seed, p):
    # The same numbers in all calls are drawn one by one, others at once, by any of their seeds.
    if not batch.has(1):
        return batch.one_by_one(input, seed, p)
    return batch.operator(batch.whole(0, input).contiguous(), seed[0], p)


def add(batch: Batch, self, other, *, alpha=1):
    """Add what broadcasts: dimensions that one operand lacks come after the batch."""
    operands = [self, other]
    ranks = [each.ndim - flag for each, flag in zip(operands, batch.flags)]
    # A number is converted to the type of a tensor, which it no longer is with the batch.
    dtype = batch.like.dtype
    for i, flag in enumerate(batch.flags):
        if flag:
            missing = max(ranks) - ranks[i]
            operands[i] = operands[i].view(batch.size, *(1,) * missing, *operands[i].shape[1:]).to(dtype)
    return batch.operator(*operands, alpha=alpha)


def along_a_dimension(count: int):
    """Make the rule of an operator whose first `count` arguments are tensors of one shape, and the next a dimension."""

    def rule(batch: Batch, *args):
        tensors, (dim, *options) = batch.wholes(*args[:count]), args[count:]
        if tensors[0].ndim == 1:
            return batch.operator(*(each[:, None] for each in tensors), 1, *options).squeeze(1)
        return batch.operator(*tensors, dim + 1 if dim >= 0 else dim, *options)

    return rule


def along_entries(count: int):
    """Make the rule of an operator along a jagged dimension, whose first `count` arguments are values of one shape."""

    def rule(batch: Batch, *args):
        offsets, lengths, longest, dim, *others = args[count:]
        if batch.has(count, count + 1):
            return batch.one_by_one(*args)
        return batch.operator(*batch.wholes(*args[:count]), offsets, lengths, longest, dim + 1, *others)

    return rule


def rope(count: int):
    """Make the rule of an operator whose first `count` arguments are (batch, ...), and the next two tables of these."""

    def rule(batch: Batch, *args):
        tensors = [batch.folded(i, each) for i, each in enumerate(args[:count])]
        entries = tensors[0].shape[0] // max(batch.size, 1)
        tables = (_table(batch, count + i, each, entries) for i, each in enumerate(args[count : count + 2]))
        return batch.parted(batch.operator(*tensors, *tables, *args[count + 2 :]))

    return rule


def _table(batch: Batch, place: int, table: torch.Tensor, entries: int) -> torch.Tensor:
    """Give a table of all calls: (tokens, D) or one for each entry."""
    if not batch.has(place) and (table.ndim == 2 or table.shape[0] == 1):
        return table
    table = batch.whole(place, table)
    if table.ndim == 3:
        table = table[:, None]
    return table.expand(-1, entries, -1, -1).flatten(0, 1)
