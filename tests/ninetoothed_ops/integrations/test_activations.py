"""The activations of transformers, and gated MLPs in one launch for each of them: as before, forward and backward."""

import copy
import pickle

import pytest
import torch
from torch import nn

from ninetoothed_ops.modules import swap_modules
from ninetoothed_ops.modules.activations import NTGELU, NTGELUTanh
from ninetoothed_ops.modules.gated_mlp import gated
from tests.ninetoothed_ops.integrations.calls import DEVICE, error, reasons
from tests.ninetoothed_ops.recorder import Recorder

activations = pytest.importorskip("transformers.activations")
NAMES = {
    "gelu_python": "NTGELU",
    "gelu_python_tanh": "NTGELUTanh",
    "gelu_new": "NTGELUTanh",
    "gelu_fast": "NTGELUTanh",
    "gelu_accurate": "NTGELUTanh",
    "quick_gelu": "NTQuickGELU",
    "relu2": "NTReLUSquared",
    "silu": "NTSiLU",
    "swish": "NTSiLU",
    # One launch in PyTorch already, or none of NineToothed's functions.
    "relu": "ReLU",
    "gelu": "GELUActivation",
    "gelu_pytorch_tanh": "GELUTanh",
    "gelu_10": "ClippedGELUActivation",
    "laplace": "LaplaceActivation",
}


@pytest.mark.parametrize("name", NAMES)
def test_each_is_what_it_was(name):
    if name not in activations.ACT2FN:
        pytest.skip("an activation that this version lacks")
    theirs, input = activations.ACT2FN[name], (3 * torch.randn(5, 70, device=DEVICE)).requires_grad_()
    ours = copy.deepcopy(theirs)
    report = swap_modules(ours)
    assert repr(ours).startswith(NAMES[name] + "(") and isinstance(ours, type(theirs))
    results = ([y := act(input), *torch.autograd.grad(y.sin().sum(), input)] for act in (ours, theirs))
    for found, expected in zip(*results):
        assert found.dtype == expected.dtype and error(found, expected) < 1e-6
    half = input.detach().bfloat16()
    assert ours(half).dtype == torch.bfloat16 and error(ours(half), theirs(half)) < 1e-2
    report.undo()
    assert type(ours) is type(theirs)


@pytest.mark.parametrize("cls", (NTGELU, NTGELUTanh))
def test_as_pytorchs_own(cls):
    theirs, input = nn.GELU("tanh" if cls is NTGELUTanh else "none"), torch.randn(5, 70, device=DEVICE)
    ours = cls()
    assert isinstance(ours, nn.GELU) and error(ours(input), theirs(input)) < 1e-6
    assert type(pickle.loads(pickle.dumps(ours))) is cls
    assert not swap_modules(theirs).swapped


@pytest.mark.parametrize("cls", (NTGELU, NTGELUTanh))
def test_an_approximation_set_since_is_applied(cls):
    ours, input = cls(), torch.randn(5, 70, device=DEVICE)
    for approximate in ("tanh", "none"):
        ours.approximate = approximate
        expected = nn.functional.gelu(input.double(), approximate=approximate)
        assert error(ours(input), expected) < 1e-6 and error(gated(ours, input, input), expected * input) < 1e-6
    ours.approximate = "cubic"
    for function in (ours, lambda x: gated(ours, x, x)):
        with pytest.raises(RuntimeError, match="approximate"):
            function(input)


def test_one_with_a_function_of_its_own_is_left_alone():
    act = activations.GELUActivation()
    act.act = torch.tanh
    assert reasons(swap_modules(act)) == {"": "it applies a function of its instance"}


@pytest.mark.parametrize("name", ("gelu_pytorch_tanh", "gelu", "quick_gelu", "relu", "relu2", "silu"))
@pytest.mark.parametrize("family", ("Gemma", "Phi3"))
def test_gated_mlps(family, name):
    import transformers

    file = __import__(f"transformers.models.{family.lower()}.modeling_{family.lower()}", fromlist=["MLP"])
    sizes = {"hidden_size": 16, "intermediate_size": 24, "hidden_act": name, "hidden_activation": name}
    theirs = getattr(file, f"{family}MLP")(getattr(transformers, f"{family}Config")(**sizes, pad_token_id=0)).to(DEVICE)
    ours = copy.deepcopy(theirs)
    report = swap_modules(ours, join=True)
    input = torch.randn(2, 5, 16, device=DEVICE, requires_grad=True)
    found, expected = (
        [y := mlp(input), *torch.autograd.grad(y.sin().sum(), [input, *mlp.parameters()])] for mlp in (ours, theirs)
    )
    assert all(error(*pair) < 1e-5 for pair in zip(found, expected))
    with Recorder() as recorder:
        assert error(ours(input), expected[0]) < 1e-5
    assert "ninetoothed::gated_linear" in recorder.names
    with torch.no_grad(), Recorder() as recorder:
        assert error(ours(input), expected[0]) < 1e-5
    # Of a SiLU the first product has all of it in its epilogue.
    apart = "linear_swiglu" if family == "Gemma" else "swiglu"
    assert f"ninetoothed::{apart if name == 'silu' else 'gated'}" in recorder.names
    assert type(copy.deepcopy(ours)) is type(ours) is type(pickle.loads(pickle.dumps(ours)))
    report.undo()
    assert type(ours) is type(theirs)
