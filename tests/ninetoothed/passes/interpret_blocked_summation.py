"""Run by `test_triton_interpreter` under TRITON_INTERPRET=1: exact products, summed up in blocks, against float64."""

from unittest import mock

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor
from ninetoothed.passes import blocked_summation
from ninetoothed.schedule import in_parts
from ninetoothed_ops.kernels import addmm, conv2d, mm
from tests.ninetoothed.backends import interpreted

EACH_ROUND, AT_ENDS = "tl.fma(tl.dot(", "part"


def empty(*shape):
    return torch.full(shape, float("nan"))


def check(title, kernel, arguments, outputs, form, parts=1):
    emitted = interpreted.interpret(kernel, arguments, blocks=(32, 32, 16), sharing=in_parts(parts))
    assert form in emitted.source, f"{title}: {emitted.source}"
    for output, expected in outputs:
        error = ((output.double() - expected).norm() / expected.norm()).item()
        assert error <= 1e-6, f"{title}: relative error {error}"


def accumulating(input, other, output):
    """The product is added by `dot` itself, to what is no zero; and rounds are counted."""
    total, rounds = ntl.full(output.shape, 1.0, dtype=ntl.float32), 0

    for k in range(input.shape[0]):
        total = ntl.dot(input[k], other[k], total)
        rounds += 1

    output = total + rounds


def two_products(input, other, output, total):
    """Two sums of one loop, one of which starts from the other's tile."""
    first, second = ntl.zeros(output.shape, dtype=ntl.float32), ntl.full(output.shape, 2.0, dtype=ntl.float32)

    for k in range(input.shape[0]):
        first += ntl.dot(input[k], other[k])
        second += ntl.dot(input[k] * 2, other[k])

    output = first
    total = second


def arrangement_of_two(input, other, output, total):
    return *mm.arrangement(input, other, output), mm.arrangement(input, other, total)[2]


def products(form):
    for m, n, k in ((33, 47, 500), (32, 64, 16), (5, 3, 1)):
        a, b, c = torch.randn(m, k), torch.randn(n, k).mT, empty(m, n)
        for parts in (1, 3):
            own = form if k > 1 else EACH_ROUND
            check(f"mm {m, n, k}", mm.make(), (a, b, c), [(c, a.double() @ b.double())], own, parts)
    c = empty(40, 50)
    check("no terms", mm.make(), (torch.empty(40, 0), torch.empty(0, 50), c), [], "tl.zeros")
    assert not c.any()
    x, a, b, c = torch.randn(70), torch.randn(50, 300), torch.randn(300, 70), empty(50, 70)
    expected = 0.5 * x.double() + 1.5 * (a.double() @ b.double())
    check("addmm", addmm.make(), (x.expand(50, 70), a, b, 0.5, 1.5, c), [(c, expected)], form)


def users(form):
    a, b, c, d = torch.randn(40, 200), torch.randn(200, 50), empty(40, 50), empty(40, 50)
    product = a.double() @ b.double()
    kernel = ninetoothed.make(mm.arrangement, accumulating, tuple(Tensor(2) for _ in range(3)))
    check("dot(a, b, total)", kernel, (a, b, c), [(c, product + 1 + 13)], form)
    kernel = ninetoothed.make(arrangement_of_two, two_products, tuple(Tensor(2) for _ in range(4)))
    check("two products", kernel, (a, b, c, d), [(c, product), (d, 2 * product + 2)], form)


def convolutions(form):
    x, w, y = torch.randn(2, 5, 9, 8), torch.randn(7, 5, 3, 3), empty(2, 7, 7, 6)
    check("conv2d", conv2d.make(), (x, w, torch.randn(7), y, False), [(y, F.conv2d(x.double(), w.double()))], form)


if __name__ == "__main__":
    torch.manual_seed(0)
    # How many rounds there are is known for a convolution alone.
    convolutions(EACH_ROUND)
    for rounds in (96, 2):
        with mock.patch.object(blocked_summation, "ROUNDS_PER_BLOCK", rounds):
            for run in (products, users):
                run(AT_ENDS)
    with mock.patch.object(blocked_summation, "ROUNDS_PER_BLOCK", 2):
        convolutions(AT_ENDS)
