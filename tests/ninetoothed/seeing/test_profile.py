"""`kernel.profile`: its error without a GPU, and its text and plot by a clock of the test's own."""

import re

import pytest
import torch

import ninetoothed
from ninetoothed import Tensor, UnsupportedError
from ninetoothed.runtime.dispatch import launcher_of
from ninetoothed.runtime.estimates import Estimates
from ninetoothed.runtime.selection import machine
from ninetoothed.seeing.profile import Profile, profile
from ninetoothed_ops.kernels import mm


def copy(x, y):
    y = x


def kernel():
    return ninetoothed.make(lambda x, y: (x.tile((64,)), y.tile((64,))), copy, (Tensor(1), Tensor(1)))


def test_without_a_gpu_it_is_an_error():
    with pytest.raises(UnsupportedError, match="measures on a GPU"):
        kernel().profile(torch.empty(9), torch.empty(9))


def test_text_and_plot(tmp_path, capsys):
    x, y = torch.ones(1000), torch.zeros(1000)
    found = profile(kernel(), (x, y), {}, lambda run: run() or 4.0)
    assert found.median == 4.0 and bool((y == 0).all()) and "measuring" in capsys.readouterr().err
    assert str(found).startswith("copy: 4 us (median of 50)") and "chosen" in str(found)
    assert (
        found.least == pytest.approx(8000 / 4.8e6) and 3.4 < found.estimate < 3.5 and "% of the roofline" in str(found)
    )
    pytest.importorskip("matplotlib", reason="plots need matplotlib")
    found.plot(tmp_path / "times.png")
    assert (tmp_path / "times.png").stat().st_size > 1000


def test_a_product_beside_its_estimate(tmp_path):
    """That of 4096^3 in float16 takes some 180 us on an H200; memory alone would allow a tenth."""
    kernel = mm.make()
    variant = launcher_of(kernel).trace((torch.empty(4096, 4096, dtype=torch.float16),) * 3, {}, machine.H200)
    estimates = Estimates(variant.selection, machine.H200)
    found, estimate = estimates.roofline(), estimates.of(variant.selection.schedule).time
    assert found.moving == pytest.approx(3 * 2 * 4096**2 / 4.8e6) and not found.special
    assert found.moving < found.time == found.multiplying <= estimate < 220
    profile = Profile("mm", (200.0,) * 3, found.time, estimate, "")
    assert re.match(r"mm: 200 us \(median of 3\), estimated 1\d\d us, \d\d % of the roofline", str(profile))
    pytest.importorskip("matplotlib", reason="plots need matplotlib")
    profile.plot(tmp_path / "times.svg")
    assert "stroke-dasharray" in (tmp_path / "times.svg").read_text()


def test_tensors_of_one_size_are_all_counted():
    """Their sizes go by the names of one."""
    one = Tensor(1)
    kernel = ninetoothed.make(lambda x, y: (x.tile((64,)), y.tile((64,))), copy, (one, one))
    assert "take 0.00167 us to move" in kernel.explain(torch.empty(1000), torch.empty(1000), gpu="h200")
