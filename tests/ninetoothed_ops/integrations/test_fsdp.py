"""Models that transformers' Trainer, or PyTorch, trains over two processes learn swapped as they do unswapped."""

import socket

import pytest
import torch

from tests import forked
from tests.ninetoothed_ops.integrations import sharded_training
from tests.ninetoothed_ops.integrations.sharded_training import STEPS, TRAINED, WRAPPED

pytestmark = pytest.mark.slow
OURS = {"linear", "rms_norm_backward", "rope_backward", "sdpa_backward"}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What two processes gave, `{(way, is_swapped): (losses, weights, operators, sharded)}`."""
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    if not torch.distributed.is_available():
        pytest.skip("PyTorch was built without torch.distributed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    results = tmp_path_factory.mktemp("fsdp") / "results"
    # Both processes are on the CPU: PyTorch's collectives refuse two on one GPU.
    done = forked.run_module(sharded_training.__name__, str(port), str(results), CUDA_VISIBLE_DEVICES="")
    assert done.status == "0", done.stderr
    return torch.load(results)


@pytest.mark.parametrize("way", (*TRAINED, *WRAPPED))
def test_sharded_training(way, found):
    expected, weights, nothing, modules = found[way, False]
    losses, ours, operators, sharded = found[way, True]
    assert sharded == modules > 2 and len(losses) == STEPS and not nothing
    assert {f"ninetoothed::{name}" for name in OURS} <= operators
    is_mixed = "mixed" in way
    assert losses == pytest.approx(expected, rel=1e-2 if is_mixed else 1e-5)
    assert ours.keys() == weights.keys()
    for name, weight in weights.items():
        torch.testing.assert_close(ours[name], weight, rtol=0, atol=3e-3 if is_mixed else 1e-5, msg=name)


def test_losses_without_logits(found):
    """`DistributedDataParallel` of a model whose loss needs no logits, which the Trainer averages over its batches."""
    (expected, nothing), (losses, operators) = (found["whole", is_swapped] for is_swapped in (False, True))
    assert not nothing and "ninetoothed::linear_cross_entropy_with_gradients" in operators
    assert losses == pytest.approx(expected, rel=1e-5) and len(losses) == STEPS
