# ruff: noqa: B023 - the functions are called in the round that makes them
"""Norms of channels, embedding, dropout and divergences: PyTorch's functions in float64, every type, odd layouts."""

import itertools

import pytest
import torch
import torch.nn.functional as F

import ninetoothed_ops as ops
from ninetoothed.errors import ArgumentError, UnsupportedError
from tests.conftest import DEVICE
from tests.ninetoothed_ops.samples import EXACT

TOLERANCES = {torch.float32: 2e-5, torch.float16: 6e-3, torch.bfloat16: 4e-2, torch.float64: 1e-11}
NAN = float("nan")


def r(*shape, dtype=torch.float64):
    return torch.randn(shape, dtype=torch.float64, device=DEVICE).to(dtype)


def leaf(tensor):
    return None if tensor is None else tensor.detach().clone(memory_format=torch.preserve_format).requires_grad_()


def check(function, reference, tensors, dtype, tolerance=None):
    """Compare a result and all gradients with those of a reference in float64, on the CPU: PyTorch's fail on GPUs for
    an empty embedding, and for a norm of one vector in another type."""
    tolerance = tolerance or TOLERANCES[dtype]
    own, wide = (
        [leaf(each) for each in tensors],
        [leaf(None if each is None else each.double().cpu()) for each in tensors],
    )
    found, expected = function(*own), reference(*wide)
    torch.testing.assert_close(found.double().cpu(), expected, rtol=tolerance, atol=tolerance, equal_nan=True)
    grad = r(*expected.shape, dtype=found.dtype)
    given = [[each for each in values if each is not None] for values in (own, wide)]
    grads = torch.autograd.grad(found, given[0], grad), torch.autograd.grad(expected, given[1], grad.double().cpu())
    for of_own, of_wide, tensor in zip(*grads, given[0]):
        assert of_own.dtype == tensor.dtype and of_own.shape == tensor.shape
        of_own = of_own.double().cpu()
        assert torch.equal(of_own.isnan(), of_wide.isnan())
        far = (of_own - of_wide).nan_to_num().norm()
        assert far <= 2 * tolerance * of_wide.nan_to_num().norm().clamp(min=1)
    return found


def laid_out(x, layout):
    if layout == "channels last" and x.ndim == 4:
        return x.to(memory_format=torch.channels_last)
    return torch.stack((x, x), -1)[..., 0] if layout == "sliced" else x


SHAPES = (
    ((2, 6, 3, 5), 2),
    ((2, 8, 1100), 4),
    ((1, 6, 40, 27), 3),
    ((3, 4), 2),
    ((2, 6, 3, 1, 5), 1),
    ((3, 70, 5, 5), 70),
)


def in_pytorch(x, groups, weight, bias):
    """PyTorch's norm of groups with both vectors, without one of which its gradient fails in 2.11."""
    weight = x.new_ones(x.shape[1]) if weight is None else weight
    return F.group_norm(x, groups, weight, x.new_zeros(x.shape[1]) if bias is None else bias, 1e-3)


def in_turn(cases, shape, dtype):
    """All cases for float32; of another type every other one, those between for the next shape."""
    place = [each for each, _ in SHAPES].index(shape)
    return cases if dtype is torch.float32 else cases[(place + list(TOLERANCES).index(dtype)) % 2 :: 2]


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("shape, groups", SHAPES)
def test_group_norm(shape, groups, dtype):
    cases = tuple(zip(("contiguous", "channels last", "sliced"), ((1, 1), (1, 0), (0, 1))))
    for layout, vectors in in_turn(cases, shape, dtype):
        x = laid_out(3 + r(*shape, dtype=dtype), layout)
        weight, bias = (r(shape[1], dtype=dtype) if each else None for each in vectors)
        own = check(
            lambda x, w, b: ops.group_norm(x, groups, w, b, 1e-3),
            lambda x, w, b: in_pytorch(x, groups, w, b),
            (x, weight, bias),
            dtype,
        )
        # On GPUs the results of PyTorch's are contiguous.
        theirs = F.group_norm(x.cpu(), groups, *(each if each is None else each.cpu() for each in (weight, bias)))
        assert layout == "sliced" or own.stride() == theirs.stride()


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("shape", [shape for shape, _ in SHAPES])
def test_batch_norm(shape, dtype):
    layouts = ("contiguous", "channels last", "sliced") if len(shape) == 4 else ("contiguous", "sliced")
    for training, layout in in_turn(tuple(itertools.product((False, True), layouts)), shape, dtype):
        x = laid_out(3 + r(*shape, dtype=dtype), layout)
        weight, bias = r(shape[1], dtype=dtype), r(shape[1], dtype=dtype) if training else None
        running = [r(shape[1], dtype=dtype), r(shape[1], dtype=dtype).abs() + 0.5]
        wide = [each.double().cpu() for each in running]
        own = check(
            lambda x, w, b: ops.batch_norm(x, *running, w, b, training, 0.3, 1e-3),
            lambda x, w, b: F.batch_norm(x, *wide, w, b, training, 0.3, 1e-3),
            (x, weight, bias),
            dtype,
        )
        for each, expected in zip(running, wide):
            torch.testing.assert_close(each.double().cpu(), expected, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])
        if layout != "sliced":
            assert own.stride() == F.batch_norm(x, *running, weight, bias, training).stride()


def test_means_far_from_zero_lose_nothing():
    x = 1000 + r(2, 4, 1500, dtype=torch.float32)
    for own, theirs in (
        (ops.group_norm(x, 2), F.group_norm(x.double(), 2)),
        (ops.batch_norm(x, None, None, training=True), F.batch_norm(x.double(), None, None, training=True)),
    ):
        torch.testing.assert_close(own.double(), theirs, rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("index", (torch.int64, torch.int32))
def test_embedding(dtype, index):
    for shape, rows, columns in (((3, 11), 7, 70), ((0,), 3, 4), ((), 4, 3), ((2, 50), 200, 1), ((90,), 3, 130)):
        table, ids = r(columns, rows, dtype=dtype).mT, torch.randint(rows, shape, dtype=index, device=DEVICE)
        for options in ({}, {"padding_idx": -1}, {"padding_idx": 0, "scale_grad_by_freq": True}):
            check(
                lambda w: ops.embedding(ids, w, **options),
                lambda w: F.embedding(ids.cpu(), w, **options),
                (table,),
                dtype,
            )


def test_embedding_refuses_or_raises_what_pytorch_raises():
    table, ids = r(5, 3), torch.tensor([0, 4], device=DEVICE)
    with pytest.raises(UnsupportedError, match="ninetoothed::embedding has no sparse gradient"):
        ops.embedding(ids, table, sparse=True)
    with pytest.raises(AssertionError, match="within num_embeddings"):
        ops.embedding(ids, table, padding_idx=5)
    with pytest.raises(RuntimeError, match="scalar types"):
        ops.embedding(ids.double(), table)
    far = torch.tensor([1, 5], device=DEVICE)
    if DEVICE == "cpu":
        with pytest.raises(IndexError):
            ops.embedding(far, table)
    else:
        assert ops.embedding(far, table).isnan().tolist() == [[False] * 3, [True] * 3]
    own, theirs = table.clone() * 9, table.clone() * 9
    found, expected = (f(ids, w, max_norm=1.0) for f, w in ((ops.embedding, own), (F.embedding, theirs)))
    assert torch.equal(found, expected) and torch.equal(own, theirs)


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_dropout_is_a_function_of_seed_and_place(dtype):
    seed, drop = torch.tensor(2**40 + 7, device=DEVICE), torch.ops.ninetoothed.dropout_of_seed
    image = r(4, 6, 8, 10, dtype=dtype)
    for x in (r(7, 33, 5, dtype=dtype), image.to(memory_format=torch.channels_last), image[:, ::2, 1::3].mT):
        x = leaf(x)
        found, plain = drop(x, seed, 0.3), drop(x.detach().contiguous(), seed, 0.3)
        assert torch.equal(found, plain) and found.stride() == torch.empty_like(x).stride()
        expected = torch.where(found != 0, x.double() / 0.7, 0)
        torch.testing.assert_close(found.double(), expected, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])
        (grad,) = torch.autograd.grad(found, x, torch.ones_like(found))
        assert torch.equal(grad != 0, found != 0)


def test_neighbours_are_dropped_apart():
    """Each of the four numbers of a draw is of one element, and no draw is another's."""
    seed, ones = torch.tensor(3, device=DEVICE), torch.ones(1 << 16, device=DEVICE)
    kept = (torch.ops.ninetoothed.dropout_of_seed(ones, seed, 0.5) != 0).double().view(-1, 4)
    together = kept.T @ kept / len(kept)
    assert ((kept.mean(0) - 0.5).abs() < 0.02).all() and ((together - 0.25)[together < 0.4].abs() < 0.02).all()
    assert (together > 0.4).sum() == 4 and len(kept.view(-1, 32).unique(dim=0)) == len(kept) / 8
    assert ((kept[1:] * kept[:-1]).mean(0) - 0.25).abs().max() < 0.02


def test_dropout_draws_from_the_generator():
    x, shares = torch.ones(40000, device=DEVICE), []
    for p in (0.1, 0.5):
        torch.manual_seed(3)
        first = ops.dropout(x, p)
        torch.manual_seed(3)
        assert torch.equal(first, ops.dropout(x, p)) and not torch.equal(first, ops.dropout(x, p))
        shares.append((first == 0).double().mean().item())
    assert abs(shares[0] - 0.1) < 0.006 and abs(shares[1] - 0.5) < 0.01
    assert ops.dropout(x, 0.5, training=False) is x and ops.dropout(x, 0.0) is x
    assert ops.dropout(torch.tensor([NAN, 1.0], device=DEVICE), 1.0).isnan().tolist() == [True, False]
    with pytest.raises(ValueError, match="between 0 and 1"):
        ops.dropout(x, 1.5)
    own = x.clone()
    assert ops.dropout(own, 0.5, True, True) is own and (own == 0).any()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("log_target", (False, True))
def test_kl_div(dtype, log_target):
    for shape in ((7, 33), (3, 5, 11), (0, 4), (4, 0), (), (2, 9001)):
        x, target = r(*shape).sigmoid().log().to(dtype), r(*shape).abs().to(dtype)
        if target.numel() > 3:
            target.view(-1)[1] = 0
        target = target.log() if log_target else target
        x = x.t().contiguous().t() if x.ndim == 2 else x
        for reduction in ("none", "mean", "sum", "batchmean"):
            options = {"reduction": reduction, "log_target": log_target}
            check(lambda *t: ops.kl_div(*t, **options), lambda *t: F.kl_div(*t, **options), (x, target), dtype)
    wide, row = r(3, 4).sigmoid().log(), r(4).abs()
    torch.testing.assert_close(ops.kl_div(wide, row, reduction="batchmean"), F.kl_div(wide, row, reduction="batchmean"))


def written_out(x, target, labels, beta, reduction):
    """The definition: of each row, the two divergences from the mixture."""
    p, q = target.exp(), x.exp()
    mixture = (beta * p + (1 - beta) * q).log()
    rows = beta * (p * (target - mixture)).sum(-1) + (1 - beta) * (q * (x - mixture)).sum(-1)
    if beta in (0, 1):
        rows = (q * (x - target) if beta else p * (target - x)).sum(-1)
    rows = torch.where(labels == -100, 0, rows)
    return {"none": rows, "sum": rows.sum(), "mean": rows.sum() / (labels != -100).sum()}[reduction]


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("beta", (0.0, 0.2, 1.0))
def test_jsd(dtype, beta):
    for shape in ((7, 33), (3, 5, 11), (9,), (2, 9001)):
        x, target = (r(*shape).log_softmax(-1).to(dtype) for _ in range(2))
        x = x.t().contiguous().t() if x.ndim == 2 else x
        labels = torch.zeros(shape[:-1], dtype=torch.int64, device=DEVICE)
        labels.view(-1)[1::2] = -100
        for reduction in ("none", "mean", "sum"):
            check(
                lambda *t: ops.jsd(*t, labels, beta=beta, reduction=reduction),
                lambda *t: written_out(*t, labels.cpu(), beta, reduction),
                (x, target),
                dtype,
            )
    whole = ops.jsd(x, target, beta=beta)
    torch.testing.assert_close(whole, ops.jsd(x, target, torch.zeros_like(labels), beta=beta))


def test_jsd_of_what_cannot_be_and_of_bad_arguments():
    impossible, x = torch.tensor([[-float("inf"), 0.0]], device=DEVICE), torch.tensor([[-1.0, -2.0]], device=DEVICE)
    assert ops.jsd(impossible, impossible).item() == 0 and ops.jsd(impossible, x, beta=0.0).item() == float("inf")
    for bad in ({"beta": 1.5}, {"labels": torch.zeros(3, device=DEVICE, dtype=torch.int64)}, {"reduction": "all"}):
        with pytest.raises(ArgumentError, match="ninetoothed::jsd takes"):
            ops.jsd(x, x, **bad)


CALLS = {
    "batch_norm": (lambda x, *v: ops.batch_norm(x, None, None, *v, training=True), (r(3, 4, 2), r(4), r(4))),
    "dropout": (lambda x: ops.dropout(x, 0.5), (r(3, 4),)),
    "embedding": (lambda w: ops.embedding(torch.tensor([[0, 2], [2, 1]], device=DEVICE), w, 3).square(), (r(4, 3),)),
    "group_norm": (lambda x, *v: ops.group_norm(x, 2, *v), (r(2, 4, 3), r(4), r(4))),
    "jsd": (lambda *t: ops.jsd(*t, beta=0.3), tuple(r(2, 3).log_softmax(-1) for _ in range(2))),
    "kl_div": (lambda *t: ops.kl_div(*t, reduction="batchmean"), (r(2, 3), r(2, 3).sigmoid())),
}


@pytest.mark.parametrize("name", CALLS)
def test_numerical_gradients(name):
    function, tensors = CALLS[name]
    if EXACT is not torch.float64:
        pytest.skip("differences need float64 of all operators")

    def same_draw(*given):
        torch.manual_seed(0)
        return function(*given)

    leaves = tuple(map(leaf, tensors))
    assert torch.autograd.gradcheck(same_draw, leaves) and torch.autograd.gradgradcheck(same_draw, leaves)


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("name", CALLS)
def test_compiled_in_one_graph(name, dtype):
    function, tensors = CALLS[name]
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True, dynamic=True)
    found = []
    for called in (compiled, function):
        torch.manual_seed(5)
        leaves = [leaf(each.to(dtype)) for each in tensors]
        output = called(*leaves)
        found.append((output, *torch.autograd.grad(output.float().square().sum(), leaves)))
    assert all(torch.equal(*pair) for pair in zip(*found))
    torch._dynamo.reset()


@pytest.mark.parametrize(
    "name",
    ("batch_norm", "batch_norm_training", "dropout_of_seed", "embedding", "group_norm", "jsd", "kl_div"),
)
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_opcheck(name, dtype):
    from tests.ninetoothed_ops import every

    args, *kwargs = next(call for root, *call in every.roots(dtype) if root == name)
    torch.library.opcheck(every.overload(name), args, *kwargs)


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides:UserWarning")
@pytest.mark.parametrize("reduction", ("none", "sum", "mean", "batchmean"))
def test_kl_div_is_of_float32_under_autocast(reduction):
    x, target = (r(4, 8).bfloat16() for _ in range(2))
    with torch.autocast(DEVICE, torch.bfloat16):
        found = ops.kl_div(x, target.sigmoid(), reduction=reduction)
        expected = F.kl_div(x, target.sigmoid(), reduction=reduction)
    assert found.dtype == expected.dtype == torch.float32
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("shape", ((0, 3), (0, 3, 4), (2, 3, 0), (0, 3, 4, 5)))
@pytest.mark.parametrize("training", (True, False))
def test_batch_norm_of_nothing_leaves_the_running_statistics(shape, training):
    results = []
    for function in (F.batch_norm, ops.batch_norm):
        mean, variance = torch.ones(3), torch.ones(3)
        leaves = [torch.zeros(shape, requires_grad=True), *(torch.ones(3, requires_grad=True) for _ in range(2))]
        output = function(leaves[0], mean, variance, *leaves[1:], training)
        results.append((output, mean, variance, *torch.autograd.grad(output.sum(), leaves)))
    assert all(map(torch.equal, *results))


# Of the operators whose backward could write over what it gets or kept.
KEEPING = {
    "rms_norm": (lambda x, w: ops.rms_norm(x, (16,), w), ((6, 16), (16,))),
    "rope": (lambda x: ops.rope(x, ANGLES, ANGLES), ((2, 6, 2, 16),)),
    "swiglu": (ops.swiglu, ((6, 16), (6, 16))),
    "gated": (lambda gate, up: ops.gated(gate, up, "gelu"), ((6, 16), (6, 16))),
    "silu": (ops.silu, ((6, 16),)),
    "dropout": (lambda x: ops.dropout(x, 0.3, True), ((6, 16),)),
}
ANGLES = torch.linspace(-1, 1, 48, device=DEVICE).view(6, 8)


@pytest.mark.parametrize("name", KEEPING)
def test_a_backward_writes_over_nothing(name):
    function, shapes = KEEPING[name]
    inputs = [torch.randn(shape, device=DEVICE, requires_grad=True) for shape in shapes]
    output = function(*inputs)
    grad = torch.randn_like(output)
    kept = [each.detach().clone() for each in (*inputs, output, grad)]
    first = torch.autograd.grad(output, inputs, grad, retain_graph=True)
    found = [each.clone() for each in first]
    second = torch.autograd.grad(output, inputs, grad)
    assert all(map(torch.equal, (*inputs, output, grad), kept))
    assert all(map(torch.equal, first, found)) and all(map(torch.equal, second, found))
