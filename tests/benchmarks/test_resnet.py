"""The ResNet of the benchmark, small: outputs and gradients of the swapped model are compared with float64."""

import pytest
import torch

from benchmarks import resnet

pytest.importorskip("transformers")


@pytest.mark.parametrize("memory_format", resnet.LAYOUTS.values())
def test_a_swapped_model_is_as_exact(memory_format):
    size = {"embedding_size": 4, "hidden_sizes": [4], "depths": [1]}
    models = resnet.models(torch.float32, "cpu", memory_format, **size)
    given = resnet.examples(2, 12, torch.float32, "cpu", memory_format)
    resnet.compile_all([(models, given[0])])
    with torch.no_grad():
        models["ours"].classifier[1].bias.add_(1.0)
    found = resnet.errors(models, *given)
    assert found["ours"][0] > 1e-2 and max(*found["cuDNN"], found["ours"][1]) < 1e-4
