"""Sums of two products: which of them is the multiplication of the FMA, whatever the schedule."""

import re

import pytest
import torch

import ninetoothed
from ninetoothed import Tensor
from ninetoothed.runtime.selection import machine
from tests.conftest import needs_triton
from tests.ninetoothed.applications import application_of

BODIES = {
    "y = a * b + b * c": "tl.fma(a, b, b * c)",
    "y = a * b - b * c": "tl.fma(a, b, -(b * c))",
    # A row's product has fewer elements.
    "y = r * r + a * b": "tl.fma(a, b, (r * r)[None, :])",
    "y = r * r - a * b": "tl.fma(-a, b, (r * r)[None, :])",
    # What something else reads is computed anyway.
    "t = a * b\ny = t + b * c + ntl.exp(t)": "tl.fma(b, c, t) + tl.exp(t)",
    # The compiler has no choice.
    "y = a * b + c": "a * b + c",
    "y = a * b + b * c + c * a": "tl.fma(a, b, b * c) + c * a",
}


def make(body, dtype=None):
    def arrangement(a, b, c, r, y):
        a, b, c, y = (each.tile((4, 64)) for each in (a, b, c, y))
        r = r.tile((64,)).unsqueeze(0).expand((a.shape[0], -1))
        return a, b, c, r, y

    application = application_of(body, *"abcry")
    tensors = *(Tensor(2, dtype=dtype) for _ in "abc"), Tensor(1, dtype=dtype), Tensor(2, dtype=dtype)
    return ninetoothed.make(arrangement, application, tensors)


def arguments(dtype, device="cpu"):
    a, b, c = (torch.randn(9, 130, device=device).to(dtype) for _ in "abc")
    return a, b, c, torch.randn(130, device=device).to(dtype), torch.full_like(a, float("nan"))


@needs_triton
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
def test_the_same_product_is_contracted(body, dtype):
    text = make(body).source(*arguments(dtype), gpu=machine.H200).text
    assert re.search(rf"[ (]{re.escape(BODIES[body])}", text), text


@needs_triton
@pytest.mark.parametrize("dtype", (torch.float16, torch.int32))
def test_what_has_no_fma_stays(dtype):
    tensors = (each.to(dtype) for each in arguments(torch.float32))
    text = make("y = a * b + b * c").source(*tensors, gpu=machine.H200).text
    assert "fma" not in text


@pytest.mark.parametrize("body", BODIES)
def test_results(body, device):
    a, b, c, r, y = arguments(torch.float32, device)
    make(body)(a, b, c, r, y)
    names = {"torch": torch} | {name: each.double() for name, each in zip("abcr", (a, b, c, r), strict=True)}
    exec(body.replace("ntl", "torch"), names)
    torch.testing.assert_close(y.double(), names["y"], rtol=1e-4, atol=1e-5)
