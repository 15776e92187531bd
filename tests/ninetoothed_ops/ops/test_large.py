"""Large tensors on a GPU: right beyond 2^31 elements, the same bits in every run, no matrix of queries by keys."""

import pytest
import torch
import torch.nn.functional as F

from benchmarks import gradients, peers, tasks
from tests.conftest import DEVICE
from tests.ninetoothed_ops.samples import random

ops = torch.ops.ninetoothed
LEAST, MEMORY = 2**31, 60 * 2**30
ROWS = 3
# The shape of a row of the first input, of which each row of the result comes; our function, PyTorch's; other inputs.
CASES = {
    "add": ((2048,), ops.add, torch.add, lambda: [random(2048)]),
    "silu": ((2048,), ops.silu, F.silu, list),
    "softmax": ((2048,), lambda x: ops.softmax(x, 1), lambda x: torch.softmax(x, 1), list),
    "rms_norm": (
        (2048,),
        lambda x, weight: ops.rms_norm(x, [2048], weight, 1e-3),
        lambda x, weight: F.rms_norm(x, [2048], weight, 1e-3),
        lambda: [random(2048)],
    ),
    "rope": ((256, 16, 64), ops.rope, tasks.load("rope").eager, lambda: [random(256, 32), random(256, 32)]),
    "mm": ((16392,), ops.mm, torch.mm, lambda: [random(16392, 16)]),
    "mm, large result": ((16,), ops.mm, torch.mm, lambda: [random(16, 16392)]),
    "bmm": ((128, 64), ops.bmm, torch.bmm, lambda: []),
    "conv2d": (
        (8, 128, 128),
        lambda x, weight: ops.conv2d(x, weight, None, [1, 1], [1, 1]),
        lambda x, weight: F.conv2d(x, weight, padding=1),
        lambda: [random(8, 8, 3, 3)],
    ),
    "sdpa": ((16, 256, 64), ops.sdpa, F.scaled_dot_product_attention, lambda: []),
}


def rows_of(name):
    """Choose as many rows as make the input, or the result, larger than an offset of 32 bits can reach."""
    shape = CASES[name][0]
    size = 16392 if name == "mm, large result" else torch.Size(shape).numel()
    return LEAST // size + ROWS


def with_ends(rows, shape):
    """Zeros, but for the first and the last rows."""
    tensor = torch.zeros(rows, *shape, dtype=torch.float16, device=DEVICE)
    tensor[:ROWS], tensor[-ROWS:] = (random(ROWS, *shape, dtype=torch.float16) for _ in range(2))
    return tensor


def ends(tensor):
    return torch.cat((tensor[:ROWS], tensor[-ROWS:]))


pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


@pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_properties(0).total_memory < MEMORY,
    reason="needs a GPU with 60 GiB",
)
@pytest.mark.parametrize("name", CASES)
def test_first_and_last_rows(name):
    """Of tensors that are 0 elsewhere, with a gradient that is, too."""
    shape, ours, theirs, make_others = CASES[name]
    rows, others = rows_of(name), [each.half() for each in make_others()]
    batched = [with_ends(rows, shape)]
    if name == "bmm":
        batched.append(with_ends(rows, shape[::-1]))
    if name == "sdpa":
        batched += [with_ends(rows, shape) for _ in range(2)]
    # The tables of a rotation are not learnt.
    learnt = len(batched) if name == "rope" else len(batched) + len(others)
    small = [*map(ends, batched), *others]
    inputs, wide = [*batched, *others], [each.double() for each in small]
    for each in (*inputs[:learnt], *wide[:learnt]):
        each.requires_grad_()
    result, expected = ours(*inputs), theirs(*wide)
    grad = torch.zeros_like(result)
    grad[:ROWS], grad[-ROWS:] = random(*expected.shape, dtype=torch.float16).chunk(2)
    found = torch.autograd.grad(result, inputs[:learnt], grad)
    wanted = torch.autograd.grad(expected, wide[:learnt], ends(grad).double())

    assert max(each.numel() for each in (result, *inputs)) > LEAST
    pairs = [(ends(result), expected), *((ends(a) if len(a) == rows else a, b) for a, b in zip(found, wanted))]
    for actual, exact in pairs:
        assert actual.shape == exact.shape
        assert (actual.double() - exact).norm() <= 2e-3 * exact.norm()


@pytest.mark.parametrize("name", (*tasks.NAMES, *tasks.MORE))
def test_gradients_have_the_same_bits_in_every_run(name):
    task = tasks.load(name)
    args, kwargs = tasks.arguments(task, "paper", torch.float16, DEVICE)
    leaves, grad = gradients._leaves(task, args), gradients._grad(task, args, kwargs)
    first, *others = (gradients._step(peers.ours(task), leaves, kwargs, grad) for _ in range(4))
    assert all(torch.equal(*pair) for other in others for pair in zip(first, other))


def test_attention_keeps_no_number_for_each_query_and_key():
    length = 2**15
    query, key, value = (torch.zeros(1, 1, length, 64, device=DEVICE, dtype=torch.float16) for _ in range(3))
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    leaves = [each.requires_grad_() for each in (query, key, value)]
    torch.autograd.grad(ops.sdpa(*leaves), leaves, torch.zeros_like(query))
    assert torch.cuda.max_memory_allocated() - before < length**2 / 8
