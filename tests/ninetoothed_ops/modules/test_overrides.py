"""What is put in the place of PyTorch's functions after a swap: modes, classes of tensors; and other threads."""

import ast
import copy
import inspect
import sys
import textwrap
import threading
import time

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from ninetoothed_ops.modules import NTLinear, swap_modules
from ninetoothed_ops.modules.replacements import REPLACEMENTS
from ninetoothed_ops.modules.substitute import Substitute
from tests.conftest import DEVICE
from tests.ninetoothed_ops.recorder import Recorder


class Halved(TorchFunctionMode):
    """Halves what linear layers give, and tells which functions were called."""

    def __init__(self):
        super().__init__()
        self.called = set()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.called.add(function)
        result = function(*args, **(kwargs or {}))
        return result / 2 if function is nn.functional.linear else result


class Quantised(torch.Tensor):
    """A weight in int8, as torchao's: PyTorch's linear knows it, and nothing else may be done with it."""

    @staticmethod
    def __new__(cls, weight):
        return torch.Tensor._make_wrapper_subclass(cls, weight.shape, dtype=weight.dtype, device=weight.device)

    def __init__(self, weight):
        self.scale = weight.abs().max() / 127
        self.numbers = (weight / self.scale).round().to(torch.int8)

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function is nn.functional.linear:
            input, weight, bias = (*args, None)[:3]
            return nn.functional.linear(input, weight.numbers * weight.scale, bias)
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        if function is torch.ops.aten.detach.default:
            return args[0]
        raise NotImplementedError(f"{function} of a quantised weight")


def network():
    return nn.Sequential(nn.Linear(48, 96), nn.SiLU(), nn.RMSNorm(96), nn.Linear(96, 7, bias=False)).to(DEVICE).eval()


@torch.no_grad()
def test_modes_see_the_functions_that_they_know():
    model, input = network(), torch.randn(5, 48, device=DEVICE)
    with Halved() as before:
        expected = model(input)
    swap_modules(model)
    plain = model(input)
    with Halved() as after:
        torch.testing.assert_close(model(input), expected, rtol=1e-4, atol=1e-4)
    names = {function.__name__ for function in after.called}
    assert {"linear", "silu", "rms_norm"} <= names and before.called <= after.called
    assert not torch.equal(plain, expected) and torch.equal(model(input), plain)


@torch.no_grad()
@pytest.mark.parametrize(
    "module", (nn.Linear(48, 48), nn.SiLU(), nn.RMSNorm(48), nn.LayerNorm(48), nn.Conv2d(2, 2, 3)), ids=str
)
def test_a_class_that_is_patched_after_the_swap(module, monkeypatch):
    """In compiled code, too, and until the patch is taken back."""
    model = copy.deepcopy(module).to(DEVICE)
    input, forward = torch.randn(2, 5, 48, device=DEVICE), type(module).forward
    expected = model(input)
    assert swap_modules(model).swapped
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="eager")
    for call in (model, compiled):
        with monkeypatch.context() as patch:
            torch.testing.assert_close(call(input), expected, rtol=1e-4, atol=1e-4)
            patch.setattr(type(module), "forward", lambda self, input: forward(self, input) + 1)
            torch.testing.assert_close(call(input), expected + 1, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(call(input), expected, rtol=1e-4, atol=1e-4)


LAYOUTS = {
    "sparse": torch.Tensor.to_sparse,
    "csr": torch.Tensor.to_sparse_csr,
    "nested": lambda x: torch.nested.nested_tensor([x, x[:2]]),
}


@pytest.mark.parametrize("module", (nn.Linear(48, 48), nn.SiLU(), nn.LayerNorm(48), nn.RMSNorm(48)), ids=str)
@pytest.mark.parametrize("convert", LAYOUTS.values(), ids=LAYOUTS)
def test_layouts_of_inputs_that_operators_do_not_take(module, convert):
    """They are PyTorch's, be it an error."""
    model = copy.deepcopy(module).to(DEVICE)
    input = convert(torch.randn(5, 48, device=DEVICE))
    try:
        expected = model(input)
    except (RuntimeError, NotImplementedError) as error:
        swap_modules(model)
        with pytest.raises(type(error)):
            model(input)
        return
    swap_modules(model)
    parts = (each.unbind() if each.is_nested else (each,) for each in (model(input), expected))
    for found, part in zip(*parts, strict=True):
        # PyTorch's sparse products add up in another order in each run on a GPU.
        assert found.layout == part.layout and torch.allclose(found.to_dense(), part.to_dense(), atol=1e-5)


def is_ours(graph):
    return any("ninetoothed" in str(node.target) for node in graph.nodes)


def test_what_traces_sees_our_operators():
    layer, input = NTLinear(48, 7, device=DEVICE).requires_grad_(False), torch.randn(5, 48, device=DEVICE)
    assert is_ours(torch.fx.symbolic_trace(layer).graph)
    for strict in (False, True):
        assert is_ours(torch.export.export(layer, (input,), strict=strict).graph)


@torch.no_grad()
def test_a_default_device_changes_nothing():
    model, input = network(), torch.randn(5, 48, device=DEVICE)
    swap_modules(model)
    with torch.device(DEVICE), Recorder() as recorder:
        model(input)
    assert {"ninetoothed::linear", "ninetoothed::silu", "ninetoothed::rms_norm"} <= set(recorder.names)


@torch.no_grad()
@pytest.mark.parametrize("bias", (True, False))
def test_a_weight_that_is_quantised_after_the_swap(bias):
    layer, twin = (nn.Linear(48, 7, bias=bias).to(DEVICE) for _ in range(2))
    input = torch.randn(5, 48, device=DEVICE)
    twin.load_state_dict(layer.state_dict())
    report = swap_modules(layer)
    assert type(layer) is NTLinear
    for module in (layer, twin):
        module.weight = nn.Parameter(Quantised(module.weight.detach()), requires_grad=False)
    assert torch.equal(layer(input), twin(input))
    report.undo()
    assert torch.equal(layer(input), twin(input))


@pytest.mark.parametrize("replacement", (*REPLACEMENTS, *Substitute.__subclasses__()))
def test_a_forward_asks_for_nothing_of_its_own_class(replacement):
    """Another thread may give the module its old class back while it runs."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(replacement.forward)))
    names = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    }
    assert not names & set(vars(replacement))


def test_swapping_while_other_threads_are_in_forward():
    transformers = pytest.importorskip("transformers")
    from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRMSNorm

    config = transformers.LlamaConfig(hidden_size=32, num_attention_heads=2, num_key_value_heads=1)
    config._attn_implementation = "sdpa"
    attention = LlamaAttention(config, 0).to(DEVICE).eval()
    model = nn.ModuleList((attention, LlamaRMSNorm(32).to(DEVICE), network()))
    states, input = torch.randn(1, 3, 32, device=DEVICE), torch.randn(5, 48, device=DEVICE)
    tables = tuple(torch.randn(1, 3, 16, device=DEVICE) for _ in range(2))

    @torch.no_grad()
    def forward():
        return attention(model[1](states), tables, None)[0], model[2](input)

    expected, problems, done = forward(), [], threading.Event()

    def run():
        try:
            while not done.is_set():
                for actual, wanted in zip(forward(), expected):
                    torch.testing.assert_close(actual, wanted, rtol=1e-3, atol=1e-4)
        except Exception as error:
            problems.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=run) for _ in range(3)]
    try:
        for thread in threads:
            thread.start()
        end = time.monotonic() + 3
        while time.monotonic() < end and not problems:
            swap_modules(model).undo()
    finally:
        done.set()
        sys.setswitchinterval(interval)
        for thread in threads:
            thread.join()
    assert not problems, problems
