"""Operators of DTensors on two processes: what one computes, with no more traffic than PyTorch's."""

import itertools
import os
import socket
import sys
from functools import partial

import pytest
import torch
from torch.nn import functional

import ninetoothed_ops as ops
from tests import forked
from tests.ninetoothed_ops.sharding.losses import check_losses, check_sharded_classes, check_what_is_drawn
from tests.ninetoothed_ops.sharding.models import (
    check_compiled,
    check_context_parallel,
    check_models,
    check_sequence_parallel,
)

WORLD = 2


def _tensors(*shapes):
    """Numbers of these shapes; of one that begins with a string, as many classes, named in the shape of the rest."""
    return [_named(*shape) if isinstance(shape[0], str) else _numbers(shape, i) for i, shape in enumerate(shapes)]


def _numbers(shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _named(count, *shape):
    return torch.randint(int(count), shape, generator=torch.Generator().manual_seed(0))


def _swiglu(gate, up):
    return functional.silu(gate) * up


def _rms_norm(input, weight, norm=functional.rms_norm):
    return norm(input, (4,), weight)


def _layer_norm(input, weight, bias, norm=functional.layer_norm):
    return norm(input, (4,), weight, bias)


def _embedding(weight, indices, function=functional.embedding):
    return function(indices, weight)


_OURS = {"rms_norm": partial(_rms_norm, norm=ops.rms_norm), "layer_norm": partial(_layer_norm, norm=ops.layer_norm)}
_OURS["embedding"] = partial(_embedding, function=ops.embedding)
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
    "rms_norm": (_OURS["rms_norm"], _rms_norm, [(2, 6, 4), (4,)], {}),
    "layer_norm": (_OURS["layer_norm"], _layer_norm, [(2, 6, 4), (4,), (4,)], {}),
    "embedding": (_OURS["embedding"], _embedding, [(8, 4), ("8", 2, 6)], {}),
    "cross_entropy-none": (ops.cross_entropy, functional.cross_entropy, [(6, 4), ("4", 6)], {"reduction": "none"}),
    "conv2d": (ops.conv2d, functional.conv2d, [(2, 4, 5, 5), (6, 4, 3, 3), (6,)], {"padding": 1}),
    "kl_div-none": (ops.kl_div, functional.kl_div, [(6, 4), (6, 4)], {"reduction": "none", "log_target": True}),
}
# Where PyTorch computes by several operators, or another case has all placements, those of the tensors: the numbers of
# dimensions, "r" for replicated.
PLACED = {
    "add-alpha": "rr 00",
    "addmm-again": "rrr r0r r11 rr1",
    "linear-unbiased": "rr 0r r0 11",
    "rms_norm": "rr 0r 1r",
    "layer_norm": "rrr 0rr 1rr 2rr",
    "embedding": "rr 1r r0 r1 10",
    "cross_entropy-none": "rr 0r 00 r0 10",
    "conv2d": "rrr 0rr",
    "kl_div-none": "rr 00 11 r0 01",
}


def _placements(name, tensors):
    from torch.distributed.tensor import Replicate, Shard

    if name in PLACED:
        return [[Replicate() if dim == "r" else Shard(int(dim)) for dim in each] for each in PLACED[name].split()]
    own = ([Replicate(), *(Shard(dim) for dim, size in enumerate(each.shape) if size > 1)] for each in tensors)
    return list(itertools.product(*own))


def _outcome(function, tensors, options, mesh, placements):
    """Give result and gradients, whole, with the placement of the result and what was moved for it."""
    from torch.distributed.tensor import distribute_tensor
    from torch.distributed.tensor.debug import CommDebugMode

    given = [distribute_tensor(*each) for each in zip(tensors, [mesh] * len(tensors), [[p] for p in placements])]
    given = [each.requires_grad_(each.is_floating_point()) for each in given]
    with CommDebugMode() as moved:
        output = function(*given, **options)
    (whole := output.full_tensor()).backward(_tensors(whole.shape)[0])
    return (
        [whole, *(each.grad.full_tensor() for each in given if each.requires_grad)],
        output.placements,
        moved.get_total_counts(),
    )


def _check(mesh):
    for name, (ours, theirs, shapes, options) in CASES.items():
        tensors = _tensors(*shapes)
        plain = [each.clone().requires_grad_(each.is_floating_point()) for each in tensors]
        (output := theirs(*plain, **options)).backward(_tensors(output.shape)[0])
        expected = [output, *(each.grad for each in plain if each.requires_grad)]
        for placements in _placements(name, tensors):
            try:
                _, wanted_place, allowed = _outcome(theirs, tensors, options, mesh, placements)
            except RuntimeError as reason:
                # PyTorch 2.11 views no tensor whose second dimension is sharded as rows, its own linear's neither.
                assert "Attempted to flatten multiple dimensions" in str(reason), f"{name} of {placements}: {reason}"
                continue
            found, placed, moved = _outcome(ours, tensors, options, mesh, placements)
            for each, wanted in zip(found, expected, strict=True):
                torch.testing.assert_close(each, wanted, rtol=1e-6, atol=1e-6, msg=f"{name} of {placements}")
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

    x = distribute_tensor(_tensors((6, 4))[0], mesh, [Replicate()])
    with pytest.raises(NotImplementedError, match="ninetoothed.joint_linear.default"):
        torch.ops.ninetoothed.joint_linear(x, [x, x], [])


def _check_what_is_written(mesh):
    """A cache is written where it lies, whatever is moved for it, or not at all."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    names = (2, 3, 4, 6), (2, 3, 2, 6), (2, 3, 2, 6), (3, 3), (3, 3), (2, 2, 5, 6), (2, 2, 5, 6)
    *tensors, keys, values = _tensors(*names)
    slots, whole = torch.tensor([4, 0, 2]), (keys.clone(), values.clone())
    expected = torch.ops.ninetoothed.rope_into_cache(*tensors, slots, *whole)
    table = [Replicate()] * 2
    for heads, place in itertools.product((Shard(2), Shard(0), Replicate()), (Shard(1), Shard(0), Replicate())):
        given = [distribute_tensor(each, mesh, [p]) for each, p in zip(tensors, [heads] * 3 + table)]
        cache = [distribute_tensor(each, mesh, [place]) for each in (keys, values)]
        slots_of_all = distribute_tensor(slots, mesh, [Replicate()])
        output = torch.ops.ninetoothed.rope_into_cache(*given, slots_of_all, *cache)
        for found, wanted in zip((output, *cache), (expected, *whole)):
            torch.testing.assert_close(found.full_tensor(), wanted)
    cache = [distribute_tensor(each, mesh, [Shard(2)]) for each in (keys, values)]
    with pytest.raises((NotImplementedError, RuntimeError), match="writes to keys, values"):
        torch.ops.ninetoothed.rope_into_cache(*given, slots_of_all, *cache)


def _run(rank, port):
    import torch.distributed as distributed
    from torch.distributed.device_mesh import init_device_mesh

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(WORLD))
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (WORLD,))
    checks = (
        _check,
        _check_partial_sums,
        _check_without_a_rule,
        _check_what_is_written,
        check_losses,
        check_what_is_drawn,
        check_sharded_classes,
    )
    for check in (*checks, check_sequence_parallel, check_models, check_context_parallel, check_compiled):
        check(mesh)
    distributed.destroy_process_group()


def test_two_processes_compute_what_one_does():
    if not torch.distributed.is_available():
        pytest.skip("PyTorch was built without torch.distributed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # The processes are forks of one that has imported what both need; their mesh is of CPUs.
    done = forked.run_script(__file__, str(port), CUDA_VISIBLE_DEVICES="")
    assert done.status == "0", done.stderr


if __name__ == "__main__":
    import torch.distributed.tensor
    from transformers import LlamaForCausalLM  # noqa: F401 - imported once, for both processes

    torch.multiprocessing.start_processes(_run, (int(sys.argv[1]),), nprocs=WORLD, start_method="fork")
