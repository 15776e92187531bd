"""A process does not grow with the number of kernels and variants that it has seen."""

import gc
import subprocess
import sys
import weakref

import pytest
import torch

import ninetoothed
import ninetoothed_ops
from ninetoothed import Symbol, Tensor
from ninetoothed.backends.torch import plan
from ninetoothed.runtime import dispatch, variants
from ninetoothed_ops.kernels import conv2d

BLOCK = Symbol("BLOCK", constexpr=True)


def arrangement(x, factor, y):
    return x.tile((BLOCK,)), factor, y.tile((BLOCK,))


def application(x, factor, y):
    y = x * factor


def scale():
    return ninetoothed.make(arrangement, application, (Tensor(1), Tensor(0, constexpr=True), Tensor(1)))


def local():
    """A kernel whose functions are new each time."""

    def application(x, y):
        y = x + 1

    return ninetoothed.make(lambda x, y: (x.tile((4,)), y.tile((4,))), application, (Tensor(1), Tensor(1)))


def test_variants_are_forgotten_and_made_again(monkeypatch):
    monkeypatch.setattr(variants, "MOST_VARIANTS", 4)
    monkeypatch.setattr(variants, "MOST_CONFIGURATIONS", 4)
    kernel, x, y = scale(), torch.arange(8.0), torch.empty(8)
    for factor in (*range(7), *reversed(range(7))):
        for _ in range(2):
            kernel(x, factor, y.fill_(torch.nan), BLOCK=4)
            assert torch.equal(y, x * factor)
        assert len(dispatch.launcher_of(kernel).variants) <= 4
        assert len(dispatch.launcher_of(kernel)._variants._choices) <= 5
    assert not any(each.program.body or each.reports for each in dispatch.launcher_of(kernel).variants)


def test_sizes_of_plans_are_forgotten():
    kernel = scale()
    for size in (*range(5, 80), *range(5, 8)):
        x, y = torch.arange(float(size)), torch.empty(size)
        kernel(x, 3, y, BLOCK=4)
        assert torch.equal(y, x * 3)
    assert plan.bind.cache_info().currsize == 64


def test_kernels_of_options_are_forgotten():
    image, filters = torch.ones(1, 1, 3, 3), torch.ones(1, 1, 1, 1)
    most = conv2d.make.cache_info().maxsize
    first = weakref.ref(conv2d.make(padding=(0, 40)))
    for padding in range(most):
        conv2d.make(padding=(padding, 41))
    assert conv2d.make.cache_info().currsize == most
    ninetoothed_ops.conv2d(image, filters)
    gc.collect()
    assert first() is None


PROGRAM = """
import gc, os, time, torch
from ninetoothed.runtime import variants
from tests.ninetoothed_ops.test_remembered import local, scale

variants.MOST_VARIANTS, variants.MOST_CONFIGURATIONS = 16, 32

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

def state():
    gc.collect()
    seconds = []
    for _ in range(5):
        start = time.process_time()
        gc.collect()
        seconds.append(time.process_time() - start)
    return resident(), len(gc.get_objects()), min(seconds)

kernel, x, y = scale(), torch.ones(8), torch.empty(8)

def specialise(number):
    if number % 5 == 0:
        local()(x, y)
    else:
        kernel(x, number, y, BLOCK=4)

for number in range(100):
    specialise(number)
before = state()
for number in range(100, 220):
    specialise(number)
after = state()
print(*(b - a for a, b in zip(before, after)))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_more_specialisations_than_are_remembered():
    """Once what is remembered is full, 120 more leave at most 8 MB, and a collection takes at most 50 ms longer."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300)
    assert not done.returncode, done.stderr
    print(done.stdout)
    megabytes, objects, seconds = map(float, done.stdout.split())
    assert megabytes < 8 and objects < 6_000 and seconds < 0.05, done.stdout
