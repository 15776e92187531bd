"""Losses and attention of DTensors, run by `test_processes.py` on two processes: of parts as of the whole."""

import contextlib

import pytest
import torch
from torch.nn import functional

import ninetoothed_ops as ops
from tests.ninetoothed_ops.samples import linear_cross_entropy


def _numbers(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


def _names(count, *shape):
    return torch.randint(count, shape, generator=torch.Generator().manual_seed(0))


# Rows that do not count lie in one part: its mean is of fewer than the other's.
_TARGET = torch.tensor([1, -100, -100, 4, 0, 2])


def _jsd(input, target, labels):
    log_m = torch.logaddexp(input, target) - torch.log(torch.tensor(2.0))
    losses = (input.exp() * (input - log_m) + target.exp() * (target - log_m)).sum(-1) / 2
    return losses[labels != -100].mean()


_attend = functional.scaled_dot_product_attention


def _attention(query, key, value):
    return functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)


# Ours, PyTorch's, tensors, the dimensions along which they are sharded, and how many collectives a forward needs: for
# a mean over rows that count, their number.
CASES = {
    "cross_entropy": (ops.cross_entropy, functional.cross_entropy, (_numbers(6, 5), _TARGET), "00", 1),
    "cross_entropy, weighted": (ops.cross_entropy, functional.cross_entropy,
                                (_numbers(6, 5), _TARGET, _numbers(5).abs()), "00r", None),
    "linear_cross_entropy": (ops.linear_cross_entropy, linear_cross_entropy,
                             (_numbers(6, 4), _numbers(5, 4), _TARGET, _numbers(5)), "0r0r", 1),
    "kl_div": (ops.kl_div, functional.kl_div, (_numbers(5, 4).log_softmax(-1), _numbers(5, 4).softmax(-1)), "00", 0),
    "jsd": (ops.jsd, _jsd, (_numbers(6, 4).log_softmax(-1), _numbers(4, 6).T.log_softmax(-1), _TARGET), "000", 1),
    "sdpa, of entries": (lambda *qkv: ops.sdpa(*qkv, is_causal=True, enable_gqa=True), _attention,
                         (_numbers(2, 4, 3, 4), _numbers(2, 2, 3, 4), _numbers(2, 2, 3, 4)), "000", 0),
    "sdpa, of heads": (lambda *qkv: ops.sdpa(*qkv, is_causal=True, enable_gqa=True), _attention,
                       (_numbers(2, 4, 3, 4), _numbers(2, 2, 3, 4), _numbers(2, 2, 3, 4)), "111", 0),
    "sdpa, of heads that are not cut alike": (lambda *qkv: ops.sdpa(*qkv, is_causal=True, enable_gqa=True), _attention,
                                              (_numbers(2, 6, 3, 4), _numbers(2, 3, 3, 4), _numbers(2, 3, 3, 4)), "111",
                                              None),
    "rope": (lambda x, sin, cos: ops.rope(x, sin, cos, False), None,
             (_numbers(2, 4, 3, 8), _numbers(4, 4), _numbers(4, 4)), "2rr", 0),
    "add_rms_norm": (lambda *args: torch.cat(ops.add_rms_norm(*args, 1e-3)), None,
                     (_numbers(4, 3, 4), _numbers(4, 3, 4), _numbers(4)), "11r", 0),
    "group_norm": (lambda *args: ops.group_norm(args[0], 2, *args[1:]), None,
                   (_numbers(3, 4, 5), _numbers(4), _numbers(4)), "0rr", 0),
}  # fmt: skip


def check_losses(mesh):
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.debug import CommDebugMode

    for name, (ours, theirs, tensors, dims, allowed) in CASES.items():
        # PyTorch's has no gradient of class weights.
        needed = [
            each.is_floating_point() and (name, i) != ("cross_entropy, weighted", 2) for i, each in enumerate(tensors)
        ]
        plain = [each.clone().requires_grad_(is_needed) for each, is_needed in zip(tensors, needed)]
        (expected := (theirs or ours)(*plain)).square().sum().backward()
        placed = [Replicate() if dim == "r" else Shard(int(dim)) for dim in dims]
        given = [distribute_tensor(x, mesh, [place]) for x, place in zip(tensors, placed)]
        given = [each.requires_grad_(is_needed) for each, is_needed in zip(given, needed)]
        with torch.no_grad():
            torch.testing.assert_close(ours(*given).full_tensor(), expected, msg=name)
        with CommDebugMode() as moved:
            output = ours(*given)
        torch.testing.assert_close(output.full_tensor(), expected, msg=name)
        output.full_tensor().square().sum().backward()
        for each, wanted in zip(given, plain):
            if each.requires_grad:
                torch.testing.assert_close(each.grad.full_tensor(), wanted.grad, msg=name)
        assert allowed is None or moved.get_total_counts() == allowed, f"{name}: {moved.get_total_counts()}"


def check_what_is_drawn(mesh):
    """PyTorch draws for the parts of a DTensor, as far as it can tell them apart."""
    from torch.distributed.tensor import Shard, distribute_tensor

    x, heads = _numbers(4, 64), distribute_tensor(_numbers(2, 4, 3, 4), mesh, [Shard(0)])
    found = []
    for ours in (True, False):
        torch.manual_seed(0)
        dropout, attend = (ops.dropout, ops.sdpa) if ours else (functional.dropout, _attend)
        found.append((dropout(distribute_tensor(x, mesh, [Shard(0)]), 0.5), attend(heads, heads, heads, dropout_p=0.5)))
    for each, wanted in zip(*found):
        torch.testing.assert_close(each.full_tensor(), wanted.full_tensor())
    with pytest.raises(NotImplementedError, match="ninetoothed.dropout.default"), torch.no_grad():
        torch.ops.ninetoothed.dropout(heads, 0.5)


def check_sharded_classes(mesh):
    """Within `loss_parallel` rows are not gathered, as PyTorch's cross-entropy does not gather them."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.debug import CommDebugMode
    from torch.distributed.tensor.parallel import loss_parallel

    values = _numbers(6, 8)
    (expected := functional.cross_entropy(plain := values.clone().requires_grad_(), _TARGET)).backward()
    for is_within in (False, True):
        x = distribute_tensor(values, mesh, [Shard(1)]).requires_grad_()
        target = distribute_tensor(_TARGET, mesh, [Replicate()])
        with loss_parallel() if is_within else contextlib.nullcontext(), CommDebugMode() as moved:
            (loss := ops.cross_entropy(x, target)).backward()
        torch.testing.assert_close(loss.full_tensor(), expected)
        torch.testing.assert_close(x.grad.full_tensor(), plain.grad)
        gathered = sum(count for name, count in moved.get_comm_counts().items() if "all_gather" in str(name))
        assert not (is_within and gathered), moved.get_comm_counts()
    x = distribute_tensor(values, mesh, [Shard(1)])
    capped = ops.cross_entropy(x, distribute_tensor(_TARGET, mesh, [Replicate()]), softcap=3.0).full_tensor()
    torch.testing.assert_close(capped, functional.cross_entropy(3 * torch.tanh(values / 3), _TARGET))
