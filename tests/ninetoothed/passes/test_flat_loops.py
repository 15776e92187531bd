"""Nested loops over products that are one: how that reads, when they stay two, and that results are the same."""

import expecttest
import pytest

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor
from ninetoothed.runtime.selection import machine
from tests.ninetoothed.passes.interpret_flat_loops import arguments, arrangement, expected, nested, products


def loops(kernel, *given):
    """The lines of all loops, from their heads to where the first tile is loaded."""
    lines = kernel.source(*given, gpu=machine.H200).text.splitlines()
    first = next(i for i, line in enumerate(lines) if " for " in line)
    return "\n".join(lines[first : next(i for i, line in enumerate(lines) if "tl.load" in line)])


def between(a, b, c, first):
    total = ntl.zeros(c.shape, dtype=ntl.float32)
    for i in range(first, a.shape[1]):
        total *= 2
        for head in range(a.shape[0]):
            total += ntl.dot(a[head, i], b[head, i])
    c = total


def up_to_the_outer_one(a, b, c, first):
    total = ntl.zeros(c.shape, dtype=ntl.float32)
    for i in range(first, a.shape[1]):
        for head in range(min(i, 3)):
            total += ntl.dot(a[head, i], b[head, i])
    c = total


def swapped(a, b, c, first):
    total, other = ntl.zeros(c.shape, dtype=ntl.float32), ntl.zeros(c.shape, dtype=ntl.float32)
    for i in range(first, a.shape[1]):
        for head in range(a.shape[0]):
            total += ntl.dot(a[head, i], b[head, i])
        total, other = other, total
    c = total + 2 * other


def hinted(a, b, c, first):
    total = ntl.zeros(c.shape, dtype=ntl.float32)
    for i in range(first, a.shape[1]):
        for head in ntl.range(a.shape[0], num_stages=2):
            total += ntl.dot(a[head, i], b[head, i])
    c = total


class TestText(expecttest.TestCase):
    def test_of_one_loop(self):
        self.assertExpectedInline(
            loops(products(nested), *arguments(50, 1)),
            """\
    for step in range(tl.cdiv(a_size_2, 16) * 3 - 3):
        i = step // 3 + 1
        head = step % 3""",
        )

    def test_one_round_is_no_loop(self):
        self.assertExpectedInline(
            loops(products(nested), *arguments(50, 1, heads=1)),
            """    for i in range(1, tl.cdiv(a_size_2, 16)):""",
        )


@pytest.mark.parametrize("application", (between, up_to_the_outer_one, swapped, hinted))
def test_loops_that_stay_two(application):
    assert loops(products(application), *arguments(50, 0)).count("for ") == 2


def test_numbers_of_rounds_that_may_not_fit_into_32_bits():
    """A start that a call gives may be any number."""
    matrices = tuple(Tensor(3, shape_options=({"constexpr": True}, None, None)) for _ in range(2))
    kernel = ninetoothed.make(arrangement, nested, (*matrices, Tensor(2), Tensor(0)))
    assert loops(kernel, *arguments(50, 1)).count("for ") == 2


@pytest.mark.parametrize("heads, first", ((3, 0), (3, 2), (1, 1), (3, 9)))
def test_results(heads, first, device):
    a, b, c, first = arguments(50, first, heads)
    given = a.to(device), b.to(device), c.to(device), first
    products(nested)(*given)
    assert (given[2].cpu().double() - expected(a, b, c, first)).norm() <= 1e-3 * expected(a, b, c, 0).norm()
