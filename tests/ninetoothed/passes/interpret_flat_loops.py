"""Run by `test_triton_interpreter` under TRITON_INTERPRET=1: nested loops that are one, against float64."""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor
from tests.ninetoothed.backends import interpreted

HEADS = 3


def arrangement(a, b, c, first):
    """Give each block of `c` the blocks of its rows of `a`, and of its columns of `b`: (heads, blocks of the depth)."""
    c = c.tile((16, 16)).unsqueeze(0)
    a = a.tile((1, 16, 16)).tile((-1, 1, -1)).expand((-1, -1, c.shape[2]))
    b = b.tile((1, 16, 16)).tile((-1, -1, 1)).expand((-1, c.shape[1], -1))
    a.dtype, b.dtype = a.dtype.squeeze(1), b.dtype.squeeze(2)
    a.dtype.dtype, b.dtype.dtype = a.dtype.dtype.squeeze(0), b.dtype.dtype.squeeze(0)
    return a, b, c, first


def nested(a, b, c, first):
    total = ntl.zeros(c.shape, dtype=ntl.float32)
    for i in range(first, a.shape[1]):
        for head in range(a.shape[0]):
            total += ntl.dot(a[head, i], b[head, i])
    c = total


def products(application):
    """A kernel of (heads, rows, depth), (heads, depth, columns), (rows, columns), and a block of the depth."""
    matrices = tuple(Tensor(3, shape_options=({"constexpr": True}, None, None)) for _ in range(2))
    parameters = *matrices, Tensor(2), Tensor(0, constexpr=True)
    return ninetoothed.make(arrangement, application, parameters, kernel_name="products")


def arguments(depth, first, heads=HEADS, rows=19, columns=37):
    a, b = (torch.randn(shape, dtype=torch.float16) for shape in ((heads, rows, depth), (heads, depth, columns)))
    return a, b, torch.full((rows, columns), float("nan")), first


def expected(a, b, c, first):
    a, b = a.double()[:, :, 16 * first :], b.double()[:, 16 * first :]
    return (a @ b).sum(0)


def check(depth, first, heads=HEADS):
    given = arguments(depth, first, heads)
    emitted = interpreted.interpret(products(nested), given)
    assert emitted.source.count(" for ") == 1, emitted.source
    error = (given[2].double() - expected(*given)).norm() / expected(*given).norm().clamp(min=1e-3)
    assert error <= 1e-3, f"depth {depth} from block {first} of {heads} heads: relative error {error}"


def main():
    torch.manual_seed(0)
    for depth, first in ((0, 0), (16, 0), (50, 0), (50, 1), (64, 3), (64, 4), (64, 5)):
        check(depth, first)
    check(40, 1, heads=1)


if __name__ == "__main__":
    main()
