"""`kernel.profile`: its error without a GPU, and its text and plot by a clock of the test's own."""

import pytest
import torch

import ninetoothed
from ninetoothed import Tensor, UnsupportedError
from ninetoothed.seeing.profile import profile


def kernel():
    def copy(x, y):
        y = x

    return ninetoothed.make(lambda x, y: (x.tile((64,)), y.tile((64,))), copy, (Tensor(1), Tensor(1)))


def test_without_a_gpu_it_is_an_error():
    with pytest.raises(UnsupportedError, match="measures on a GPU"):
        kernel().profile(torch.empty(9), torch.empty(9))


def test_text_and_plot(tmp_path, capsys):
    x, y = torch.ones(1000), torch.zeros(1000)
    found = profile(kernel(), (x, y), {}, lambda run: run() or 4.0)
    assert found.median == 4.0 and bool((y == 0).all()) and "measuring" in capsys.readouterr().err
    assert str(found).startswith("copy: 4 us (median of 50)") and "chosen" in str(found)
    assert found.least == pytest.approx(8000 / 4.8e6)
    pytest.importorskip("matplotlib", reason="plots need matplotlib")
    found.plot(tmp_path / "times.png")
    assert (tmp_path / "times.png").stat().st_size > 1000
