"""Tuning where there is a GPU: it changes no argument, chooses what runs, and keeps it for other processes."""

import pytest
import torch

import ninetoothed
from ninetoothed.runtime import dispatch
from ninetoothed.runtime.selection import machine, measuring
from ninetoothed_ops.kernels import add, mm

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    monkeypatch.setenv("NINETOOTHED_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("size", (256, 1000))
def test_a_product(size, directory):
    kernel = mm.make.__wrapped__()
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.float16) for _ in range(2))
    c = torch.full_like(a, float("nan"))
    chosen = ninetoothed.tune(kernel, a, b, c)
    assert torch.isnan(c).all() and len(list((directory / "tuned").iterdir())) == 1
    kernel(a, b, c)
    torch.testing.assert_close(c, a @ b, rtol=1e-2, atol=1e-1)
    assert [variant.selection.schedule for variant in dispatch.launcher_of(kernel).variants] == [chosen]
    other = mm.make.__wrapped__()
    assert ninetoothed.tune(other, a, b, c) == chosen


def test_in_place():
    kernel = add.make.__wrapped__(1)
    x = torch.randn(10_000, device="cuda")
    before = x.clone()
    ninetoothed.tune(kernel, x, x, 1.0, x)
    assert torch.equal(x, before)
    kernel(x, x, 1.0, x)
    assert torch.equal(x, 2 * before)


def test_the_clock():
    clock = measuring.Clock(machine.current(), lambda: None)
    assert 2e-4 < clock(lambda: torch.cuda._sleep(1_000_000), 3) < 1e-2
