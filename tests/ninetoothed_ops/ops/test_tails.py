"""Products whose tiles are more than whole waves of programs, on a GPU: the parts of what is left over meet.

`tests/ninetoothed/passes/interpret_split_k.py` has the same without a GPU, for small waves.
"""

import pytest
import torch

import ninetoothed_ops as ops
from tests.conftest import error

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]

SIZES = ((3072, 3072, 3072), (1152, 4096, 4096), (1032, 4096, 4096), (2304, 4096, 1000), (4104, 4104, 4104))


def operands(m, n, k, dtype=torch.float16):
    return torch.randn(m, k, device="cuda", dtype=dtype), torch.randn(k, n, device="cuda", dtype=dtype)


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_products(size, dtype):
    a, b = operands(*size, dtype)
    addend = torch.randn(size[1], device="cuda", dtype=dtype)
    expected, tolerance = a.double() @ b.double(), 1e-3 if dtype == torch.float16 else 6e-3
    assert error(ops.mm(a, b), expected) < tolerance
    assert error(ops.mm(a, b.mT.contiguous().mT), expected) < tolerance
    expected = 0.5 * addend.double() + 1.5 * expected
    assert error(ops.addmm(addend, a, b, beta=0.5, alpha=1.5), expected) < tolerance


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_equal_calls_give_equal_bits(size):
    a, b = operands(*size)
    first = ops.mm(a, b)
    assert all(torch.equal(ops.mm(a, b), first) for _ in range(30))


def test_several_streams_have_memory_of_their_own():
    a, b = operands(1152, 4096, 4096)
    first = ops.mm(a, b)
    streams, results = [torch.cuda.Stream() for _ in range(3)], []
    torch.cuda.synchronize()
    for i in range(30):
        with torch.cuda.stream(streams[i % 3]):
            results.append(ops.mm(a, b))
    torch.cuda.synchronize()
    assert all(torch.equal(result, first) for result in results)


def test_graphs_are_replayed():
    a, b = operands(1152, 4096, 4096)
    first = ops.mm(a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = ops.mm(a, b), ops.mm(a, b)
    for _ in range(5):
        for result in results:
            result.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        assert all(torch.equal(result, first) for result in results)
