"""Operators of DTensors on two processes: what one computes, with no more traffic than PyTorch's."""

import itertools
import os
import socket

import pytest
import torch
from torch.nn import functional

import ninetoothed_ops as ops

WORLD = 2


def _tensors(*shapes):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def _swiglu(gate, up):
    return functional.silu(gate) * up


# Of each operator: our function, PyTorch's, the shapes of its tensors, and its other arguments. Those of `again` differ
# from what PyTorch has remembered a call with.
CASES = {
    "silu": (ops.silu, functional.silu, [(6, 4)], {}),
    "gelu": (ops.gelu, functional.gelu, [(6, 4)], {}),
    "gelu-tanh": (ops.gelu, functional.gelu, [(6, 4)], {"approximate": "tanh"}),
    "add": (ops.add, torch.add, [(6, 4), (6, 4)], {}),
    "add-alpha": (ops.add, torch.add, [(6, 4), (6, 4)], {"alpha": 3}),
    "add-broadcast": (ops.add, torch.add, [(2, 6, 4), (6, 1)], {}),
    "swiglu": (ops.swiglu, _swiglu, [(6, 4), (6, 4)], {}),
    "softmax": (ops.softmax, torch.softmax, [(6, 4)], {"dim": -1}),
    "softmax-first": (ops.softmax, torch.softmax, [(6, 4)], {"dim": 0}),
    "mm": (ops.mm, torch.mm, [(6, 4), (4, 8)], {}),
    "bmm": (ops.bmm, torch.bmm, [(2, 6, 4), (2, 4, 8)], {}),
    "addmm": (ops.addmm, torch.addmm, [(8,), (6, 4), (4, 8)], {"beta": 2, "alpha": 3}),
    "addmm-again": (ops.addmm, torch.addmm, [(8,), (6, 4), (4, 8)], {"beta": 3, "alpha": 2}),
    "linear": (ops.linear, functional.linear, [(2, 6, 4), (8, 4), (8,)], {}),
    "linear-unbiased": (ops.linear, functional.linear, [(6, 4), (8, 4)], {}),
}


def _placements(shape):
    from torch.distributed.tensor import Replicate, Shard

    return [Replicate(), *(Shard(dim) for dim, size in enumerate(shape) if size > 1)]


def _outcome(function, tensors, options, mesh, placements):
    """Give result and gradients, whole, with the placement of the result and what was moved for it."""
    from torch.distributed.tensor import distribute_tensor
    from torch.distributed.tensor.debug import CommDebugMode

    given = [distribute_tensor(*each) for each in zip(tensors, [mesh] * len(tensors), [[p] for p in placements])]
    given = [each.requires_grad_() for each in given]
    with CommDebugMode() as moved:
        output = function(*given, **options)
    (whole := output.full_tensor()).backward(_tensors(whole.shape)[0])
    return [whole, *(each.grad.full_tensor() for each in given)], output.placements, moved.get_total_counts()


def _check(mesh):
    for name, (ours, theirs, shapes, options) in CASES.items():
        tensors = _tensors(*shapes)
        plain = [each.clone().requires_grad_() for each in tensors]
        (output := theirs(*plain, **options)).backward(_tensors(output.shape)[0])
        expected = [output, *(each.grad for each in plain)]
        for placements in itertools.product(*map(_placements, shapes)):
            found, placed, moved = _outcome(ours, tensors, options, mesh, placements)
            for each, wanted in zip(found, expected, strict=True):
                torch.testing.assert_close(each, wanted, rtol=1e-6, atol=1e-6, msg=f"{name} of {placements}")
            _, wanted_place, allowed = _outcome(theirs, tensors, options, mesh, placements)
            assert moved <= allowed, f"{name} of {placements}: {moved} collectives, {allowed} of PyTorch's"
            if moved == allowed == 0 and name != "swiglu":
                assert placed == wanted_place, f"{name} of {placements}: {placed}, and PyTorch's is {wanted_place}"


def _check_partial_sums(mesh):
    """Sums of partial sums stay partial: the sum of two row-parallel layers moves nothing."""
    from torch.distributed.tensor import Shard, distribute_tensor
    from torch.distributed.tensor.debug import CommDebugMode

    x, weight = _tensors((6, 4), (8, 4))
    args = distribute_tensor(x, mesh, [Shard(1)]), distribute_tensor(weight, mesh, [Shard(1)])
    with CommDebugMode() as moved:
        total = ops.add(ops.linear(*args), ops.linear(*args), alpha=2)
    assert moved.get_total_counts() == 0 and total.placements[0].is_partial()
    torch.testing.assert_close(total.full_tensor(), 3 * x @ weight.T)


def _check_without_a_rule(mesh):
    from torch.distributed.tensor import Replicate, distribute_tensor

    with pytest.raises(NotImplementedError, match="ninetoothed.rms_norm.default"):
        ops.rms_norm(distribute_tensor(_tensors((6, 4))[0], mesh, [Replicate()]), (4,))


def _run(rank, port):
    import torch.distributed as distributed
    from torch.distributed.device_mesh import init_device_mesh

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(WORLD))
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (WORLD,))
    for check in (_check, _check_partial_sums, _check_without_a_rule):
        check(mesh)
    distributed.destroy_process_group()


def test_two_processes_compute_what_one_does():
    if not torch.distributed.is_available():
        pytest.skip("PyTorch was built without torch.distributed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(_run, (port,), nprocs=WORLD)
