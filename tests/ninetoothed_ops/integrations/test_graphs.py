"""A swapped Llama, decoding in CUDA graphs: one of its step, and those that transformers' compilation makes of it."""

import pytest
import torch

from ninetoothed_ops.modules import swap_modules
from tests.ninetoothed_ops import graphed
from tests.ninetoothed_ops.integrations.calls import error

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.mark.parametrize("compiles", (False, True))
def test_generate_with_a_static_cache(compiles):
    """A step of swapped modules is one graph; with a `compile_config` of one's own Inductor makes it."""
    transformers = pytest.importorskip("transformers")
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    model = graphed.llama()
    tokens = torch.randint(1, 1000, (2, 7), device="cuda")
    report = swap_modules(model, join=True)
    options = {"compile_config": transformers.CompileConfig()} if compiles else {}
    found = [graphed.generated(model, tokens, 12, **options) for _ in range(2)]
    assert torch.equal(found[0][0], found[1][0]) and torch.equal(found[0][1], found[1][1])
    assert bool(counters["stats"]["unique_graphs"]) == compiles and not counters["inductor"]["cudagraph_skips"]
    report.undo()
    sequences, ours = found[0]
    assert error(ours, graphed.logits(model, sequences, 12)) < 1e-2
