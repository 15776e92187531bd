"""Operators inside `torch.compile`: one node each, sizes symbolic or dependent on data, and no silent detachment."""

import contextlib

import pytest
import torch
from torch._dynamo import convert_frame
from torch._functorch import config as functorch
from torch._inductor import config as inductor
from torch._subclasses.fake_tensor import DynamicOutputShapeException

import ninetoothed_ops
from tests.conftest import DEVICE
from tests.ninetoothed_ops.samples import OPERATORS, check_gradient, operator, random, samples


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("dynamic", (False, True))
@pytest.mark.parametrize("name", OPERATORS)
def test_one_node_of_a_graph(name, dynamic):
    sample = next(iter(samples(name).values()))
    targets = []

    def backend(graph, _):
        targets.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return graph

    compiled = torch.compile(operator(name), backend=backend, fullgraph=True, dynamic=dynamic)
    assert torch.equal(sample.call(compiled), sample.call(operator(name)))
    assert [target for target in targets if "ninetoothed" in target] == [f"ninetoothed.{name}.default"] or targets == [
        f"ninetoothed.{name}"
    ]


def test_new_sizes_compile_nothing_new():
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph

    compiled = torch.compile(lambda a, b: operator("silu")(operator("mm")(a, b)), backend=backend, dynamic=True)
    for rows in (5, 9, 33):
        a, b = random(rows, 8), random(8, 6)
        assert torch.equal(compiled(a, b), operator("silu")(operator("mm")(a, b)))
    assert len(graphs) == 1


@pytest.mark.parametrize(
    "function",
    (
        lambda x, w: operator("mm")(x, w),
        lambda x, w: operator("addmm")(w[0], x, w),
        lambda x, w: operator("add")(x.t(), x.t()),
        lambda x, w: operator("add")(x, w[0]),
        lambda x, w: operator("addmm")(x, x, w),
        lambda x, w: operator("silu")(x),
        lambda x, w: operator("softmax")(x, -1),
        lambda x, w: operator("rms_norm")(x, [8], w[0]),
    ),
)
def test_sizes_that_depend_on_data(function):
    x, w, chosen = random(6, 8), random(8, 8), torch.tensor([True, False, True, True, False, False], device=DEVICE)

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(lambda x, w, chosen: function(x[chosen], w), backend="aot_eager", fullgraph=True)
        assert torch.equal(compiled(x, w, chosen), function(x[chosen], w))


@pytest.mark.parametrize("name", OPERATORS)
def test_backward(name):
    first = next(iter(samples(name).values()))
    function = torch.compile(operator(name), backend="aot_eager", fullgraph=True)
    check_gradient(first, 0, function)


def test_inductor():
    """It lays out what it computes around operators, which get and give the strides that their fakes told it of."""

    def function(x, w):
        heads = (operator("mm")((x * 2).t(), w) + 1).view(6, 2, 4).transpose(0, 1)
        attended = operator("sdpa")(heads, heads, heads * 2)
        return operator("softmax")(attended.transpose(0, 1).reshape(6, 8).t().sin(), 1).cos()

    x, w = random(8, 6), random(8, 8)
    # A graph kept of an earlier run would assume the strides that the operators gave then.
    with inductor.patch(fx_graph_cache=False), functorch.patch(enable_autograd_cache=False):
        torch.testing.assert_close(torch.compile(function, fullgraph=True)(x, w), function(x, w))


@pytest.mark.parametrize("mode", (torch.no_grad, torch.inference_mode))
def test_without_grad_nothing_is_recorded(mode):
    weight = random(8, 8).requires_grad_()

    with mode():
        assert not operator("mm")(weight, weight).requires_grad


@pytest.mark.parametrize(
    "function",
    (
        lambda x: ninetoothed_ops.add(x, 2.5),
        lambda x: ninetoothed_ops.add(1, x, alpha=2),
        lambda x: ninetoothed_ops.softmax(x, 0, torch.float64),
        lambda x: ninetoothed_ops.conv2d(x[None], x[:2, :6, :3, None].expand(2, 6, 3, 2), padding="same"),
        lambda x: ninetoothed_ops.conv2d(x[None], x[:2, :6, :3, None].expand(2, 6, 3, 2), padding=(x.shape[0], 1)),
        lambda x: ninetoothed_ops.rms_norm(x, (8,), x[0, 0]),
        lambda x: ninetoothed_ops.rms_norm(x, x.shape[1:], None, 1),
        lambda x: ninetoothed_ops.addmm(x[0, :, :1], x[1], x[2].mT, alpha=x.shape[0]),
        lambda x: ninetoothed_ops.sdpa(x, x, x, is_causal=True),
        lambda x: ninetoothed_ops.sdpa(x, x, x, scale=1),
        lambda x: ninetoothed_ops.softmax(x, axis=1, dtype=float),
        lambda x: ninetoothed_ops.silu(x, inplace=True),
    ),
)
def test_front_doors_break_no_graph(function):
    x = random(6, 7, 8)
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True, dynamic=True)

    assert torch.equal(compiled(x.clone()), function(x.clone()))


MODES = {
    "recorded": contextlib.nullcontext,
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast(DEVICE, torch.bfloat16),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ("linear", "swiglu", "softmax"))
def test_what_launches_is_not_traced_between_graphs(name, mode):
    """A backend that gives up leaves the call to Python, whose frames Dynamo looks at as they come."""

    def backend(graph, _):
        raise DynamicOutputShapeException("aten.masked_select.default")

    sample, traced = next(iter(samples(name).values())), set()
    first, *rest = sample.args
    first.requires_grad_()
    called = operator(name)
    function = lambda x: called(x, *rest)  # noqa: E731
    compiled = torch.compile(function, backend=backend)
    with MODES[mode](), pytest.MonkeyPatch.context() as patch:
        compile_frame = convert_frame._compile
        patch.setattr(
            convert_frame, "_compile", lambda code, *a, **k: (traced.add(code), compile_frame(code, *a, **k))[1]
        )
        for _ in range(4):
            assert torch.equal(compiled(first), function(first))
    assert traced == {function.__code__}


@pytest.mark.parametrize("name", ("linear_cross_entropy", "cross_entropy", "rms_norm", "linear", "sdpa"))
def test_compiled_autograd(name):
    """Sizes and gradients of outputs that differ from step to step, in one compiled backward."""
    from torch._dynamo import compiled_autograd

    targets = torch.randint(30, (12,), device=DEVICE)
    calls = {
        "linear_cross_entropy": lambda x, w: ninetoothed_ops.linear_cross_entropy(x, w, targets[: len(x)]),
        "cross_entropy": lambda x, w: ninetoothed_ops.cross_entropy(x @ w.mT, targets[: len(x)]),
        "rms_norm": lambda x, w: ninetoothed_ops.rms_norm(x, (16,), w[0]).sum(),
        "linear": lambda x, w: ninetoothed_ops.linear(x, w).square().sum(),
        "sdpa": lambda x, w: ninetoothed_ops.sdpa(x[None, None], w[None, None], w[None, None]).sum(),
    }
    compiler = torch.compile(backend="eager")
    for step, rows in enumerate((9, 9, 12, 7)):
        x, w = (torch.randn(count, 16, device=DEVICE, requires_grad=True) for count in (rows, 30))
        expected = torch.autograd.grad((step + 1) * calls[name](x, w), (x, w))
        loss = (step + 1) * calls[name](x, w)
        with compiled_autograd._enable(compiler):
            loss.backward()
        for found, wanted in zip((x.grad, w.grad), expected):
            torch.testing.assert_close(found, wanted)
