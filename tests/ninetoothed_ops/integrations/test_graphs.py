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


@pytest.mark.parametrize("way", ("replayed", "replayed, with a config", "compiled"))
def test_generate_with_a_static_cache(way):
    """A step of swapped modules is one graph; Inductor makes it with a `compile_config`, or where none is asked for."""
    transformers = pytest.importorskip("transformers")
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    model = graphed.llama()
    tokens = torch.randint(1, 1000, (2, 7), device="cuda")
    report, compiles = swap_modules(model, join=True, replay=way != "compiled"), way != "replayed"
    options = {"compile_config": transformers.CompileConfig()} if way == "replayed, with a config" else {}
    found = [graphed.generated(model, tokens, 12, **options) for _ in range(2)]
    assert torch.equal(found[0][0], found[1][0]) and torch.equal(found[0][1], found[1][1])
    assert bool(counters["stats"]["unique_graphs"]) == compiles and not counters["inductor"]["cudagraph_skips"]
    assert "are not replayed" not in repr(report) or way == "replayed, with a config"
    report.undo()
    sequences, ours = found[0]
    assert error(ours, graphed.logits(model, sequences, 12)) < 1e-2


def test_tokens_of_replayed_steps():
    """Prompts of two lengths, and weights that are updated in place and exchanged between two steps."""
    torch._dynamo.reset()
    model = graphed.llama()
    report = swap_modules(model, join=True, replay=True)
    for length in (7, 40, 7):
        tokens = torch.randint(1, 1000, (2, length), device="cuda")

        def changing(given, scores, length=length):
            with torch.no_grad():
                if given.shape[1] == length + 6:
                    model.lm_head.weight.neg_()
                if given.shape[1] == length + 9:
                    model.lm_head.weight = torch.nn.Parameter(-model.lm_head.weight)
            return scores

        sequences, found = graphed.generated(model, tokens, 14, logits_processor=[changing])
        expected = graphed.logits(model, sequences, 14)
        expected[:, 7:10] *= -1
        assert error(found, expected) < 1e-2
    assert "modules or weights were exchanged between two steps: one runs launch by launch" in repr(report)
