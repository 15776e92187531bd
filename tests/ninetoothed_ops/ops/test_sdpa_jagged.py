"""Attention of nested tensors, with gradients, against attention of each entry in float64."""

import pytest
import torch
from torch.nn import functional

from ninetoothed.errors import ArgumentError, UnsupportedError
from ninetoothed.runtime import jagged
from ninetoothed.runtime.launch_plan import ReplayedFunction
from ninetoothed.runtime.launch_steps import LaunchPlan
from ninetoothed_ops import kernels, sdpa
from ninetoothed_ops.ops import sdpa_jagged, sdpa_nested
from ninetoothed_ops.registration import OPERATORS
from tests.conftest import DEVICE
from tests.ninetoothed.runtime import addresses

SELF, CROSS = ((70, 0, 33, 1, 20), None), ((70, 3, 33, 1), (5, 130, 0, 64))


def offsets_of(lengths, gap=0):
    return torch.tensor([sum(lengths[:b]) + gap * b for b in range(len(lengths) + 1)], device=DEVICE)


def nested(lengths, heads, width, offsets, gap=0, dtype=torch.float32):
    """A nested (batch, heads, jagged, width), transposed as projections are, with NaN between entries."""
    values = torch.full((sum(lengths) + gap * len(lengths), heads, width), float("nan"), device=DEVICE, dtype=dtype)
    for start, length in zip(offsets.tolist(), lengths):
        values[start : start + length] = torch.randn(length, heads, width).to(dtype)
    values.requires_grad_()
    sizes = torch.tensor(lengths, device=DEVICE) if gap else None
    return values, torch.nested.nested_tensor_from_jagged(values, offsets, sizes).transpose(1, 2)


def expected(tensors, lengths, starts, is_causal, scale, window=(-1, -1)):
    """Attention entry by entry: its results, and leaves of float64 that have their gradients."""
    leaves, found = [each.detach().double().nan_to_num().requires_grad_() for each in tensors], []
    for b, (rows, columns) in enumerate(zip(*lengths)):
        parts = [
            leaf[starts[i > 0][b] : starts[i > 0][b] + (columns if i else rows)].transpose(0, 1)
            for i, leaf in enumerate(leaves)
        ]
        group = parts[0].shape[0] // parts[1].shape[0]
        query, key, value = parts[0], *(each.repeat_interleave(group, 0) for each in parts[1:])
        if not columns:
            found.append(query[..., :1].expand(*query.shape[:2], value.shape[-1]) * 0)
            continue
        scores = query @ key.transpose(1, 2) * scale
        if is_causal:
            scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), float("-inf"))
        distance = torch.arange(rows, device=DEVICE)[:, None] - torch.arange(columns, device=DEVICE)
        left, right = (10**6 if bound < 0 else bound for bound in window)
        scores = scores.masked_fill((distance > left) | (distance < -right), float("-inf"))
        found.append(scores.softmax(-1).nan_to_num() @ value)
    return leaves, found


@pytest.mark.parametrize("lengths", (SELF, CROSS), ids=("self", "cross"))
@pytest.mark.parametrize("is_causal", (False, True))
@pytest.mark.parametrize("gap", (0, 3))
def test_attention_of_entries(lengths, is_causal, gap):
    torch.manual_seed(0)
    rows, columns = lengths[0], lengths[1] or lengths[0]
    starts = [offsets_of(rows, gap)]
    starts.append(starts[0] if lengths[1] is None else offsets_of(columns, gap))
    q, query = nested(rows, 4, 16, starts[0], gap)
    # Keys and values share their entries.
    k, key = nested(columns, 2, 16, starts[1], gap)
    v = torch.randn(k.shape[0], 2, 8, device=DEVICE, requires_grad=True)
    value = torch.nested.nested_tensor_from_jagged(v, starts[1], key.lengths()).transpose(1, 2)
    output = sdpa(query, key, value, is_causal=is_causal, scale=0.3, enable_gqa=True)
    leaves, found = expected((q, k, v), (rows, columns), [each.tolist() for each in starts], is_causal, 0.3)
    assert output.offsets() is query.offsets() and tuple(output.shape[:2]) == tuple(query.shape[:2])
    weights = [torch.randn_like(each) for each in found]
    values, loss = output.values(), 0.0
    for start, want, weight in zip(starts[0].tolist(), found, weights):
        own = values[:, start : start + want.shape[1]]
        torch.testing.assert_close(own.double(), want, rtol=1e-4, atol=1e-5)
        loss = loss + (own * weight.float()).sum()
    assert not values.isnan().any()
    got = torch.autograd.grad(loss, (q, k, v))
    wanted = torch.autograd.grad(sum((a * b).sum() for a, b in zip(found, weights)), leaves)
    for each, want in zip(got, wanted):
        torch.testing.assert_close(each.double(), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("window", ((5, 0), (0, 3), (40, 20), (-1, 7), (9, -1)))
@pytest.mark.parametrize("lengths", (SELF, CROSS), ids=("self", "cross"))
@pytest.mark.parametrize("is_causal", (False, True))
def test_windows_within_entries(lengths, is_causal, window):
    torch.manual_seed(0)
    rows, columns = lengths[0], lengths[1] or lengths[0]
    starts = [offsets_of(rows)]
    starts.append(starts[0] if lengths[1] is None else offsets_of(columns))
    q, query = nested(rows, 4, 16, starts[0])
    k, key = nested(columns, 2, 16, starts[1])
    v, value = nested(columns, 2, 16, starts[1])
    output = sdpa(query, key, value, is_causal=is_causal, scale=0.3, enable_gqa=True, window_size=window)
    leaves, found = expected((q, k, v), (rows, columns), [each.tolist() for each in starts], is_causal, 0.3, window)
    wanted = torch.cat(found, 1)
    torch.testing.assert_close(output.values().double(), wanted, rtol=1e-4, atol=1e-5)
    weight = torch.randn_like(wanted)
    got = torch.autograd.grad(output.values(), (q, k, v), weight.float())
    for each, want in zip(got, torch.autograd.grad(wanted, leaves, weight)):
        torch.testing.assert_close(each.double(), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("needed, window", (((1, 2), (9, -1)), ((2,), (-1, -1))))
def test_gradients_of_wide_heads(needed, window):
    """Those of keys and of values have a kernel each, and what is not needed has none."""
    torch.manual_seed(0)
    rows, starts = (5, 0, 70), offsets_of((5, 0, 70))
    q, query = nested(rows, 4, 136, starts, dtype=torch.bfloat16)
    k, key = nested(rows, 2, 136, starts, dtype=torch.bfloat16)
    v, value = nested(rows, 2, 144, starts, dtype=torch.bfloat16)
    output = sdpa(query, key, value, is_causal=True, scale=0.1, enable_gqa=True, window_size=window)
    leaves, found = expected((q, k, v), (rows, rows), [starts.tolist()] * 2, True, 0.1, window)
    weight = torch.randn_like(torch.cat(found, 1)).bfloat16()
    got = torch.autograd.grad(output.values(), [(q, k, v)[i] for i in needed], weight)
    wanted = torch.autograd.grad(torch.cat(found, 1), [leaves[i] for i in needed], weight.double())
    for each, want in zip(got, wanted, strict=True):
        assert (each - want).norm() <= 6e-3 * want.norm()


def test_windows_that_are_none_are_refused():
    _, query = nested((3, 9), 2, 16, offsets_of((3, 9)))
    for window in ((1,), (1.5, 0), (-2, 0), 5):
        with pytest.raises(ArgumentError, match="two integers, from -1 on, but got"):
            sdpa(query, query, query, window_size=window)
    dense = torch.randn(1, 2, 9, 16, device=DEVICE)
    with pytest.raises(UnsupportedError, match="window_size of nested tensors alone"):
        sdpa(dense, dense, dense, window_size=(3, 0))
    with pytest.raises(UnsupportedError, match="neither a mask nor dropout"):
        sdpa(query, query, query, dropout_p=0.5, window_size=(3, 0))


def test_what_is_not_offered_is_pytorchs(monkeypatch):
    calls = []
    monkeypatch.setattr(functional, "scaled_dot_product_attention", lambda *args, **options: calls.append(args))
    starts = offsets_of((3, 5))
    _, query = nested((3, 5), 2, 8, starts)
    _, other = nested((3, 5), 2, 8, starts.clone())
    sdpa(query, query, query, dropout_p=0.5)
    sdpa(query, query, other)
    assert len(calls) == 2


def three(lengths, known=True, starts=None):
    """Leaves and nested tensors, of four heads and of two, that share their entries."""
    starts, known = offsets_of(lengths) if starts is None else starts, {"max_seqlen": max(lengths)} if known else {}
    leaves = [torch.randn(sum(lengths), heads, 16, device=DEVICE, requires_grad=True) for heads in (4, 2, 2)]
    make = torch.nested.nested_tensor_from_jagged
    return leaves, [make(each, starts, **known).transpose(1, 2) for each in leaves]


def results(function, leaves, tensors):
    output = function(*tensors)
    weight = torch.linspace(-1, 1, output.values().numel(), device=DEVICE).view(output.values().shape)
    return output, torch.autograd.grad((output.values() * weight).sum(), leaves)


def causal(query, key, value):
    return sdpa(query, key, value, is_causal=True, enable_gqa=True)


@pytest.mark.skipif(
    torch.__version__.startswith("2.11."),
    reason="PyTorch 2.11 fails on its own guards of nested sizes: 'no attribute add'",
)
@pytest.mark.parametrize("is_known", (True, False))
def test_in_a_graph_of_any_number_of_tokens(is_known, monkeypatch):
    """The graph has our operators: PyTorch's function, which computes the rest, is not called."""
    compiled = torch.compile(causal, fullgraph=True, dynamic=True, backend="aot_eager")
    for lengths in ((3, 5, 70), (9, 1, 20, 31), (17, 3, 90, 20, 0)):
        torch.manual_seed(0)
        leaves, tensors = three(lengths, is_known)
        wanted = results(causal, leaves, tensors)
        with monkeypatch.context() as patch:
            patch.setattr(sdpa_nested, "functional", None)
            got = results(compiled, leaves, tensors)
        assert got[0].shape == wanted[0].shape
        torch.testing.assert_close((got[0].values(), got[1]), (wanted[0].values(), wanted[1]), rtol=1e-5, atol=1e-5)


def test_where_nothing_is_recorded_and_under_autocast(monkeypatch):
    leaves, tensors = three((70, 0, 33))
    wanted, _ = results(causal, leaves, tensors)
    for context in (torch.no_grad, torch.inference_mode):
        with context():
            for output in (causal(*tensors), torch.ops.ninetoothed.sdpa(*tensors, is_causal=True, enable_gqa=True)):
                assert torch.equal(output.values(), wanted.values()) and not output.requires_grad
    taken, gradient = [], sdpa_jagged.gradient
    monkeypatch.setattr(sdpa_jagged, "gradient", lambda *args: taken.append(args[0].dtype) or gradient(*args))
    with torch.autocast(torch.device(DEVICE).type, torch.bfloat16):
        output, grads = results(causal, leaves, tensors)
    assert taken == [torch.bfloat16]
    torch.testing.assert_close(output.values().double(), wanted.values().double(), rtol=2e-2, atol=2e-2)
    assert output.dtype is torch.bfloat16 and all(each.dtype is torch.float32 for each in grads)


def test_a_gradient_of_the_gradient_is_an_error():
    leaves, tensors = three((5, 9))
    (grad,) = torch.autograd.grad(causal(*tensors).values().sum(), leaves[:1], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable|does not require grad"):
        grad.sum().backward()


def test_what_has_no_meaning_beside_nested_tensors_is_an_error():
    _, tensors = three((5, 9))
    with pytest.raises(UnsupportedError, match="no lengths, sinks or softcap beside nested"):
        torch.ops.ninetoothed.sdpa(*tensors, enable_gqa=True, softcap=3.0)
    plain = [torch.randn(heads, 9, 16, device=DEVICE) for heads in (4, 3, 3)]
    with pytest.raises(ArgumentError, match="heads of keys and values"):
        sdpa_jagged.operator(*plain, offsets_of((9,)), None, None, None, 9, 9, False, 1.0)
    with pytest.raises(ArgumentError, match="those of 1 entries and of 2"):
        sdpa_jagged.operator(*(plain[:1] * 3), offsets_of((9,)), None, offsets_of((4, 5)), None, 9, 5, False, 1.0)


@pytest.mark.skipif(DEVICE != "cpu", reason="the addresses are those of the CPU")
def test_what_is_replayed_reads_the_offsets_of_each_call(monkeypatch):
    """A plan is for offsets of any values; keys that share those of the queries get plans of their own."""
    makers = [getattr(kernels, name).make for name in ("sdpa_with_lse", "sdpa_backward_delta", "sdpa_backward_query")]
    for make in (*makers, kernels.sdpa_backward_key_value.make):
        make.cache_clear()
    addresses.use(monkeypatch)
    forward, backward = (
        ReplayedFunction(each.allocate, each.launch)
        for each in map(OPERATORS.get, ("ninetoothed::sdpa_jagged", "ninetoothed::sdpa_jagged_backward"))
    )
    query, key, value, grad = (torch.randn(heads, 32, 16) for heads in (4, 2, 2, 4))
    sets = [torch.tensor(each) for each in ([0, 20, 32], [0, 12, 32], [0, 16, 32])]
    for offsets, others in ((0, None), (0, None), (0, 1), (0, 1), (0, 0), (1, None), (1, 2), (2, 2), (2, None)) * 2:
        entries = sets[offsets], None, None if others is None else sets[others], None
        options = 20, 20, True, 0.3
        given = query, key, value, *entries
        output, lse = forward(*given, *options)
        grads = backward(*given, grad, output, lse, *options, [True, True, True])
        bounds = [each.tolist() for each in (sets[offsets], sets[offsets if others is None else others])]
        lengths = [torch.tensor(each).diff().tolist() for each in bounds]
        leaves, found = expected([each.transpose(0, 1) for each in (query, key, value)], lengths, bounds, True, 0.3)
        wanted = torch.autograd.grad(torch.cat(found, 1), leaves, grad.double())
        torch.testing.assert_close(output.double(), torch.cat(found, 1), rtol=1e-4, atol=1e-5)
        for each, want in zip(grads, wanted):
            torch.testing.assert_close(each.double(), want.transpose(0, 1), rtol=1e-4, atol=1e-5)
    plans = [*forward.calls._known.values(), *backward.calls._known.values()]
    assert len(plans) == 6 and all(isinstance(each, LaunchPlan) for each in plans)
    for make in (*makers, kernels.sdpa_backward_key_value.make):
        make.cache_clear()


def test_the_longest_entry_is_not_read_while_a_graph_is_captured(monkeypatch):
    monkeypatch.setattr(jagged, "is_captured", lambda tensor: True)
    _, query = nested((3, 9), 2, 16, offsets_of((3, 9)))
    with pytest.raises(ArgumentError, match="longest entry is not known.*captured"):
        sdpa(query, query, query)


def test_the_kernels_compile():
    """For Hopper, without spills; the text ends programs past the end of an entry."""
    pytest.importorskip("triton")
    from ninetoothed.runtime.dispatch import launcher_of
    from ninetoothed.runtime.executable import compile_for_gpu
    from ninetoothed.runtime.selection import machine
    from ninetoothed_ops.kernels import sdpa_with_lse

    values = torch.empty(2000, 8, 64, dtype=torch.float16).transpose(0, 1)
    rows = sdpa_jagged.Entries(torch.tensor([0, 1000, 1000, 2000]), None, 1000)
    lse = torch.empty(8, 2000, 1)
    kernel, cut = sdpa_with_lse.make(jagged_dim=2), rows.cut(values, values, values, torch.empty_like(values), lse, lse)
    unread = sdpa_jagged._not_read(values, rows, rows)
    arguments = *cut[:3], *unread, 0, 0.125, 0.0, *cut[3:], 0, True, False, False, False
    variant = launcher_of(kernel).trace(arguments, {}, machine.H200)
    compiled = compile_for_gpu(kernel.definition, variant)
    assert compiled.spills == 0 and "< query_length:\n" in compiled.emitted.source
