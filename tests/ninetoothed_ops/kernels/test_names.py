"""Every name in an emitted kernel means something by the time it is read, whatever the sizes and options."""

import ast
import builtins
import itertools

import pytest
import torch

from ninetoothed.runtime.selection import machine
from ninetoothed_ops.kernels import bmm, conv2d, mm, rope, sdpa


def check(source):
    """Walk a kernel from top to bottom; what only a loop or a branch has assigned is not known after it."""
    module = ast.parse(source)
    known = {
        *dir(builtins),
        *(alias.asname or alias.name for node in module.body for alias in getattr(node, "names", ())),
    }
    for function in (node for node in module.body if isinstance(node, ast.FunctionDef)):
        known.add(function.name)
    for function in (node for node in module.body if isinstance(node, ast.FunctionDef)):
        _block(function.body, known | {"triton", "tl", "libdevice"} | {argument.arg for argument in function.args.args})


def _block(block, known):
    for statement in block:
        match statement:
            case ast.Assign(targets=targets, value=value):
                _reads(value, known)
                known |= {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
            case ast.For(target=target, iter=iterator, body=body):
                _reads(iterator, known)
                _block(body, known | {target.id})
            case ast.If(test=test, body=body, orelse=other):
                _reads(test, known)
                _block(body, set(known))
                _block(other, set(known))
            case ast.While(test=test, body=body):
                _reads(test, known)
                _block(body, set(known))
            case _:
                _reads(statement, known)


def _reads(node, known):
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
    assert names <= known, f"{names - known} in `{ast.unparse(node)}`"


def text(kernel, *arguments):
    return kernel.source(*arguments, gpu=machine.H200).text


def half(*shape):
    return torch.empty(shape, dtype=torch.float16)


def test_the_check_can_fail():
    with pytest.raises(AssertionError, match="'y'"):
        check("def kernel(x):\n    for i in range(x):\n        y = x\n    z = y\n")


@pytest.mark.parametrize(
    "padding, stride, dilation, is_last",
    ((0, 1, 1, False), (1, 1, 1, True), (1, 2, 1, False), (2, 1, 2, True), (3, 2, 2, False)),
)
def test_convolutions(padding, stride, dilation, is_last):
    for n, c, size, k, kernel in ((16, 128, 56, 128, 3), (3, 32, 17, 48, 3), (8, 64, 16, 64, 1)):
        out = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
        arguments = [half(n, c, size, size), half(k, c, kernel, kernel), half(k), half(n, k, out, out)]
        if is_last:
            arguments = [x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else x for x in arguments]
        made = conv2d.make((stride, stride), (padding, padding), (dilation, dilation))
        for biased in (False, True) if size == 17 else (True,):
            check(text(made, *arguments, biased))


def test_products_and_attention():
    for m, n, k in itertools.product((16, 100, 2048), repeat=3):
        if len({m, n, k}) == 2:
            check(text(mm.make(), half(m, k), half(k, n), half(m, n)))
        if len({m, n, k}) == 3:
            check(text(bmm.make(), half(3, m, k), half(3, k, n), half(3, m, n)))
    for length, depth, is_causal in ((100, 24, True), (100, 128, False), (1024, 64, True), (1024, 128, False)):
        q, mask = half(2, 4, length, depth), half(1).expand(2, 4, length, length)
        for masking in (sdpa.NO_MASK, sdpa.ADDITIVE_MASK):
            check(text(sdpa.make(), q, q, q, mask, 0.1, q, masking, is_causal))


def test_rope():
    x = half(2, 30, 4, 64)
    for interleaved, whole in itertools.product((False, True), repeat=2):
        table = half(2, 30, 2 if whole else 1, 32)
        check(text(rope.make(interleaved), x, table, table, x))
