"""Random chains of meta-operations, and what real torch tensors make of them.

`Dense` holds, for all levels at once, the flat index into the source of every element (-1 out of bounds), and applies
each meta-operation with PyTorch's own `unfold`, `pad`, `permute`, `flatten` and indexing.
"""

import random
from dataclasses import dataclass, replace

import torch

from ninetoothed.arrangement.symbol import Symbol


@dataclass
class Dense:
    """`past`: the index of what lies past the end of a dimension that `tile` cuts."""

    data: torch.Tensor
    ranks: list[int]
    past: int = -1

    @classmethod
    def of(cls, shape, past=-1):
        return cls(torch.arange(torch.Size(shape).numel()).reshape(shape), [len(shape)], past)

    def first(self, level):
        return sum(self.ranks[:level])

    def shape(self, level):
        start = self.first(level)
        return tuple(self.data.shape[start : start + self.ranks[level]])

    def tile(self, level, tile_shape, strides, dilation, floor_mode):
        data, start, rank = self.data, self.first(level), self.ranks[level]
        for d, size in enumerate(self.shape(level)):
            dim, inner, dil = start + d, tile_shape[d], dilation[d]
            if inner == -1:
                inner, count, stride = size, 1, 1
            else:
                stride = inner if strides[d] == -1 else strides[d]
                reach = size - dil * (inner - 1) - 1
                count = max((reach // stride if floor_mode else -(-reach // stride)) + 1, 0)
            span = dil * (inner - 1) + 1 if inner else 0
            needed = (count - 1) * stride + span if count else 0
            data = pad_dim(data, dim, 0, max(needed - size, 0), self.past)
            if inner and count:
                windows = data.unfold(dim, span, stride).narrow(dim, 0, count)[..., ::dil]
            else:
                windows = data.new_empty((*data.shape[:dim], count, *data.shape[dim + 1 :], inner))
            data = windows.movedim(-1, start + rank + d)
        return replace(self, data=data, ranks=[*self.ranks[:level], rank, rank, *self.ranks[level + 1 :]])

    def expand(self, level, shape):
        start, rank = self.first(level), self.ranks[level]
        data = self.data
        for _ in range(len(shape) - rank):
            data = data.unsqueeze(start)
        target = [-1] * data.ndim
        target[start : start + len(shape)] = shape
        return self.with_rank(data.expand(target), level, len(shape))

    def unsqueeze(self, level, dim):
        rank = self.ranks[level]
        return self.with_rank(self.data.unsqueeze(self.first(level) + dim % (rank + 1)), level, rank + 1)

    def squeeze(self, level, dims):
        start, rank = self.first(level), self.ranks[level]
        data = self.data.squeeze(tuple(start + d % rank for d in dims)) if dims else self.data
        return self.with_rank(data, level, rank - len(dims))

    def permute(self, level, dims):
        start, rank = self.first(level), self.ranks[level]
        order = list(range(self.data.ndim))
        order[start : start + rank] = [start + d % rank for d in dims]
        return replace(self, data=self.data.permute(order))

    def flatten(self, level, start_dim, end_dim):
        start, rank = self.first(level), self.ranks[level]
        first, last = start_dim or 0, rank if end_dim is None else end_dim % rank if end_dim < 0 else end_dim
        return self.with_rank(self.data.flatten(start + first, start + last - 1), level, rank - (last - first) + 1)

    def ravel(self, level):
        return replace(self, ranks=[*self.ranks[:level], sum(self.ranks[level:])])

    def pad(self, level, padding):
        data = self.data
        for d, (before, after) in enumerate(padding):
            data = pad_dim(data, self.first(level) + d, before, after)
        return replace(self, data=data)

    def index(self, level, key):
        data, dim, rank = self.data, self.first(level), 0
        for item in key:
            if item is None:
                data = data.unsqueeze(dim)
            elif isinstance(item, slice):
                chosen = range(*item.indices(data.shape[dim]))
                data = data.index_select(dim, torch.tensor(list(chosen), dtype=torch.long))
            else:
                data = data.select(dim, item)
                continue
            dim, rank = dim + 1, rank + 1
        return self.with_rank(data, level, rank)

    def with_rank(self, data, level, rank):
        return replace(self, data=data, ranks=[*self.ranks[:level], rank, *self.ranks[level + 1 :]])


def pad_dim(data, dim, before, after, value=-1):
    widths = [0, 0] * (data.ndim - 1 - dim) + [before, after]
    return torch.nn.functional.pad(data, widths, value=value) if before or after else data


def random_call(rng, shape, depth):
    """`(operation, arguments)` that fits a level of `shape`, or None."""
    rank = len(shape)
    kind = rng.choice(
        ("tile", "tile", "tile", "expand", "unsqueeze", "squeeze", "permute", "flatten", "ravel", "pad", "index")
    )
    if kind == "tile" and rank and depth < 3:
        tiles = tuple(rng.choice((-1, 1, 2, 3)) for _ in shape)
        strides = tuple(rng.choice((-1, -1, 1, 2, 3)) for _ in shape)
        return kind, (tiles, strides, tuple(rng.choice((1, 1, 2)) for _ in shape), rng.random() < 0.4)
    if kind == "expand" and rank:
        new = (rng.randint(1, 2),) * rng.choice((0, 0, 1))
        return kind, ((*new, *(rng.choice((-1, 2)) if size == 1 else rng.choice((-1, size)) for size in shape)),)
    if kind == "unsqueeze":
        return kind, (rng.randint(-rank - 1, rank),)
    if kind == "squeeze":
        return kind, (
            tuple(d - rng.choice((0, rank)) for d, size in enumerate(shape) if size == 1 and rng.random() < 0.7),
        )
    if kind == "permute":
        return kind, (tuple(d - rng.choice((0, rank)) for d in rng.sample(range(rank), rank)),)
    if kind == "flatten" and rank >= 2:
        start = rng.randrange(rank - 1)
        return kind, (start, rng.choice((None, rng.randint(start + 1, rank))))
    if kind == "ravel":
        return kind, ()
    if kind == "pad" and rank:
        return kind, (tuple((rng.randint(0, 2), rng.randint(0, 2)) for _ in shape),)
    if kind == "index" and rank:
        return kind, (tuple(item for size in shape for item in random_item(rng, size)),)
    return None


def random_item(rng, size):
    if rng.random() < 0.2:
        yield None
    if size and rng.random() < 0.25:
        yield rng.randrange(-size, size)
    else:
        bound = lambda: rng.choice((None, None, rng.randint(-size - 1, size + 1)))  # noqa: E731
        yield slice(bound(), bound(), rng.choice((None, 1, 2, -1, -2)))


def apply(tensor, level, operation, arguments):
    """The call on that level of a tensor, through the public interface."""
    if level:
        return with_dtype(tensor, apply(tensor.dtype, level - 1, operation, arguments))
    if operation == "index":
        return tensor[arguments[0]]
    return getattr(tensor, operation)(*arguments)


def with_dtype(tensor, dtype):
    tensor = tensor[...]  # a handle of its own, so that the assignment shows nowhere else
    tensor.dtype = dtype
    return tensor


def random_chain(seed, length=6, limit=30_000, past=-1):
    """`(shape, [(level, operation, arguments)], Dense at the end)`; sizes may be 0."""
    rng = random.Random(seed)
    shape = tuple(
        rng.choice((0, 1, 1, 2, 3, 4, 5, 7)) if seed % 5 == 0 else rng.randint(1, 7) for _ in range(rng.randint(1, 3))
    )
    dense, calls = Dense.of(shape, past), []
    for _ in range(length):
        level = rng.randrange(len(dense.ranks))
        call = random_call(rng, dense.shape(level), len(dense.ranks))
        if call is None:
            continue
        after = getattr(dense, call[0])(level, *call[1])
        if after.data.numel() <= limit and after.data.ndim <= 12:
            dense = after
            calls.append((level, *call))
    return shape, calls, dense


def symbolic(rng, arguments, values):
    """Some positive ints of the arguments as symbols, whose numbers are noted in `values`."""
    if isinstance(arguments, tuple):
        return tuple(symbolic(rng, argument, values) for argument in arguments)
    if isinstance(arguments, int) and not isinstance(arguments, bool) and arguments > 0 and rng.random() < 0.5:
        name = f"B{len(values)}"
        values[name] = arguments
        return Symbol(name)
    return arguments
