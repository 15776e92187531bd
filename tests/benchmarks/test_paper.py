"""The paper's table and figures are made in one go, of committed results where there is no GPU."""

import re

import pytest
import torch

pytest.importorskip("radon")
pytest.importorskip("matplotlib")

import ninetoothed
from benchmarks import code, paper
from ninetoothed import Tensor
from ninetoothed_ops.kernels import mm


def test_all_in_one_go(tmp_path):
    assert paper.main([str(tmp_path), "--committed"]) == 0
    page = (tmp_path / "README.md").read_text()
    pictures = re.findall(r"\]\((.*?)\)", page)
    assert {name.removesuffix(".png") for name in pictures} == {
        "figure-4", "figure-5", "figure-6", "figure-7", *(f"figure-2-{name}" for name in paper.META_OPERATIONS)
    }  # fmt: skip
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in pictures)
    assert all(page.count(f"\n| {name} ") == 4 for name in code.PAPER)
    assert page.count("Measured on NVIDIA H200, PyTorch 2.") == 2


def test_the_convolution_that_is_drawn_is_one():
    kernel = ninetoothed.make(paper.convolution, mm.application, (Tensor(4), Tensor(4), Tensor(4)))
    image, filters = torch.randn(2, 3, 9, 8), torch.randn(5, 3, 3, 2)
    output = torch.full((2, 5, 7, 7), float("nan"))
    kernel(image, filters, output, M=16, N=16, K=16)
    expected = torch.nn.functional.conv2d(image.double(), filters.double())
    torch.testing.assert_close(output.double(), expected, rtol=1e-4, atol=1e-4)
