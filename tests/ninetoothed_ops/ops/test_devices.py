"""Operators on several GPUs: each call runs where its tensors are, whichever device is the current one."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import ninetoothed_ops as ops
from tests.ninetoothed_ops.samples import OPERATORS, operator, samples

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")]

DEVICES = ("cuda:1", "cuda:0")


@pytest.fixture(params=(0, 1), ids=("first current", "second current"))
def current(request):
    with torch.cuda.device(request.param):
        yield request.param


@pytest.mark.parametrize("name, label", [(name, next(iter(samples(name)))) for name in OPERATORS])
def test_equal_bits(name, label, current):
    sample = samples(name, torch.float16)[label]
    first = sample.map(lambda tensor: tensor.to("cuda:0")).call(operator(name))
    # Calls are recorded, and then written out: more than two take all the ways.
    for device in DEVICES * 3:
        actual = sample.map(lambda tensor, device=device: tensor.to(device)).call(operator(name))
        assert actual.device == torch.device(device)
        torch.testing.assert_close(actual.to("cuda:0"), first, rtol=0, atol=0, equal_nan=True)
    assert torch.cuda.current_device() == current


@pytest.mark.parametrize("size", ((512, 512, 8192), (1032, 4096, 4096), (4096, 4096, 4096)), ids=str)
def test_parts_of_sums_meet_on_each_device(size, current):
    m, n, k = size
    a, b = (torch.randn(*shape, device="cuda:0", dtype=torch.float16) for shape in ((m, k), (k, n)))
    first = ops.mm(a, b)
    operands = {device: (a.to(device), b.to(device)) for device in DEVICES}
    results = [ops.mm(*operands[device]) for _ in range(10) for device in DEVICES]
    assert all(torch.equal(result.to("cuda:0"), first) for result in results)


def test_tensors_of_two_devices():
    x = torch.randn(64, device="cuda:0")
    with pytest.raises(RuntimeError, match="cuda:0 and cuda:1|cuda:1 and cuda:0|same device"):
        ops.add(x, x.to("cuda:1"))


def test_threads_with_devices_of_their_own():
    x = torch.randn(1021, 1000, device="cuda:0", dtype=torch.float16)
    first = ops.softmax(x, -1)

    def work(number):
        with torch.cuda.device(number % 2):
            mine = x.to(f"cuda:{number % 2}")
            results = [ops.softmax(mine, -1) for _ in range(50)]
            torch.cuda.synchronize()
            return all(torch.equal(result.to("cuda:0"), first) for result in results)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(16)))
