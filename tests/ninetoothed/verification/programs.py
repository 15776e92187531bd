"""Kernels that are right, and kernels with a fault that was planted: what is verified, by name.

Each is a function without arguments that gives a kernel and the arguments of `verify`, none where sizes are free.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Symbol, Tensor, arrange, block_size


def double(x, y):
    y = 2 * x


def add(x, b, y):
    y = x + b


def total(x, y):
    y = ntl.sum(x)


def row_sums(x, y):
    y = ntl.sum(x, axis=1)


def increment(x):
    x = x + 1


def gathered_sum(x, y):
    sums = ntl.zeros(y.shape, dtype=ntl.float32)
    for k in range(x.shape[0]):
        sums += ntl.sum(x[k], axis=-1)
    y = sums


def scaled_blocks(x, y):
    for k in range(x.shape[0]):
        y[k] = 2 * x[k]


def all_but_the_last_block(x, y):
    for k in range(x.shape[0] - 1):
        y[k] = 2 * x[k]


def every_other_block(x, y):
    for k in range(x.shape[0] // 2):
        y[2 * k] = 2 * x[2 * k]


def scatter_reversed(x, y):
    y.source[y.source.shape[0] - 1 - x.offsets(0)] = x


def two_results(x, y, z):
    y = x + 1
    z = x * 2


def matmul(a, b, c):
    accumulator = ntl.zeros(c.shape, dtype=ntl.float32)
    for k in range(a.shape[0]):
        accumulator += ntl.dot(a[k], b[k])
    c = accumulator


def made(arrangement, application, *ranks):
    tensors = tuple(Tensor(rank) if isinstance(rank, int) else rank for rank in ranks)
    return ninetoothed.make(arrangement, application, tensors)


def tiles(*shape, **options):
    """Tile all parameters alike."""
    return lambda *tensors: tuple(tensor.tile(shape, **options) for tensor in tensors)


def squeezed(tensor, *dims):
    tensor.dtype = tensor.dtype.squeeze(dims)
    return tensor


def whole_rows(x, y):
    return squeezed(x.tile((1, -1)), 0).squeeze(1), squeezed(y.tile((1, -1)), 0).squeeze(1)


def looped_rows(x, y, width=128):
    def cut(tensor):
        blocks = squeezed(tensor.tile((1, width)).tile((1, -1)).squeeze(1), 0)
        squeezed(blocks.dtype, 0)
        return blocks

    return cut(x), cut(y)


def sums_of_rows(rows):
    return lambda x, y: (x.tile((rows, -1)).squeeze(1), y.tile((rows,)))


def sums_in_blocks(x, y):
    blocks = x.tile((16, 32)).tile((1, -1)).squeeze(1)
    blocks.dtype = blocks.dtype.squeeze(0)
    return blocks, y.tile((16,))


def product(rows=block_size(), columns=block_size(), inner=block_size(), strides=None):
    def arrangement(a, b, c):
        c = c.tile((rows, columns), strides=strides)
        a = a.tile((rows, inner)).tile((1, -1)).expand((-1, c.shape[1]))
        b = b.tile((inner, columns)).tile((-1, 1)).expand((c.shape[0], -1))
        return squeezed(a, 0), squeezed(b, 1), c

    return arrangement


def flattened(block, shape_of):
    return lambda *tensors: tuple(shape_of(tensor).tile((block,)) for tensor in tensors)


def transposed(x, y):
    return x.tile((16, 32)), y.permute((1, 0)).tile((16, 32))


def windows(x, y):
    return squeezed(x.tile((3,), strides=(1,), floor_mode=True)), y.tile((1,))


def pooled(x, y):
    x = x.tile((1, 1, 2, 2), strides=(1, 1, 2, 2), floor_mode=True).ravel().flatten(0, 4).flatten(1, 5)
    return x.tile((32, -1)).squeeze(1), y.flatten().tile((32,))


def stencil(x, y):
    """Windows of each of several images: of what is shifted, a guard of the block itself keeps to the image."""
    return arrange.neighbours(x, (32, 128), reach=2), y.tile(None, 32, 128)


def corners(x, y):
    y = x[0, 0] + x[1, 1]


def ring(x, y):
    y = y.tile(64)
    return arrange.whole(x, y.shape), y


def after_on_a_ring(x, y):
    y = x.source[(y.offsets(0) + 1) % x.source.shape[0]]


def bias(rows, columns):
    def arrangement(x, b, y):
        y = y.tile((rows, columns))
        b = b.tile((columns,)).unsqueeze(0).expand((y.shape[0], -1))
        b.dtype = b.dtype.unsqueeze(0)
        return x.tile((rows, columns)), b, y

    return arrangement


def batched(rows=32, columns=32, inner=32):
    def arrangement(a, b, c):
        c = c.tile((1, rows, columns))
        a = a.tile((1, rows, inner)).tile((1, 1, -1)).expand((-1, -1, c.shape[2]))
        b = b.tile((1, inner, columns)).tile((1, -1, 1)).expand((-1, c.shape[1], -1))
        c.dtype = c.dtype.squeeze(0)
        for tensor, dim in ((a, 1), (b, 2)):
            tensor.dtype = tensor.dtype.squeeze((0, dim))
            tensor.dtype.dtype = tensor.dtype.dtype.squeeze(0)
        return a, b, c

    return arrangement


BLOCK, OTHER = block_size(), block_size()

RIGHT = {
    "blocks": lambda: (made(tiles(BLOCK), double, 1, 1),),
    "blocks of 1": lambda: (made(tiles(1), double, 1, 1),),
    "blocks of 3": lambda: (made(tiles(3), double, 1, 1),),
    "blocks of 64": lambda: (made(tiles(64), double, 1, 1),),
    "blocks of 1000": lambda: (made(tiles(1000), double, 1, 1),),
    "whole vectors": lambda: (made(tiles(-1), double, 1, 1), (100,), (100,)),
    "whole vectors of odd size": lambda: (made(tiles(-1), double, 1, 1), (97,), (97,)),
    "planes": lambda: (made(tiles(BLOCK, OTHER), double, 2, 2),),
    "planes of 3 by 5": lambda: (made(tiles(3, 5), double, 2, 2),),
    "planes of 1 by 64": lambda: (made(tiles(1, 64), double, 2, 2),),
    "columns": lambda: (made(tiles(64, 1), double, 2, 2),),
    "boxes": lambda: (made(tiles(4, 8, 16), double, 3, 3),),
    "boxes of odd sizes": lambda: (made(tiles(3, 5, 7), double, 3, 3),),
    "four dimensions": lambda: (made(tiles(1, 2, 4, 8), double, 4, 4),),
    "rows": lambda: (made(whole_rows, double, 2, 2), (7, 100), (7, 100)),
    "rows of a power of two": lambda: (made(whole_rows, double, 2, 2), (7, 128), (7, 128)),
    "one row": lambda: (made(whole_rows, double, 2, 2), (1, 33), (1, 33)),
    "in place": lambda: (made(tiles(BLOCK), increment, 1),),
    "planes in place": lambda: (made(tiles(16, 32), increment, 2),),
    "two results": lambda: (made(tiles(64), two_results, 1, 1, 1),),
    "two results of planes": lambda: (made(tiles(8, 8), two_results, 2, 2, 2),),
    "flattened planes": lambda: (made(flattened(64, lambda t: t.flatten()), double, 2, 2),),
    "flattened boxes": lambda: (made(flattened(100, lambda t: t.flatten()), double, 3, 3),),
    "flattened in four": lambda: (made(flattened(BLOCK, lambda t: t.flatten()), double, 4, 4),),
    "half flattened": lambda: (
        made(lambda *ts: tuple(t.flatten(1, 3).tile((4, 32)) for t in ts), double, 3, 3),
    ),
    "flattened first": lambda: (
        made(lambda *ts: tuple(t.flatten(0, 2).tile((8, 16)) for t in ts), double, 3, 3),
    ),
    "flattened columns": lambda: (
        made(flattened(64, lambda t: t.permute((1, 0)).flatten()), double, 2, 2),
    ),
    "turned and flattened": lambda: (
        made(flattened(32, lambda t: t.permute((0, 2, 3, 1)).flatten()), double, 4, 4),
    ),
    "halves of four": lambda: (
        made(lambda *ts: tuple(t.permute((0, 2, 3, 1)).flatten(0, 3).tile((16, 16)) for t in ts), double, 4, 4),
    ),
    "transposed": lambda: (made(transposed, double, 2, 2),),
    "both transposed": lambda: (
        made(lambda *ts: tuple(t.permute((1, 0)).tile((8, 16)) for t in ts), double, 2, 2),
    ),
    "turned boxes": lambda: (
        made(lambda *ts: tuple(t.permute((2, 0, 1)).tile((4, 8, 16)) for t in ts), double, 3, 3),
    ),
    "squeezed": lambda: (
        made(lambda *ts: tuple(t.unsqueeze(0).tile((1, 64)).squeeze(0) for t in ts), double, 1, 1),
    ),
    "tiles of tiles": lambda: (
        made(lambda *ts: tuple(t.tile((64,)).tile((4,)) for t in ts), scaled_blocks, 1, 1),
    ),
    "tiles of tiles of planes": lambda: (
        made(lambda *ts: tuple(squeezed(t.tile((8, 16)).tile((4, 1)), 1) for t in ts), scaled_blocks, 2, 2),
    ),
    "ravelled": lambda: (
        made(lambda *ts: tuple(t.tile((8,)).ravel().flatten().tile((64,)) for t in ts), double, 1, 1), (128,), (128,),
    ),
    "rows in blocks": lambda: (made(looped_rows, scaled_blocks, 2, 2),),
    "rows in small blocks": lambda: (made(functools.partial(looped_rows, width=16), scaled_blocks, 2, 2),),
    "sums of rows": lambda: (made(sums_of_rows(8), row_sums, 2, 1), (37, 100), (37,)),
    "sums of single rows": lambda: (
        made(lambda x, y: (x.tile((1, -1)).squeeze(1), y.tile((1,))), total, 2, 1), (37, 100), (37,),
    ),
    "sums in blocks": lambda: (made(sums_in_blocks, gathered_sum, 2, 1),),
    "a bias": lambda: (made(bias(16, 32), add, 2, 1, 2),),
    "a bias by blocks": lambda: (made(bias(BLOCK, OTHER), add, 2, 1, 2),),
    "products": lambda: (made(product(), matmul, 2, 2, 2),),
    "products of 16": lambda: (made(product(16, 16, 16), matmul, 2, 2, 2),),
    "products of odd sizes": lambda: (made(product(), matmul, 2, 2, 2), (37, 53), (53, 71), (37, 71)),
    "batched products": lambda: (made(batched(), matmul, 3, 3, 3), (3, 37, 53), (3, 53, 71), (3, 37, 71)),
    "windows of a vector": lambda: (made(windows, total, 1, 1), (101,), (99,)),
    "pooling": lambda: (made(pooled, row_sums, 4, 1), (2, 3, 8, 12), (2 * 3 * 4 * 6,)),
    "a stencil of images": lambda: (made(stencil, corners, 3, 3), (2, 33, 70), (2, 33, 70)),
    "read on a ring": lambda: (made(ring, after_on_a_ring, 1, 1), (100,), (100,)),
    "an even half read": lambda: (
        made(lambda x, y: (x[::2].tile((32,)), y.tile((32,))), double, 1, 1), (100,), (50,),
    ),
    "output padded": lambda: (
        made(lambda x, y: (x.tile((64,)), y.pad(((1, 0),)).tile((64,))), double, 1, 1), (201,), (200,),
    ),
    "scattered in reverse": lambda: (made(tiles(32), scatter_reversed, 1, 1), (100,), (100,)),
    "a part read": lambda: (made(lambda x, y: (x[3:].tile((32,)), y.tile((32,))), double, 1, 1), (103,), (100,)),
    "padded and read": lambda: (
        made(lambda x, y: (x.pad(((2, 3),)).tile((32,)), y.tile((32,))), double, 1, 1), (95,), (100,),
    ),
    "a row for all": lambda: (
        made(lambda x, b, y: (x.tile((4, 32)), b[None].expand((x.shape[0], -1)).tile((4, 32)), y.tile((4, 32))),
             add, 2, 1, 2),
    ),
    "known sizes": lambda: (
        made(tiles(8, 16), double, Tensor(shape=(40, 40)), Tensor(shape=(40, 40))), (40, 40), (40, 40),
    ),
    "a known width": lambda: (
        made(flattened(48, lambda t: t.flatten()), double, Tensor(shape=(None, 12)), Tensor(shape=(None, 12))),
        (7, 12), (7, 12),
    ),
    "constexpr blocks": lambda: (
        made(tiles(Symbol("WIDTH", constexpr=True)), double, 1, 1), (100,), (100,), {"WIDTH": 16},
    ),
    "five dimensions": lambda: (made(tiles(1, 1, 2, 2, 4), double, 5, 5), (2, 3, 5, 4, 6), (2, 3, 5, 4, 6)),
    "tiles along one dimension": lambda: (made(tiles(1, -1), double, 2, 2), (5, 60), (5, 60)),
    "tall tiles": lambda: (made(tiles(-1, 1), double, 2, 2), (60, 5), (60, 5)),
    "flattened tiles": lambda: (
        made(lambda *ts: tuple(t.tile((2, 3)).flatten(0, 2) for t in ts), double, 2, 2),
    ),
}  # fmt: skip


# -- faults: each is planted in several kernels --


def tiled_with(shape, options):
    return (made(tiles(*shape, **options), double, len(shape), len(shape)),)


def stored_by(size, output):
    return made(lambda x, y: (x.tile((64,)), output(y)), double, 1, 1), (size,), (200,)


OUTPUTS = {
    "begun two late": (198, lambda y: y[2:].tile((64,))),
    "begun one late": (199, lambda y: y[1:].tile((64,))),
    "every other": (100, lambda y: y[::2].tile((64,))),
    "reversed but one": (199, lambda y: y[-2::-1].tile((64,))),
    "dilated": (137, lambda y: y.tile((64,), strides=(64,), dilation=(2,))),
    "ended early": (199, lambda y: y[:-1].tile((64,))),
}


def planted():
    """Yield tiles of one to four dimensions, with a gap, with a lap and without the last; and outputs cut wrongly."""
    for shape in ((64,), (8, 16), (2, 4, 8), (1, 2, 4, 4)):
        wide = [dim for dim, size in enumerate(shape) if size > 1]
        for fault, more in (("gap", 1), ("lap", -1)):
            for dim in wide:
                strides = tuple(size + more * (d == dim) for d, size in enumerate(shape))
                yield (
                    f"a {fault} in tiles of {shape}, along {dim}",
                    functools.partial(tiled_with, shape, {"strides": strides}),
                )
        yield f"tiles of {shape} but the last", functools.partial(tiled_with, shape, {"floor_mode": True})
    for name, (size, output) in OUTPUTS.items():
        yield f"output {name}", functools.partial(stored_by, size, output)


def broadcast_output(x, y):
    return x.tile((4, 32)), y.tile((32,)).unsqueeze(0).expand((x.tile((4, 32)).shape[0], -1))


def row(x, y):
    y = ntl.sum(x, axis=0)


def whole_output(x, y):
    return x.tile((32,)), y.tile((-1,)).expand((x.tile((32,)).shape[0],))


def filled(x, y):
    y = ntl.sum(x) + ntl.zeros(y.shape, dtype=ntl.float32)


def scatter_every_other(x, y):
    y.source[2 * x.offsets(0)] = x


def scatter_in_pairs(x, y):
    y.source[x.offsets(0) // 2] = x


def scatter_around(x, y):
    y.source[x.offsets(0) % 50] = x


def scatter_one_late(x, y):
    y.source[x.offsets(0) + 1] = x


def scatter_rows_to_one(x, y):
    y.source[0 * x.offsets(0)[:, None], x.offsets(1)] = x


def reversed_but_one(x, y):
    y.source[y.source.shape[0] - 2 - x.offsets(0)] = x


def neighbour_in_place(x):
    x = x.source[x.offsets(0) + 1] + 1


def neighbour_before_in_place(x):
    x = x.source[x.offsets(0) - 1] + 1


def mirrored_in_place(x):
    x = x.source[x.source.shape[0] - 1 - x.offsets(0)] * 2


def row_below_in_place(x):
    x = x.source[x.offsets(0)[:, None] + 1, x.offsets(1)] * 2


def first_in_place(x):
    x = x - x.source[0]


def prefix_in_place(x):
    x = x + x.source[x.offsets(0) // 2]


WRONG = {
    **dict(planted()),
    "an output that all rows share": lambda: (made(broadcast_output, row, 2, 1), (20, 64), (64,)),
    "an output that all programs write": lambda: (made(whole_output, filled, 1, 1), (100,), (50,)),
    "a last block left out": lambda: (
        made(lambda *ts: tuple(t.tile((16,)).tile((4,)) for t in ts), all_but_the_last_block, 1, 1),
    ),
    "every other block": lambda: (
        made(lambda *ts: tuple(t.tile((16,)).tile((4,)) for t in ts), every_other_block, 1, 1),
    ),
    "last blocks of rows": lambda: (made(looped_rows, all_but_the_last_block, 2, 2),),
    "every other block of rows": lambda: (made(looped_rows, every_other_block, 2, 2),),
    "products with a gap": lambda: (
        made(product(16, 16, 16, strides=(17, 16)), matmul, 2, 2, 2), (48, 33), (33, 50), (50, 50),
    ),
    "products with a lap": lambda: (
        made(product(16, 16, 16, strides=(16, 15)), matmul, 2, 2, 2), (50, 33), (33, 50), (50, 50),
    ),
    "a first row left out": lambda: (
        made(lambda x, y: (x.tile((4, 32)), y[1:].tile((4, 32))), double, 2, 2), (20, 64), (21, 64),
    ),
    "every third row": lambda: (
        made(lambda x, y: (x.tile((4, 32)), y[::3].tile((4, 32))), double, 2, 2), (7, 64), (21, 64),
    ),
    "in place, one on": lambda: (made(tiles(32, strides=(16,)), increment, 1),),
    "in place, planes that overlap": lambda: (made(tiles(8, 8, strides=(8, 4)), increment, 2),),
    "sums of rows that overlap": lambda: (
        made(lambda x, y: (x.tile((8, -1), strides=(4, -1)).squeeze(1), y.tile((8,), strides=(4,))), row_sums, 2, 1),
        (40, 64), (40,),
    ),
    "sums of rows with a gap": lambda: (
        made(lambda x, y: (x.tile((8, -1), strides=(9, -1)).squeeze(1), y.tile((8,), strides=(9,))), row_sums, 2, 1),
        (45, 64), (45,),
    ),
    "flattened with a gap": lambda: (
        made(lambda *ts: tuple(t.flatten().tile((32,), strides=(33,)) for t in ts), double, 2, 2),
    ),
    "flattened with a lap": lambda: (
        made(lambda *ts: tuple(t.flatten().tile((32,), strides=(31,)) for t in ts), double, 2, 2),
    ),
    "transposed with a gap": lambda: (
        made(lambda *ts: tuple(t.permute((1, 0)).tile((8, 8), strides=(8, 9)) for t in ts), double, 2, 2),
    ),
    "scattered to every other": lambda: (made(tiles(32), scatter_every_other, 1, 1), (100,), (100,)),
    "scattered in pairs": lambda: (made(tiles(32), scatter_in_pairs, 1, 1), (100,), (100,)),
    "scattered around": lambda: (made(tiles(32), scatter_around, 1, 1), (100,), (100,)),
    "scattered one late": lambda: (made(tiles(32), scatter_one_late, 1, 1), (100,), (100,)),
    "scattered to one row": lambda: (made(tiles(4, 32), scatter_rows_to_one, 2, 2), (20, 64), (20, 64)),
    "reversed but one": lambda: (made(tiles(32), reversed_but_one, 1, 1), (100,), (100,)),
    "a neighbour in place": lambda: (made(tiles(32), neighbour_in_place, 1),),
    "a neighbour before, in place": lambda: (made(tiles(32), neighbour_before_in_place, 1),),
    "mirrored in place": lambda: (made(tiles(32), mirrored_in_place, 1),),
    "the row below, in place": lambda: (made(tiles(4, 32), row_below_in_place, 2),),
    "less the first, in place": lambda: (made(tiles(32), first_in_place, 1),),
    "plus an earlier one, in place": lambda: (made(tiles(32), prefix_in_place, 1),),
    "ravelled with a gap": lambda: (
        made(lambda *ts: tuple(t.tile((8,)).ravel().flatten().tile((64,), strides=(65,)) for t in ts), double, 1, 1),
        (128,), (128,),
    ),
    "half flattened with a lap": lambda: (
        made(lambda *ts: tuple(t.flatten(1, 3).tile((4, 32), strides=(4, 31)) for t in ts), double, 3, 3),
    ),
    "rows in blocks that overlap": lambda: (
        made(lambda *ts: tuple(squeezed(t.tile((8, 16), strides=(7, 16)).tile((1, -1)), 0).squeeze(1) for t in ts),
             scaled_blocks, 2, 2),
    ),
    "two results, one with a lap": lambda: (
        made(lambda x, y, z: (x.tile((32,)), y.tile((32,)), z.tile((32,), strides=(16,))), two_results, 1, 1, 1),
        (64,), (64,), (48,),
    ),
}  # fmt: skip
