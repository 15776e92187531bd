"""Swapped modules as graphs: what traces an unswapped model traces it, and what cannot says so by name."""

import io

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

import ninetoothed_ops
from docs.behaviour_calls import calls
from docs.behaviour_outcomes import gradients
from tests.conftest import DEVICE


def network() -> nn.Sequential:
    torch.manual_seed(0)
    layers = nn.Linear(8, 16), nn.SiLU(), nn.LayerNorm(16), nn.RMSNorm(16), nn.Linear(16, 8), nn.GELU()
    return nn.Sequential(*layers).to(DEVICE)


@pytest.fixture
def model():
    swapped = network()
    ninetoothed_ops.swap_modules(swapped)
    return swapped


def network_of(model) -> nn.Sequential:
    """The unswapped network, with the same parameters."""
    plain = network()
    for own, theirs in zip(plain, model):
        for name, parameter in theirs.named_parameters():
            setattr(own, name, parameter)
    return plain


def inputs(*sizes: int):
    return [torch.randn(size, 8, device=DEVICE) for size in sizes]


def check(graph, *sizes: int) -> None:
    """Compare a graph with the unswapped model, on inputs of these sizes."""
    plain = network()
    for x in inputs(*sizes):
        torch.testing.assert_close(graph(x), plain(x), rtol=1e-4, atol=1e-5)


def saved(artifact, save, load):
    """What is saved and loaded."""
    buffer = io.BytesIO()
    save(artifact, buffer)
    buffer.seek(0)
    return load(buffer)


def test_make_fx(model):
    graph = make_fx(model)(*inputs(3))
    check(graph, 3)
    assert "torch.ops.ninetoothed.layer_norm" in graph.code


def test_symbolic_trace(model):
    graph = torch.fx.symbolic_trace(model)
    check(graph, 3, 5)
    assert any("ninetoothed" in str(node.target) for node in graph.graph.nodes)


@pytest.mark.filterwarnings("ignore:.*deprecated:FutureWarning")
def test_a_jit_trace(model):
    with torch.no_grad():
        traced = torch.jit.trace(model, inputs(3))
    assert "ninetoothed::rms_norm" in str(traced.inlined_graph)
    check(traced, 3, 5)
    check(saved(traced, torch.jit.save, torch.jit.load), 5)


CALLS = {call.name: call for call in calls()}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(set(CALLS) - {"dropout"}))
def test_a_jit_trace_of_every_operator(name):
    """PyTorch's check traces once more, and compares graphs and results; gradients are those of the operator."""
    call = CALLS[name]
    traced = torch.jit.trace(call.own, fresh(call))
    assert "ninetoothed::" in str(traced.graph)
    for found, expected in zip(*(gradients(function, fresh(call)) for function in (traced, call.own)), strict=True):
        torch.testing.assert_close(found, expected)


def fresh(call):
    """The tensors of a call, some of which it may write."""
    return tuple(each.detach().to(DEVICE).requires_grad_(each.requires_grad) for each in call.recorded())


@pytest.mark.filterwarnings("ignore")
def test_a_jit_trace_with_gradients(model):
    (x,) = inputs(3)
    traced = torch.jit.trace(model, x.requires_grad_())
    check(traced, 3, 5)
    leaves = x, *model.parameters()
    found, expected = (torch.autograd.grad(each(x).square().sum(), leaves) for each in (traced, network_of(model)))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("strict", (False, True))
@pytest.mark.parametrize("sizes", ((3,), (3, 5, 1)))
def test_an_export(model, strict, sizes):
    shapes = ({0: torch.export.Dim("rows")},) if len(sizes) > 1 else None
    program = torch.export.export(model, tuple(inputs(3)), dynamic_shapes=shapes, strict=strict)
    check(saved(program, torch.export.save, torch.export.load).module(), *sizes)


WAYS = [(strict, dynamic) for strict in (False, True) for dynamic in (False, True)]
# Each operator in one way, in turn; that which writes its statistics in each.
EXPORTS = [(name, *WAYS[i % 4]) for i, name in enumerate(CALLS)] + [("batch_norm", *way) for way in WAYS]


@pytest.mark.parametrize("name, strict, dynamic", EXPORTS)
def test_an_export_of_every_operator(name, strict, dynamic):
    call = CALLS[name]

    class Module(nn.Module):
        def forward(self, *tensors):
            return call.own(*tensors)

    given, expected = ([each.to(DEVICE, copy=True) for each in call.tensors] for _ in range(2))
    axes = (tuple(dict.fromkeys(range(each.ndim), torch.export.Dim.AUTO) for each in given),) if dynamic else None
    copies = tuple(each.clone() for each in given)
    program = torch.export.export(Module(), copies, dynamic_shapes=axes, strict=strict)
    torch.manual_seed(0)
    found = saved(program, torch.export.save, torch.export.load).module()(*given)
    torch.manual_seed(0)
    torch.testing.assert_close(found, call.own(*expected))
    torch.testing.assert_close(given, expected)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dynamo", (False, True))
def test_onnx_refuses_by_name(model, dynamo):
    if dynamo:
        pytest.importorskip("onnxscript")
    with pytest.raises(Exception, match="ninetoothed(::linear|.layer_norm)"):
        torch.onnx.export(model, tuple(inputs(3)), io.BytesIO(), dynamo=dynamo)


@pytest.mark.filterwarnings("ignore")
def test_onnx_takes_what_is_said_of_an_operator():
    opset = pytest.importorskip("onnxscript").opset18
    model = nn.Sequential(nn.Linear(8, 4)).to(DEVICE)
    assert ninetoothed_ops.swap_modules(model).swapped
    said = {torch.ops.ninetoothed.linear.default: lambda x, w, b: opset.Add(opset.MatMul(x, opset.Transpose(w)), b)}
    program = torch.onnx.export(model, tuple(inputs(3)), dynamo=True, verbose=False, custom_translation_table=said)
    assert {node.domain for node in program.model.graph} == {""}


def test_dynamic_layer_norms_compile_as_often_as_pytorchs():
    def count(function):
        torch._dynamo.reset()
        counter = torch._dynamo.testing.CompileCounter()
        compiled = torch.compile(function, backend=counter, dynamic=True)
        for rows, columns in ((3, 8), (4, 8), (1, 8), (3, 5), (2, 16)):
            x, *vectors = (torch.randn(shape, device=DEVICE) for shape in ((rows, columns), (columns,), (columns,)))
            compiled(x, *vectors)
        return counter.frame_count

    ours, theirs = (
        count(lambda x, weight, bias, norm=norm: norm(x, x.shape[-1:], weight, bias))
        for norm in (ninetoothed_ops.layer_norm, nn.functional.layer_norm)
    )
    torch._dynamo.reset()
    assert ours == theirs
