"""Classes and modes with `__torch_function__`, in the place of each tensor of each public function, as in PyTorch."""

import functools
import inspect

import pytest
import torch
from torch.nn.attention.bias import causal_lower_right, causal_upper_left
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

import ninetoothed_ops
from ninetoothed.errors import UnsupportedError
from ninetoothed_ops import ops
from ninetoothed_ops.ops import functions, readers
from tests.conftest import DEVICE
from tests.ninetoothed_ops.ops.test_public_functions import CALLS as WITH_NAMESAKES
from tests.ninetoothed_ops.samples import NAMESAKES as SAME_NAMES, OPERATORS, random as r, samples

F = torch.nn.functional
CALLS = {
    **WITH_NAMESAKES,
    "add_rms_norm": {"input": r(3, 4), "residual": r(3, 4), "weight": r(4), "eps": 1e-3},
    "gated": {"gate": r(3, 4), "up": r(3, 4), "function": "gelu"},
    "linear": {"input": r(3, 4), "weight": r(5, 4), "bias": r(5)},
    "rope_into_cache": {
        "query": r(1, 2, 2, 4),
        "key": r(1, 2, 1, 4),
        "value": r(1, 2, 1, 4),
        "sin": r(2, 2),
        "cos": r(2, 2),
        "slots": torch.tensor([0, 2], device=DEVICE),
        "keys": r(1, 1, 3, 4),
        "values": r(1, 1, 3, 4),
    },
    "swiglu": {"gate": r(3, 4), "up": r(3, 4)},
    "batch_norm": {"input": r(3, 4), "running_mean": r(4), "running_var": r(4).abs()},
    "dropout": {"input": r(3, 4), "p": 1.0},
    "embedding": {"input": torch.tensor([0, 2], device=DEVICE), "weight": r(3, 4)},
    "group_norm": {"input": r(3, 4), "num_groups": 2},
    "jsd": {"input": r(3, 4), "target": r(3, 4)},
    "kl_div": {"input": r(3, 4), "target": r(3, 4).abs()},
}
# Of an operator that has no call here, the first sample.
CALLS |= {
    name: inspect.signature(getattr(ninetoothed_ops, name)).bind(*next(iter(samples(name).values())).args).arguments
    for name in OPERATORS
    if name not in CALLS
}


def add_rms_norm(input, residual, weight, eps):
    return F.rms_norm(input + residual, (4,), weight, eps), input + residual


# What PyTorch computes the same by; of the others there is nothing that a class could know.
NAMESAKES = {
    **{name: function for name, function in SAME_NAMES.items() if name not in ("rope", "linear_cross_entropy")},
    "add_rms_norm": add_rms_norm,
    "batch_norm": F.batch_norm,
    "dropout": F.dropout,
    "embedding": F.embedding,
    "group_norm": F.group_norm,
    "kl_div": F.kl_div,
    "gated": lambda gate, up, function: functions.FUNCTIONS[function](gate) * up,
}
# Functions that read their arguments in every call, by a glance or in full.
READING = ("rope", "rope_into_cache", "addmm", "conv2d", "sdpa", "layer_norm", "rms_norm", "softmax")
READING += (
    "cross_entropy",
    "linear_cross_entropy",
    "batch_norm",
    "dropout",
    "embedding",
    "group_norm",
    "jsd",
    "kl_div",
)
PLACES = [(name, key) for name, call in CALLS.items() for key, value in call.items() if isinstance(value, torch.Tensor)]


class Standing:
    """Stands for a tensor, and is none; computes every function itself, as `RESULT`."""

    shape = torch.Size((3, 4))

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return RESULT

    def __add__(self, other):
        return RESULT

    __radd__ = __mul__ = __rmul__ = __add__


RESULT = Standing()


class Asked(torch.Tensor):
    """Computes every function itself, and has memory that nobody may read."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        # Whatever a message asks of it but the value.
        return torch.Size((3, 4)) if "shape" in repr(function) else RESULT


class Inheriting(torch.Tensor):
    """Computes nothing itself."""


class Wrapping(torch.Tensor):
    """Holds another tensor, and is asked by the dispatcher alone, as sharded and quantised tensors are."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held):
        return torch.Tensor._make_wrapper_subclass(
            cls, held.shape, strides=held.stride(), dtype=held.dtype, device=held.device
        )

    def __init__(self, held):
        self.held = held

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        def unwrapped(value):
            return value.held if isinstance(value, cls) else value

        found = function(*tree_map(unwrapped, args), **tree_map(unwrapped, kwargs or {}))
        return tree_map(lambda value: cls(value) if type(value) is torch.Tensor else value, found)


def test_every_public_function_is_here():
    assert set(CALLS) == set(ops.__all__)


def with_other(name, key, convert):
    return {**CALLS[name], key: convert(CALLS[name][key])}


def outcome(function, arguments):
    try:
        return function(**arguments)
    except Exception as error:
        return error


@pytest.mark.parametrize("make", (lambda value: value.as_subclass(Asked), lambda value: Standing()))
@pytest.mark.parametrize("name, key", PLACES)
def test_a_class_that_computes_functions_itself(name, key, make):
    """It is asked, or refused by name, and never read."""
    found = outcome(getattr(ninetoothed_ops, name), with_other(name, key, make))

    if name in NAMESAKES:
        both = found, outcome(NAMESAKES[name], with_other(name, key, make))
        own, theirs = ([part is RESULT for part in (each if isinstance(each, tuple) else (each,))] for each in both)
        assert own == theirs and any(own)
    else:
        assert isinstance(found, UnsupportedError)
        assert str(found).startswith(f"ninetoothed::{name} is given a {type(make(r(1))).__name__}, whose")


OPTIONS = {
    "lengths": lambda: torch.tensor([3], device=DEVICE),
    "sinks": lambda: r(2),
    "softcap": lambda: 3.0,
}


@pytest.mark.parametrize("option", OPTIONS)
def test_options_that_pytorch_has_not(option):
    call = {key: value for key, value in CALLS["sdpa"].items() if key != "attn_mask"}
    for key in ("query", "key", "value"):
        given = {**call, key: call[key].as_subclass(Asked), option: OPTIONS[option]()}
        with pytest.raises(UnsupportedError, match="ninetoothed::sdpa is given a Asked"):
            ninetoothed_ops.sdpa(**given)
    with pytest.raises(UnsupportedError, match="ninetoothed::rms_norm is given a Asked"):
        ninetoothed_ops.rms_norm(r(3, 4).as_subclass(Asked), (4,), unit_offset=True)


@pytest.mark.parametrize("make", (lambda x: x.as_subclass(Inheriting), Wrapping), ids=("inheriting", "wrapping"))
@pytest.mark.parametrize("name, key", [(n, k) for n, k in PLACES if n != "rope_into_cache"])
def test_a_class_that_does_not(name, key, make):
    expected = getattr(ninetoothed_ops, name)(**CALLS[name])
    found = getattr(ninetoothed_ops, name)(**with_other(name, key, make))

    for own, plain in zip(*((each if isinstance(each, tuple) else (each,)) for each in (found, expected))):
        assert type(own) in (Inheriting, Wrapping)
        assert torch.equal(own.held if type(own) is Wrapping else own.as_subclass(torch.Tensor), plain)


@pytest.mark.parametrize("name, key", PLACES)
def test_parameters_and_buffers_are_plain(name, key, monkeypatch):
    """They are read as plain tensors are, without more of a call."""
    monkeypatch.setattr(readers, "are_overridden", None)
    if name not in READING:
        monkeypatch.setattr(readers, "read", None)
    expected = getattr(ninetoothed_ops, name)(**CALLS[name])
    for make in (lambda x: torch.nn.Parameter(x, requires_grad=False), torch.nn.Buffer):
        found = getattr(ninetoothed_ops, name)(**with_other(name, key, make))
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.parametrize("name", [name for name in CALLS if name != "rope_into_cache"])
def test_a_mode_sees_the_operator(name):
    class Seen(TorchFunctionMode):
        names: list[str] = []

        def __torch_function__(self, function, types, args=(), kwargs=None):
            self.names.append(str(function))
            return function(*args, **(kwargs or {}))

    expected = getattr(ninetoothed_ops, name)(**CALLS[name])
    with Seen() as seen:
        found = getattr(ninetoothed_ops, name)(**CALLS[name])
    assert f"ninetoothed.{name}.default" in seen.names
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(NAMESAKES))
def test_masked_tensors(name):
    for key in (key for each, key in PLACES if each == name):
        arguments = with_other(
            name, key, lambda x: torch.masked.MaskedTensor(x, torch.rand(x.shape, device=x.device) > 0.3)
        )
        found, expected = outcome(getattr(ninetoothed_ops, name), arguments), outcome(NAMESAKES[name], arguments)
        assert type(found) is type(expected)
        if isinstance(found, torch.masked.MaskedTensor):
            torch.testing.assert_close(found.to_tensor(0.0), expected.to_tensor(0.0))


@pytest.mark.parametrize("is_grouped", (False, True))
@pytest.mark.parametrize("make", (causal_lower_right, causal_upper_left))
def test_causal_biases(make, is_grouped):
    query, key, value = r(2, 4, 5, 16), *(r(2, 2 if is_grouped else 4, 9, 16) for _ in range(2))
    bias, options = make(5, 9), {"enable_gqa": is_grouped}
    expected = F.scaled_dot_product_attention(query, key, value, bias._materialize(DEVICE), **options)

    torch.testing.assert_close(ninetoothed_ops.sdpa(query, key, value, bias, **options), expected, rtol=1e-4, atol=1e-4)
    with pytest.raises(UnsupportedError, match="ninetoothed::sdpa is given a CausalBias"):
        ninetoothed_ops.sdpa(query, key, value, bias, softcap=3.0, **options)


def test_signatures_are_those_of_before():
    """The arguments go on to PyTorch's functions as they came."""
    for name, call in CALLS.items():
        assert call.keys() <= inspect.signature(getattr(ninetoothed_ops, name)).parameters.keys()


@pytest.mark.parametrize("name", ("gelu", "linear", "sdpa", "silu", "softmax"))
def test_compiled(name):
    function = torch.compile(getattr(ninetoothed_ops, name), backend="aot_eager", fullgraph=True)
    arguments = {key: value for key, value in CALLS[name].items() if key != "attn_mask"}
    expected = getattr(ninetoothed_ops, name)(**arguments)
    torch.testing.assert_close(functools.partial(function, **arguments)(), expected)
