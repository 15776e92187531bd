"""The functions that take PyTorch's arguments, of whatever kind: they take and raise what PyTorch's do."""

import functools
import math

import numpy as np
import pytest
import torch

import ninetoothed_ops
from ninetoothed.errors import UnsupportedError
from tests.conftest import DEVICE
from tests.ninetoothed_ops.samples import NAMESAKES, random as r

CALLS = {
    "add": {"input": r(3, 4), "other": r(3, 4), "alpha": 2},
    "addmm": {"input": r(3, 5), "mat1": r(3, 4), "mat2": r(4, 5), "beta": 2, "alpha": 2},
    "bmm": {"input": r(2, 3, 4), "mat2": r(2, 4, 5)},
    "conv2d": {
        "input": r(2, 3, 7, 8),
        "weight": r(4, 3, 3, 3),
        "bias": r(4),
        "stride": 1,
        "padding": 1,
        "dilation": 1,
        "groups": 1,
    },
    "mm": {"input": r(3, 4), "mat2": r(4, 5)},
    "gelu": {"input": r(3, 4), "approximate": "none"},
    "layer_norm": {"input": r(3, 4), "normalized_shape": [4], "weight": r(4), "bias": r(4), "eps": 1e-3},
    "rms_norm": {"input": r(3, 4), "normalized_shape": [4], "weight": r(4), "eps": 1e-3},
    "rope": {
        "input": r(1, 3, 2, 8),
        "sin": r(3, 4),
        "cos": r(3, 4),
        "interleaved": True,
        "rotary_dim": 8,
        "interleaved_output": None,
    },
    "sdpa": {
        "query": r(1, 2, 3, 4),
        "key": r(1, 2, 5, 4),
        "value": r(1, 2, 5, 4),
        "attn_mask": r(3, 5),
        "dropout_p": 0.0,
        "is_causal": False,
        "scale": 1.0,
        "enable_gqa": False,
    },
    "silu": {"input": r(3, 4), "inplace": False},
    "softmax": {"input": r(3, 4), "dim": 1, "dtype": None},
}
PARAMETERS = [(name, parameter) for name, arguments in CALLS.items() for parameter in arguments if name != "rope"]

KINDS = {
    "None": None,
    "str": "a",
    "int": 1,
    "zero": 0,
    "float": 1.5,
    "nan": math.nan,
    "bool": True,
    "complex": 1j,
    "list": [1],
    "pair": (1, 2),
    "nothing": [],
    "list of strings": ["a"],
    "list of floats": [1.5],
    "list of None": [None],
    "list of bools": [True],
    "list of NumPy's integers": [np.int64(1)],
    "list of tensors": [torch.tensor(1)],
    "sizes": torch.Size([1]),
    "dict": {},
    "bytes": b"a",
    "object": object(),
    "dtype": torch.float64,
    "type": float,
    "NumPy's integer": np.int64(1),
    "NumPy's float": np.float32(1),
    "NumPy's bool": np.bool_(True),
    "array": np.ones((3, 4), dtype=np.float32),
    "integer tensor of no dimension": torch.tensor(1, device=DEVICE),
    "tensor of no dimension": torch.tensor(1.0, device=DEVICE),
    "tensor of no dimension that requires grad": torch.tensor(1.0, device=DEVICE, requires_grad=True),
    "vector": torch.ones(1, device=DEVICE),
    "matrix": r(3, 4),
    "integer matrix": torch.ones(3, 4, dtype=torch.int64, device=DEVICE),
}
# A mask of fewer than two dimensions is refused by all of PyTorch's kernels but the one for gradients.
CURIOUS = {("sdpa", "attn_mask", "tensor of no dimension that requires grad")}


def outcome(function, arguments):
    """The result, or the error."""
    copies = {key: value.clone() if type(value) is torch.Tensor else value for key, value in arguments.items()}
    try:
        return function(**copies)
    except Exception as error:
        return error


def on_cpu(value):
    return value.cpu() if isinstance(value, torch.Tensor) else value


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name, parameter", PARAMETERS)
def test_an_argument_of_any_kind(name, parameter):
    for kind in KINDS:
        is_taken_as_by_pytorch(name, parameter, kind)


def is_taken_as_by_pytorch(name, parameter, kind):
    arguments = {**CALLS[name], parameter: KINDS[kind]}
    if parameter == "is_causal":
        del arguments["attn_mask"]  # beside which PyTorch refuses it since 2.15: see docs/differences.md
    # PyTorch's kernels for GPUs take a rate of dropout that those for CPUs refuse, and give NaN for 1.
    theirs = {key: on_cpu(value) for key, value in arguments.items()} if parameter == "dropout_p" else arguments
    expected, actual = outcome(NAMESAKES[name], theirs), outcome(getattr(ninetoothed_ops, name), arguments)

    if isinstance(expected, Exception):
        assert isinstance(actual, type(expected)), f"{kind}: {actual}"
        is_own = isinstance(actual, UnsupportedError) or (parameter, kind) == ("dropout_p", "nan")
        assert str(actual) == str(expected) or is_own, kind
    elif isinstance(actual, UnsupportedError):
        assert "complex" in str(actual) or parameter == "dropout_p", kind
    elif (name, parameter, kind) not in CURIOUS:
        torch.testing.assert_close(
            actual.to(expected.device), expected, rtol=1e-3, atol=1e-3, equal_nan=True, msg=f"{kind}: {{}}".format
        )


OWN = {
    "interleaved": ("bool",),
    "rotary_dim": ("None", "int", "zero", "NumPy's integer"),
    "interleaved_output": ("None", "bool"),
}
OTHER = [
    (parameter, kind)
    for parameter in CALLS["rope"]
    for kind, value in KINDS.items()
    if not isinstance(value, torch.Tensor) and kind not in OWN.get(parameter, ())
]


def test_rope_names_an_argument_of_another_kind():
    for parameter, kind in OTHER:
        with pytest.raises(TypeError, match=f"ninetoothed::rope takes .* for {parameter}, but got"):
            ninetoothed_ops.rope(**{**CALLS["rope"], parameter: KINDS[kind]})


@pytest.mark.parametrize("name, parameter", PARAMETERS)
def test_which_arguments_are_required(name, parameter):
    arguments = {key: value for key, value in CALLS[name].items() if key != parameter}
    expected, actual = outcome(NAMESAKES[name], arguments), outcome(getattr(ninetoothed_ops, name), arguments)

    assert type(actual) is type(expected)


@pytest.mark.parametrize("name", CALLS)
def test_which_arguments_have_places(name):
    for count in range(len(CALLS[name]) + 1):
        first, others = list(CALLS[name].values())[:count], dict(list(CALLS[name].items())[count:])
        functions = (functools.partial(each, *first) for each in (NAMESAKES[name], getattr(ninetoothed_ops, name)))
        expected, actual = (outcome(function, others) for function in functions)
        assert type(actual) is type(expected), count


def test_softmax_by_other_names():
    x = r(3, 4)

    assert torch.equal(ninetoothed_ops.softmax(x, axis=1), ninetoothed_ops.softmax(x, 1))
    assert torch.equal(ninetoothed_ops.softmax(x, dim=1, _stacklevel=5), ninetoothed_ops.softmax(x, 1))
    for function in (torch.softmax, ninetoothed_ops.softmax):
        with pytest.raises(TypeError):
            function(x, 1, axis=1)
        with pytest.raises(TypeError):
            function(x)


def test_numbers_on_the_device():
    x, a, b = r(3, 5), r(3, 4), r(4, 5)
    numbers = {"beta": torch.tensor(0.5, device=DEVICE), "alpha": torch.tensor(2, device=DEVICE)}

    torch.testing.assert_close(ninetoothed_ops.addmm(x, a, b, **numbers), torch.addmm(x, a, b, beta=0.5, alpha=2))


@pytest.mark.parametrize("name", sorted(CALLS))
def test_a_default_device_changes_nothing(name):
    expected = getattr(ninetoothed_ops, name)(**CALLS[name])
    with torch.device("meta"):
        assert torch.equal(getattr(ninetoothed_ops, name)(**CALLS[name]), expected)


def test_a_number_is_added_where_the_tensor_is():
    x = r(3, 4)
    with torch.device("meta"):
        assert torch.equal(ninetoothed_ops.add(x, 2), x + 2) and torch.equal(ninetoothed_ops.add(0.5, x), x + 0.5)
