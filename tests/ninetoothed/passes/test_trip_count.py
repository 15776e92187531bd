"""Loops of one round at most: which they are, and how they read."""

import itertools

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor
from ninetoothed.expr import Facts, cdiv, minimum, var
from ninetoothed.passes import trip_count
from ninetoothed.passes.trip_count import is_at_least
from ninetoothed.runtime.selection import machine
from ninetoothed_ops.kernels import sdpa, sdpa_backward_key_value

n, p = var("n"), var("p")


def arrangement(input, output):
    return input.tile((64,)).tile((-1,)), output


def text(application):
    kernel = ninetoothed.make(arrangement, application, (Tensor(1), Tensor(0)), kernel_name="total")
    source = kernel.source(torch.empty(1000), torch.empty(()), gpu=machine.H200).text
    return source[source.index("@triton.jit") :]


def loop(application):
    """The head of the last loop."""
    return [line.strip() for line in text(application).splitlines() if " for " in line][-1]


def in_two_loops(input, output):
    total = ntl.zeros((), dtype=ntl.float32)
    whole = input.source.shape[0] // 64
    for i in range(whole):
        total += ntl.sum(input[i])
    for i in range(whole, input.shape[0]):
        total += ntl.sum(input[i] * 2)
    output = total


def with_hint(input, output):
    total = ntl.zeros((), dtype=ntl.float32)
    for i in ntl.range(input.source.shape[0] // 64, input.shape[0], num_stages=4):
        total += ntl.sum(input[i])
    output = total


def with_another_hint(input, output):
    total = ntl.zeros((), dtype=ntl.float32)
    for i in ntl.range(input.source.shape[0] // 64, input.shape[0], flatten=True):
        total += ntl.sum(input[i])
    output = total


def of_two(input, output):
    total = ntl.zeros((), dtype=ntl.float32)
    for i in range(input.source.shape[0] // 128 * 2, input.shape[0]):
        total += ntl.sum(input[i])
    output = total


def of_one(input, output):
    total = ntl.zeros((), dtype=ntl.float32)
    for i in range(1):
        total += ntl.sum(input[i])
    output = total


@pytest.mark.parametrize(
    "application, expected",
    (
        (in_two_loops, "tl.range(input_size_0 // 64, tl.cdiv(input_size_0, 64), num_stages=1)"),
        (with_hint, "tl.range(input_size_0 // 64, tl.cdiv(input_size_0, 64), num_stages=4)"),
        (with_another_hint, "tl.range(input_size_0 // 64, tl.cdiv(input_size_0, 64), num_stages=1, flatten=True)"),
        (of_two, "range(input_size_0 // 128 * 2, tl.cdiv(input_size_0, 64))"),
        (of_one, "range(1)"),
    ),
)
def test_which_loops(application, expected):
    assert loop(application) == f"for i in {expected}:"


@pytest.mark.parametrize("block", (32, 64, 128))
@pytest.mark.parametrize("rows", (32, 64, 128))
def test_the_diagonal_of_attention(rows, block):
    """As many rounds are proved to be the most as there are for some size."""
    whole, end = (rows * p + 1) // block, minimum(rows * p + rows, n)
    start, stop = minimum(whole, n // block), cdiv(end, block)
    facts = Facts().bind("n", 0).bind("p", 0, cdiv(n, rows) - 1)
    most = max(
        (stop - start).evaluate({"n": size, "p": index})
        for size, index in itertools.product(range(1, 600, 3), range(5))
        if index * rows < size
    )
    assert is_at_least(start + most, stop, facts)
    assert not is_at_least(start + most - 1, stop, facts)


def test_attention_takes_fewer_registers(monkeypatch):
    pytest.importorskip("triton")
    from tests.ninetoothed_ops.kernels.test_hopper import compiled

    x = torch.empty(4, 16, 1024, 128, dtype=torch.float16)
    mask = torch.empty(1, dtype=torch.float16).expand(4, 16, 1024, 1024)
    arguments = (x, x, x, mask, 0.1, x, sdpa.NO_MASK, False)
    tile = {"blocks": (128, 128), "num_warps": 8, "num_stages": 2, "overlaps": False}
    with monkeypatch.context() as patch:
        patch.setattr(trip_count, "_is_single", lambda loop, facts: False)
        pipelined = compiled(sdpa.make(), arguments, patch, **tile)
    alone = compiled(sdpa.make(), arguments, monkeypatch, **tile)
    assert "    if j < tl.cdiv(key_size_2, 128):\n" in alone.emitted.source
    assert alone.registers < pipelined.registers and not alone.spills


def test_a_loop_that_loads_vectors_beside_tiles_of_tma_is_pipelined():
    x, sums = torch.empty(4, 16, 1024, 64, dtype=torch.float16), torch.empty(4, 16, 1024, 1)
    mask = torch.empty(1, dtype=torch.float16).expand(4, 16, 1, 1024)
    given = x, x, x, mask, torch.empty(4), 0, 0.1, 0.0, x, sums, sums, sums, x, x, sdpa.NO_MASK, True, False, False
    found = sdpa_backward_key_value.make().source(*given, gpu=machine.H200).text
    assert "for i in range(" in found and "num_stages=1" not in found and "query_desc.load" in found
