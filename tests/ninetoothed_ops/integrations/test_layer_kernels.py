"""A whole compiled layer in training, forward and backward: which kernels Inductor generates beside what is called."""

import copy
import functools
import re
from collections import Counter

import pytest
import torch
from torch._functorch import config as functorch
from torch._inductor import config as inductor, metrics
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.utils import run_and_get_code

from ninetoothed_ops import swap_modules
from tests.conftest import DEVICE

CALL = re.compile(r"\b(?:extern_kernels|torch\.ops\.(?:ninetoothed|aten))\.(\w+)(?:\.default)?\(")


def kernels(model) -> tuple[Counter, Counter, int]:
    """Count what its compiled layer calls in forward and in backward, and the kernels that are generated for both."""
    model.model.layers[0].compile(fullgraph=True, dynamic=False)
    tokens = torch.arange(32, device=DEVICE).view(2, 16)
    torch._dynamo.reset()
    metrics.reset()
    with inductor.patch(fx_graph_cache=False), functorch.patch(enable_autograd_cache=False):
        run = functools.partial(model.model, input_ids=tokens, use_cache=False)
        _, (forward, backward) = run_and_get_code(lambda: run().last_hidden_state.sum().backward())
    return Counter(CALL.findall(forward)), Counter(CALL.findall(backward)), metrics.generated_kernel_count


@pytest.mark.skipif(DEVICE != "cpu", reason="counts what is generated for a CPU, which need not be compiled")
def test_a_layer_calls_no_more_products_and_has_fewer_kernels_generated(make, monkeypatch):
    """Norms, angles and attention are ours; what Inductor fuses around PyTorch's products it still does."""
    monkeypatch.setattr(AsyncCompile, "cpp_pybinding", lambda *_, **__: lambda *_: None)
    model = make("Llama", num_hidden_layers=1, attention_bias=False, mlp_bias=False).train()
    theirs = kernels(copy.deepcopy(model))
    swap_modules(model, join=True)
    forward, backward, generated = kernels(model)

    assert (forward["mm"], backward["mm"]) == (theirs[0]["mm"], theirs[1]["mm"]) == (7, 14)
    ours = {"rms_norm": 1, "add_rms_norm": 1, "rope_pair": 1, "sdpa_with_lse": 1}
    assert forward == {"mm": 7, **ours}
    assert backward == {"mm": 14, "rms_norm_backward": 2, "rope_backward": 2, "sdpa_backward": 1}
    # The activation and the last residual, the gradients of the activation, and the sums of gradients of two inputs.
    assert generated == 5 < theirs[2]
