"""Code as users write it. pyright must accept all of it, but for the lines that name a rule of its own as an error."""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Symbol, Tensor, block_size

BLOCK = block_size()
ROWS = block_size(lower_bound=16, upper_bound=64)
SIZE = Symbol("SIZE", constexpr=True)


# Functions whose parameters are annotated with arranged tensors.


@ninetoothed.jit
def multiply(x: Tensor(1).tile((BLOCK,)), y: Tensor(1).tile((BLOCK,)), z: Tensor(1).tile((BLOCK,))):
    z = ntl.exp(x) * y


@ninetoothed.jit(num_warps=4, kernel_name="halved")
def halve(x: Tensor(1).tile((BLOCK,)), y: Tensor(1).tile((BLOCK,))):
    y = x / 2


multiply(torch.ones(3), torch.ones(3), torch.empty(3))
halve(torch.ones(3), torch.empty(3))
print(halve.source(torch.ones(3), torch.empty(3), gpu="h100"))
halve.sauce(torch.ones(3))  # error: reportAttributeAccessIssue


# An arrangement and an application.


def arrangement(a, b, c, M=block_size(), N=block_size(), K=block_size()):
    c = c.tile((M, N))
    a = a.tile((M, K)).tile((1, -1)).expand((-1, c.shape[1]))
    b = b.tile((K, N)).tile((-1, 1)).expand((c.shape[0], -1))
    a.dtype, b.dtype = a.dtype.squeeze(0), b.dtype.squeeze(1)
    return a, b, c


def application(a, b, c):
    total = ntl.zeros(c.shape, dtype=ntl.float32)

    for k in range(a.shape[0]):
        total += ntl.dot(a[k], b[k])

    c = total.to(ntl.float16)


mm = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(2), Tensor(2)), num_warps=(4, 8))
mm(torch.ones(2, 3), torch.ones(3, 4), torch.empty(2, 4), SIZE=64)


# Arrangements with types.


def windows(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    tiled = x.pad(((1, 1),)).tile((3,), strides=(1,), dilation=(1,), floor_mode=True)
    tiled = tiled.tile(None, loop=0).tile((None, 2), loop={1: BLOCK})
    tiled = tiled.unsqueeze(0).squeeze(0).permute((0,)).flatten(0, 1).expand((-1,))
    tiled.dtype = tiled.dtype.squeeze(())
    tiled = tiled.unsqueeze(0).tile(1, -1).squeeze(0, 1).expand(4, -1, BLOCK).permute(1, 0).tile(2, "n", strides=(1, 1))
    is_long = (x.shape[0] > 4) & (x.shape[1] <= 2 * x.shape[0])
    assert isinstance(is_long, bool) or is_long.subs({"n": 1}) and x.innermost().offsets(0)
    length = (x.shape[0] + 2 * BLOCK - 1) // BLOCK % 7
    return tiled, y.tile((length,))[1:].ravel()


def mistaken(x: Tensor) -> Tensor:
    x.tiled((BLOCK,))  # error: reportAttributeAccessIssue
    x.permute(1.5, 0)  # error: reportArgumentType
    return x.tile((BLOCK,), stride=(1,))  # error: reportCallIssue


# Applications with types.


def softmax(x: ntl.Tile, y: ntl.Tile, scale: ntl.Tile):
    numerator = ntl.exp(x * scale - ntl.max(x, axis=1, keep_dims=True))
    y = numerator / numerator.sum(1, keep_dims=True)


def attributes(x: ntl.Tile, y: ntl.Tile):
    rows, columns = x.offsets(0), x.offsets(-1)
    visible = rows[:, None] < columns[None, :]
    y = ntl.where(visible & (rows[:, None] > 1), x, float("-inf"))
    y[0] = x[1] + x.source[rows, columns] * x.source.shape[0] // x.source.stride(0)
    y = x.T if x.shape[0] == x.dtype.shape[0] else x.to(x.dtype.dtype)


def python(x: ntl.Tile, y: ntl.Tile):
    first = ntl.min(x.offsets(0))
    stop = min(first + x.shape[0], x.source.shape[0])
    for i in range(first, ntl.cdiv(stop, 2)):
        y = abs(x) ** i + max(x, 0) + sum([x, x]) + round(x) + (1 - x) @ y
    for i in ntl.static_range(3):
        y = y + (x if i else -x)
    flags = not x or (x > 1 and x <= 3)
    total = ntl.sum(x)
    while total > 1:
        total /= 2


def several(x: ntl.Tile, y: ntl.Tile, precision: ntl.constexpr = "ieee"):
    even, odd = ntl.split(x.reshape(-1, 2))
    greatest, place = ntl.max(even, axis=0, return_indices=True)
    y = ntl.dot(even, odd, input_precision=precision) + greatest + ntl.reduce(x, 0, lambda a, b: a * b)
    y = ntl.libdevice.atan2(y, 1.0) + ntl.math.exp(place) + ntl.maximum(x, y, ntl.PropagateNan.ALL)
    y = ntl.cast(x, torch.float16) + x.to(float) + ntl.zeros((4, 4)) + ntl.full(x.shape, 1, x.dtype)
    ntl.atomic_add(y.source.data_ptr() + x.to(ntl.int32) % 3, 1.0, mask=x > 0)
    ntl.store(y.source.data_ptr() + y.offsets(), ntl.load(x.data_ptr()))
    ntl.device_print("x", x)


# Mistakes.


def misspelt(x: ntl.Tile, y: ntl.Tile):
    y = ntl.expp(x)  # error: reportAttributeAccessIssue
    y = x.summ()  # error: reportAttributeAccessIssue
    y = ntl.libdevice.acoss(x)  # error: reportAttributeAccessIssue
    y = ntl.math.tann(x)  # error: reportAttributeAccessIssue
    y = x.to(ntl.float31)  # error: reportAttributeAccessIssue
    y = x.source.shapes  # error: reportAttributeAccessIssue
    y = ntl.sum(x, axes=1)  # error: reportCallIssue
    y = ntl.where(x)  # error: reportCallIssue
    y = ntl.exp("x")  # error: reportArgumentType
    y = ntl.zeros(x.shape, dtype="float32")  # error: reportArgumentType
    even, odd, third = ntl.split(x)  # error: reportAssignmentType


ninetoothed.makes(arrangement, application, ())  # error: reportAttributeAccessIssue
ninetoothed.make(arrangement, application)  # error: reportCallIssue
block_size(lower=16)  # error: reportCallIssue
Symbol("SIZE", constexp=True)  # error: reportCallIssue
Tensor(2, shapes=(3, 4))  # error: reportCallIssue
