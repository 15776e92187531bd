"""The expressions that errors name for functions of PyTorch's compute what these do, in float64."""

import re

import numpy
import pytest
import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor
from ninetoothed.frontend.remedies import for_function
from ninetoothed.language.functions import FUNCTIONS
from ninetoothed.language.instead import FORMULAS, INSTEAD
from tests.conftest import DEVICE
from tests.ninetoothed.applications import application_of

# The functions whose names are not PyTorch's, or that take more.
REFERENCES = {
    "elu": F.elu,
    "empty_like": torch.zeros_like,
    "layer_norm": lambda x: F.layer_norm(x, x.shape),
    "log_softmax": lambda x: x.log_softmax(0),
    "logsumexp": lambda x: x.logsumexp(0),
    "negative": torch.neg,
    "power": torch.pow,
    "rms_norm": lambda x: F.rms_norm(x, x.shape, eps=1e-6),
    "stack": lambda x, y: torch.stack((x, y), -1),
    "swish": F.silu,
    "transpose": lambda x: x.mT,
}
MATRICES = ("bmm", "matmul", "mm", "transpose", "tril", "triu")


def arguments(name):
    shape = (3, 3) if name in MATRICES else (9,)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return x, torch.rand(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64) + 0.5


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas(name):
    x, y = arguments(name)
    if name == "power":
        x = x.abs()
    reference = REFERENCES.get(name) or getattr(F, name, None) or getattr(torch, name)
    takes_two = re.search(r"\by\b", FORMULAS[name]) is not None
    if name == "bmm":
        expected = torch.bmm(x[None], y[None])[0]
    else:
        expected = reference(*(x, y)[: 1 + takes_two])
    z = torch.full(expected.shape or (1,), float("nan"), dtype=torch.float64)
    tensors = [Tensor(each.ndim, shape_options={"constexpr": True}) for each in (x, y, z)]
    application = application_of(f"z = {FORMULAS[name]}", "x", "y", "z")
    ninetoothed.make(lambda *ts: tuple(t.tile((-1,) * t.ndim) for t in ts), application, tensors)(
        *(given := [each.to(DEVICE) for each in (x, y, z)])
    )
    z = given[-1].cpu()
    torch.testing.assert_close(z, expected.double().expand(z.shape), rtol=1e-10, atol=1e-12)


def test_relu_keeps_what_is_no_number():
    x, y = torch.tensor([-1.0, torch.nan, 2.0]), torch.empty(3)
    ninetoothed.make(
        lambda *ts: tuple(t.tile(4) for t in ts), application_of(f"y = {FORMULAS['relu']}"), (Tensor(1), Tensor(1))
    )(x, y)
    assert torch.equal(y.isnan(), x.isnan()) and y[0] == 0 and y[2] == 2


def test_none_is_a_name_of_the_language():
    assert not INSTEAD.keys() & {*FUNCTIONS, *dir(ntl)}


@pytest.mark.parametrize("name", INSTEAD)
def test_names_are_pytorchs_or_numpys(name):
    owners = (torch, F, torch.Tensor, numpy, torch.linalg)
    assert any(hasattr(owner, name) for owner in owners) or name in ("swish", "rsub")
    assert for_function(name) == INSTEAD[name]
    with pytest.raises(AttributeError) as caught:
        getattr(ntl, name)
    assert str(caught.value) == f"ninetoothed.language has no {name!r}; {INSTEAD[name]}"
