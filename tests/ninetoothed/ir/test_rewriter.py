"""Operations are rebuilt with the blocks in them, clones with values of their own."""

from dataclasses import replace

import torch

import ninetoothed.language as ntl
from ninetoothed import Tensor, ir, make
from ninetoothed.ir.verify import verify
from tests.ninetoothed.ir.test_printer import after_passes


def nested(x, n, y):
    total = ntl.zeros((8,), dtype=ntl.float32)
    for k in range(n):
        count = k
        while count < n:
            if count == 3:
                total += x[count]
                print("three", total)
            else:
                total += x[k]
            count += 2
    y[n] = total


def program():
    def arrangement(x, n, y):
        return x.tile((8,)).tile((-1,)), n, y.tile((8,)).tile((-1,))

    kernel = make(arrangement, nested, (Tensor(1), Tensor(0), Tensor(1)))
    return after_passes(kernel, torch.zeros(64), 5, torch.zeros(64))


def defined(block):
    """The values that the operations of a block define, inside and outside of them."""
    operations = list(ir.walk(block))
    arguments = (value for each in operations for value in getattr(each, "arguments", ()))
    return {*arguments, *(value for each in operations for value in ir.results(each))}


def test_clones_of_loops_and_branches_have_values_of_their_own():
    old = program()
    clone = ir.Cloner().block(old.body)
    assert defined(old.body).isdisjoint(defined(clone))
    assert ir.print_program(replace(old, body=clone)) == ir.print_program(old)
    verify(replace(old, body=(*old.body, *clone)))


def test_clones_read_what_stands_for_a_value_in_all_blocks():
    old = program()
    first, *rest = old.body
    assert any(first.result in ir.operands(each) for each in ir.walk(tuple(rest)))
    other = ir.Value(first.result.type)
    clone = ir.Cloner(values={first.result: other}).block(tuple(rest))
    assert not any(first.result in ir.operands(each) for each in ir.walk(clone))
    verify(replace(old, body=(*ir.Rewriter(values={first.result: other}).block((first,)), *clone)))


def test_what_nothing_changes_in_stays_the_same():
    old = program()
    assert ir.Rewriter().block(old.body) == old.body


class WithoutPrints(ir.Rewriter):
    def operation(self, operation):
        return () if isinstance(operation, ir.Print) else (self.rebuilt(operation),)


def test_a_pass_replaces_operations_in_all_blocks():
    old = program()
    new = WithoutPrints().block(old.body)
    before, after = ([type(each) for each in ir.walk(block)] for block in (old.body, new))
    before.remove(ir.Print)
    assert before == after
