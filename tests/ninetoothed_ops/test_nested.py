"""Nested tensors in operators and swapped modules: entry by entry in float64, and by our kernels, not PyTorch's."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import ninetoothed
import ninetoothed.language as ntl
import ninetoothed_ops as ours
from ninetoothed import Tensor
from ninetoothed.errors import ArgumentError, UnsupportedError
from ninetoothed_ops import nested, registration
from tests.conftest import DEVICE

LENGTHS = (5, 0, 33, 1)
make = torch.nested.nested_tensor_from_jagged


def offsets_of(lengths=LENGTHS, gap=0):
    return torch.tensor([sum(lengths[:b]) + gap * b for b in range(len(lengths) + 1)], device=DEVICE)


def ragged(*shape, dim=1, offsets=None, dtype=torch.float32, lengths=LENGTHS, gap=0):
    """A leaf of the values' shape, whose jagged dimension stands as None, and the nested tensor of it."""
    offsets = offsets_of(lengths, gap) if offsets is None else offsets
    total = int(offsets[-1])
    leaf = torch.randn([total if size is None else size for size in shape], device=DEVICE).to(dtype).requires_grad_()
    sizes = torch.tensor(lengths, device=DEVICE) if gap else None
    return leaf, make(leaf, offsets, sizes, jagged_dim=dim, min_seqlen=min(lengths), max_seqlen=max(lengths))


def dense(*shape):
    return torch.randn(shape, device=DEVICE, requires_grad=True)


OFFSETS = offsets_of()


def pair():
    return [ragged(None, 6, offsets=OFFSETS)[1] for _ in range(2)]


def softmax(x, dim):
    return x.softmax(dim)


# By a name: our function, one of the entry of each tensor, and the arguments.
CASES = {
    "silu": (ours.silu, functional.silu, lambda: pair()[:1]),
    "gelu": (ours.gelu, functional.gelu, lambda: [ragged(2, None, 5, dim=2)[1]]),
    "add": (ours.add, torch.add, pair),
    "add a number": (ours.add, torch.add, lambda: [pair()[0], 2.5]),
    "add a row": (ours.add, torch.add, lambda: [dense(6), pair()[0]]),
    "add by heads": (ours.add, lambda x, y: x + y[0], lambda: [ragged(2, None, 5, dim=2)[1], dense(1, 2, 1, 5)]),
    "swiglu": (ours.swiglu, lambda a, b: functional.silu(a) * b, pair),
    "gated": (lambda a, b: ours.gated(a, b, "relu"), lambda a, b: a.relu() * b, pair),
    "linear": (ours.linear, functional.linear, lambda: [pair()[0], dense(4, 6), dense(4)]),
    "linear of heads": (ours.linear, functional.linear, lambda: [ragged(2, None, 6, dim=2)[1], dense(4, 6)]),
    "rms_norm": (ours.rms_norm, functional.rms_norm, lambda: [ragged(None, 2, 6)[1], (2, 6), dense(2, 6), 1e-5]),
    "layer_norm": (ours.layer_norm, functional.layer_norm, lambda: [pair()[0], (6,), dense(6), dense(6)]),
    "add_rms_norm": (
        lambda x, y, w: ours.add_rms_norm(x, y, w, 1e-5)[0],
        lambda x, y, w: functional.rms_norm(x + y, (6,), w, 1e-5),
        lambda: [*pair(), dense(6)],
    ),
    "softmax of rows": (ours.softmax, lambda x, _: x.softmax(-1), lambda: [pair()[0], -1]),
    "softmax of entries": (ours.softmax, lambda x, _: x.softmax(0), lambda: [pair()[0], 1]),
    "softmax of long entries": (
        ours.softmax,
        lambda x, _: x.softmax(0),
        lambda: [ragged(None, lengths=(700, 3, 0, 2500))[1], -1],
    ),
    "softmax of heads": (ours.softmax, lambda x, _: x.softmax(1), lambda: [ragged(3, None, 70, dim=2)[1], 2]),
}


def entries(value, b):
    """Entry b in float64, a leaf; what is not nested, as it is in float64."""
    if not isinstance(value, torch.Tensor):
        return value
    part = value.unbind()[b] if value.is_nested else value
    return part.detach().double().requires_grad_()


def check(function, reference, given, rtol=1e-5, atol=1e-5):
    """Compare results and gradients with those of each entry; return the result."""
    result = function(*given)
    tensors = [i for i, each in enumerate(given) if isinstance(each, torch.Tensor)]
    weight = torch.randn_like(result.values())
    weights = make(weight, result.offsets(), result.lengths(), jagged_dim=result._ragged_idx).unbind()
    grads = torch.autograd.grad((result.values() * weight).sum(), [given[i] for i in tensors])
    totals = [0.0] * len(tensors)
    for b, got in enumerate(result.unbind()):
        leaves = [entries(each, b) for each in given]
        wanted = reference(*leaves)
        torch.testing.assert_close(got.double(), wanted.detach(), rtol=rtol, atol=atol)
        found = torch.autograd.grad((wanted * weights[b].double()).sum(), [leaves[i] for i in tensors])
        for j, (grad, i) in enumerate(zip(found, tensors)):
            if given[i].is_nested:
                torch.testing.assert_close(grads[j].unbind()[b].double(), grad, rtol=rtol, atol=atol)
            else:
                totals[j] = totals[j] + grad
    for total, grad in zip(totals, grads):
        if isinstance(total, torch.Tensor):
            torch.testing.assert_close(grad.double(), total, rtol=rtol, atol=atol)
    return result


@pytest.fixture
def called(monkeypatch):
    """The names of the operators that ran on values."""
    names, overload = [], nested.overload
    monkeypatch.setattr(nested, "overload", lambda name: names.append(name) or overload(name))
    return names


@pytest.mark.parametrize("name", CASES)
def test_operators_compute_each_entry(name, called):
    torch.manual_seed(0)
    function, reference, make_arguments = CASES[name]
    given = make_arguments()
    first = next(each for each in given if isinstance(each, torch.Tensor) and each.is_nested)
    result = check(function, reference, given)
    assert result.shape[0] == first.shape[0] and result.offsets() is first.offsets()
    assert called or name.startswith("softmax")
    with torch.inference_mode():
        assert torch.equal(function(*given).values(), result.values())


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16, torch.float64))
def test_softmax_of_entries_in_each_type(dtype):
    _, x = ragged(None, 5, dtype=dtype)
    exact = dtype is torch.float64
    check(lambda x: ours.softmax(x, 1), lambda x: x.softmax(0), [x], *(() if exact else (2e-2, 2e-2)))


def test_softmax_of_entries_with_holes_and_of_infinities():
    leaf, x = ragged(None, 5, gap=3)
    with torch.no_grad():
        leaf[5:8], leaf[2, 0] = float("nan"), float("-inf")
    result = check(lambda x: ours.softmax(x, 1), lambda x: x.softmax(0), [x])
    assert not result.values().isnan().any()
    with pytest.raises(ArgumentError, match="from 0 to 1"):
        torch.ops.ninetoothed.softmax_jagged(leaf, x.offsets(), None, 33, 2)


def test_other_entries_of_equal_sizes_are_not_those_of_the_call_before():
    """What is remembered of a call of these sizes on a CPU has the offsets in it."""
    x = torch.randn(6, 3, device=DEVICE)
    for lengths in ((2, 0, 4), (4, 0, 2), (2, 0, 4)):
        found = torch.ops.ninetoothed.softmax_jagged(x, offsets_of(lengths), None, 4, 0)
        expected = torch.cat([each.double().softmax(0) for each in x.split(lengths)])
        torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-6)


def turned(x, sin, cos):
    first, second = x[..., ::2], x[..., 1::2]
    return torch.stack((first * cos - second * sin, first * sin + second * cos), -1).flatten(-2)


def test_rope_begins_anew_with_each_entry():
    _, x = ragged(None, 3, 8)
    sin, cos = torch.randn(2, 40, 4, device=DEVICE).unbind()

    def of_entry(x):
        return turned(x, *(each[: x.shape[0], None].double() for each in (sin, cos)))

    by_position = check(lambda x: ours.rope(x, sin, cos), of_entry, [x])
    places = torch.cat([torch.arange(n, device=DEVICE) for n in LENGTHS])
    tables = [make(each[places], x.offsets()) for each in (sin, cos)]
    assert torch.equal(ours.rope(x, *tables).values(), by_position.values())
    for given, message in (
        ((x, sin[:9], cos[:9]), "tables of 9 positions, and an entry of 33"),
        ((x.transpose(1, 2), sin, cos), r"takes a nested tensor of \(batch, jagged, heads, D\)"),
        ((x, *(make(each[places], x.offsets().clone()) for each in (sin, cos))), "entries are not those of the input"),
        ((x.values()[None], *tables), "nested tables beside a dense input"),
    ):
        with pytest.raises(ArgumentError, match=message):
            ours.rope(*given)


def test_what_does_not_fit_by_rows_is_pytorchs(called):
    """Offsets that differ raise PyTorch's error; what it computes otherwise is its result."""
    x, other = pair()[0], ragged(None, 6)[1]
    for function in (ours.add, torch.add, ours.swiglu):
        with pytest.raises(RuntimeError, match="cannot call binary pointwise function"):
            function(x, other)
    for function in (ours.softmax, torch.softmax):
        with pytest.raises(RuntimeError, match="batch dimension"):
            function(x, 0)
    by_entry = dense(4, 1, 6)
    torch.testing.assert_close(ours.add(x, by_entry).values(), torch.add(x, by_entry).values())
    leaf, holes = ragged(None, 6, gap=2)
    with torch.no_grad():
        leaf[5:7] = float("nan")
    check(ours.silu, functional.silu, [holes])
    assert called == ["silu"]
    with pytest.raises(UnsupportedError, match="takes no nested tensors"):
        torch.ops.ninetoothed.joint_linear(x, [dense(4, 6)], [])


def block(x, weight, up, bias, norm):
    normed = ours.rms_norm(x, (6,), norm)
    hidden = ours.swiglu(ours.linear(normed, weight, bias), ours.linear(normed, up))
    return ours.softmax(ours.add(hidden, ours.gelu(hidden)), 1)


def test_a_graph_of_operators_takes_any_number_of_tokens():
    names, graphs = set(), []

    def seen(graph, inputs):
        graphs.append(graph)
        names.update(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return make_boxed_func(graph)

    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    compiled = torch.compile(block, fullgraph=True, backend=aot_autograd(fw_compiler=seen, bw_compiler=seen))
    parameters = [dense(8, 6), dense(8, 6), dense(8), dense(6)]
    torch._dynamo.reset()
    for lengths in (LENGTHS, (9, 1, 20), (2, 2, 3, 40, 1), (8, 31, 7)):
        _, x = ragged(None, 6, lengths=lengths)
        results = [function(x, *parameters) for function in (block, compiled)]
        weight = torch.randn_like(results[0].values())
        grads = [torch.autograd.grad((each.values() * weight).sum(), [x, *parameters]) for each in results]
        torch.testing.assert_close(results[1].values(), results[0].values())
        found = [[each.values() if each.is_nested else each for each in own] for own in grads]
        torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)
        assert results[1].shape == results[0].shape
    assert {
        f"ninetoothed.{name}.default" for name in ("linear", "swiglu", "rms_norm", "softmax_jagged", "gelu")
    } <= names
    assert len(graphs) <= 6  # Those of forward and backward: static, of any batch, and of any.
    torch._dynamo.reset()


class Attention(nn.Module):
    """Multi-head attention as it is written for nested tensors."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.packed, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        query, key, value = (
            each.unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in self.packed(x).chunk(3, -1)
        )
        return self.out(ours.sdpa(query, key, value, is_causal=True).transpose(1, 2).flatten(-2))


class Layer(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.first, self.second, self.attention = nn.LayerNorm(width), nn.RMSNorm(width), Attention(width, 2)
        self.mlp = nn.Sequential(nn.Linear(width, 32), nn.SiLU(), nn.Linear(32, width))

    def forward(self, x):
        x = x + self.attention(self.first(x))
        return x + self.mlp(self.second(x))


def test_swapped_modules_take_nested_tensors(called):
    torch.manual_seed(0)
    layer = Layer().double()
    leaf, x = ragged(None, 16)
    with torch.no_grad():
        alone = [layer(each.double().cpu()[None])[0].to(DEVICE) for each in x.unbind() if each.shape[0]]
    layer.float().to(DEVICE)
    ours.swap_modules(layer)
    result = layer(x)
    torch.testing.assert_close(result.values().double(), torch.cat(alone), rtol=1e-4, atol=1e-5)
    assert sorted(called) == ["layer_norm", *["linear"] * 4, "rms_norm", "silu"]
    result.values().square().sum().backward()
    grads = [each.grad.clone() for each in layer.parameters()]
    layer.zero_grad()
    for each in leaf.detach().split(LENGTHS):
        layer(each[None]).square().sum().backward()
    torch.testing.assert_close(grads, [each.grad for each in layer.parameters()], rtol=1e-4, atol=1e-4)
    with torch.autocast(torch.device(DEVICE).type, torch.bfloat16):
        torch.testing.assert_close(layer(x).values().double(), torch.cat(alone), rtol=5e-2, atol=5e-2)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        torch.testing.assert_close(compiled(x).values(), result.values(), rtol=1e-5, atol=1e-5)


def test_an_operator_registered_anew_is_the_one_that_runs_on_values():
    twice = registration.register(
        "nested_test::twice(Tensor x) -> Tensor",
        lambda x: torch.empty_like(x),
        lambda output, x: output.copy_(2 * x),
        nested=lambda x: make(torch.ops.nested_test.twice(x.values()), x.offsets()),
    )
    _, x = ragged(None, 3)
    assert torch.equal(twice(x).values(), 2 * x.values())


@pytest.mark.skipif(DEVICE != "cpu", reason="float64 is multiplied on the CPU alone")
@pytest.mark.parametrize("lengths", (None, torch.tensor([2, 0, 3])))
def test_gradients_of_gradients_of_packed_rows(lengths):
    torch.manual_seed(0)
    offsets = torch.tensor([0, 2, 2, 6])
    query, key, value = (torch.randn(heads, 6, 3, dtype=torch.float64, requires_grad=True) for heads in (2, 1, 1))

    def attention(query, key, value):
        entries = offsets, lengths, None, None
        return torch.ops.ninetoothed.sdpa_jagged(query, key, value, *entries, 4, 4, True, 0.7)[0]

    def normalised(x):
        return torch.ops.ninetoothed.softmax_jagged(x, offsets, lengths, 4, 1)

    for function, given in ((attention, (query, key, value)), (normalised, (query,))):
        assert torch.autograd.gradcheck(function, given)
        assert torch.autograd.gradgradcheck(function, given, fast_mode=True)


ROWS = (Tensor(3, jagged_dim=1),)


def centred(x, y):
    y = x - ntl.sum(x, axis=0)[None, :] / x.shape[0]


@pytest.fixture(scope="module")
def centre():
    return ninetoothed.make(lambda *tensors: tuple(t.tile(None, -1, 4) for t in tensors), centred, ROWS * 2)


def registered(centre, name, **options):
    return registration.register(
        f"nested_test::{name}(Tensor x) -> Tensor",
        lambda x: torch.empty_like(x),
        lambda output, x: centre(x, output),
        **options,
    )


def test_kernels_of_jagged_tensors_are_registered(centre):
    """Its own gradient: what is centred has a gradient that is centred."""

    def backward(ctx, grad):
        output = torch.empty_like(grad)
        centre(grad, output)
        return output

    operator = registered(centre, "centre", backward=backward)
    torch.manual_seed(0)
    for given in ({"lengths": (3, 9, 2), "gap": 2}, {"lengths": LENGTHS}):
        _, x = ragged(None, 6, **given)
        check(operator, lambda x: x - x.mean(0), [x])
        with torch.inference_mode():
            assert not operator(x).requires_grad
    doubled = torch.compile(lambda x: 2 * operator(x + 0), backend="eager")
    torch.testing.assert_close(doubled(x).values(), 2 * operator(x).values())
    with pytest.raises(torch._dynamo.exc.Unsupported, match="give `register` a function of them, `nested=`"):
        torch.compile(lambda x: operator(x), backend="eager", fullgraph=True)(x)


def test_a_registered_kernel_without_a_gradient_says_so(centre):
    operator = registered(centre, "centre_alone")
    _, x = ragged(None, 6)
    result = operator(x)
    with pytest.raises(UnsupportedError, match="nested_test::centre_alone has no backward yet"):
        result.values().sum().backward()
