"""Swapped models under torch.compile: one graph for all sizes, with the operators in it."""

import os
from collections import Counter

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch.utils import cpp_extension

import ninetoothed
from ninetoothed_ops import aoti_compile_and_package
from ninetoothed_ops.modules import swap_modules
from tests.conftest import DEVICE
from tests.ninetoothed_ops.integrations.calls import TOLERANCE, error, generate, logits


@pytest.mark.parametrize("name", ("Llama", "Qwen3"))
def test_compiled_whole_with_dynamic_sizes(make, batch, name):
    """AOT autograd traces the Llama, too; the other stops at the graph. Inductor has `ops/test_compile`."""
    model = make(name, num_hidden_layers=1)
    batches = [batch(3, 11), batch(4, 17)]
    expected = [logits(model, *sizes) for sizes in batches]
    swap_modules(model)
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager" if name == "Llama" else "eager")
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=counter)
    frames = []
    for sizes, value in zip(batches, expected):
        assert error(logits(compiled, *sizes), value) < TOLERANCE[torch.float32]
        frames.append(counter.frame_count)
    assert frames[0] == frames[-1]
    targets = " ".join(str(node.target) for graph in counter.graphs for node in graph.graph.nodes)
    assert "ninetoothed.sdpa" in targets and "ninetoothed.rope" in targets and "scaled_dot_product" not in targets


@pytest.mark.parametrize("static", (False, True))
def test_compiled_decoding_makes_the_same_tokens(make, batch, static):
    from transformers import DynamicCache, StaticCache

    model, (tokens, mask) = make("Llama"), batch(3, 11)
    expected = generate(model, tokens, mask)
    swap_modules(model)
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend="eager")
    cache = StaticCache(config=model.config, max_cache_len=20) if static else DynamicCache(config=model.config)
    found, step = [], tokens
    with torch.no_grad():
        for index in range(expected.shape[1]):
            positions = mask.cumsum(-1)[:, -step.shape[1] :] - 1
            # A static cache is made where nothing is traced; from then on all is compiled.
            run = model if index == 0 else compiled
            output = run(
                input_ids=step, attention_mask=mask, past_key_values=cache, position_ids=positions.clamp(min=0)
            )
            step = output.logits[:, -1:].argmax(-1)
            found.append(step)
            mask = torch.cat((mask, torch.ones_like(step)), 1)
    assert torch.equal(torch.cat(found, 1), expected)


def test_generate_compiles_a_step_whole(make, batch):
    """As transformers compiles it over a static cache: one graph, in which joined and fused operators stand.

    Two types are compared in Python at each call: that may be asked for once a layer.
    """
    from transformers import CompileConfig

    model, (tokens, mask) = make("Llama", attention_bias=False, mlp_bias=False), batch(2, 7)
    expected, counts, compared = generate(model, tokens, mask), [], []
    swap_modules(model, join=True)
    torch._dynamo.reset()

    def counting(graph, _):
        counts.append(
            Counter(
                str(node.target).removeprefix("ninetoothed.").removesuffix(".default") for node in graph.graph.nodes
            )
        )
        return graph.forward

    def kept(guards):
        names = [guard.name for guard in guards if guard.guard_type == "DUPLICATE_INPUT"]
        # Of PyTorch 2.11 also the files of their functions, which are compared by identity.
        compared.extend(name for name in names if name.startswith("type(") and name.endswith(")"))
        return [True] * len(guards)

    config = CompileConfig(backend=counting, mode=None, options={"guard_filter_fn": kept})
    config._compile_all_devices = True
    found = generate(model, tokens, mask, cache_implementation="static", compile_config=config)
    assert torch.equal(found, expected)
    (names,) = counts
    wanted = {"linear_rope_into_cache": 2, "linear_swiglu": 2, "sdpa": 2, "add_rms_norm": 2, "rms_norm": 3}
    assert {name: names[name] for name in wanted} == wanted and not names["index_copy_"] and not names["rope"]
    # A layer's type is asked for by what transformers wraps around its forward, for checkpoints, if it does.
    layers = model.model.layers
    theirs = "['layers']._modules['1'])" if hasattr(type(layers[1]).forward, "__wrapped__") else None
    assert sum(theirs is None or not name.endswith(theirs) for name in compared) < len(layers), compared


def lacks_headers():
    """AOTInductor compiles C++ for the device of the model: for a GPU that needs CUDA's headers."""
    if DEVICE == "cpu":
        return False
    try:
        folders = cpp_extension.include_paths("cuda")
    except OSError:  # CUDA_HOME is not set, and there is no nvcc.
        return True
    return not any(os.path.exists(os.path.join(folder, "cuda.h")) for folder in folders)


# Two linear layers of PyTorch's own crash it, too, when `aoti_load_package` reads what was compiled for a GPU.
CRASHES = DEVICE == "cuda" and torch.__version__.startswith("2.11.")


@pytest.mark.slow
@pytest.mark.skipif(CRASHES, reason="PyTorch 2.11 crashes where it loads any package for a GPU")
@pytest.mark.skipif(lacks_headers(), reason="needs cuda.h, which is not where CUDA_HOME says")
@pytest.mark.filterwarnings("ignore")
def test_a_joined_model_compiled_ahead_of_time(make, batch):
    """Without biases: AOTInductor gives None for a list of tensors with nothing in it."""
    model, (tokens, _) = make("Qwen3", num_hidden_layers=1), batch(2, 7)

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, tokens):
            return self.model(tokens, use_cache=False).logits

    with torch.no_grad():
        expected = Logits()(tokens)
        swap_modules(model, join=True)
        program = torch.export.export(Logits(), (tokens,))
        assert any("joint_linear" in str(node.target) for node in program.graph.nodes)
        package = aoti_compile_and_package(program, gpus=("h100",))
        compiled = torch._inductor.aoti_load_package(package)
        assert error(compiled(tokens), expected) < TOLERANCE[torch.float32]
    assert {"sdpa", "rms_norm", "mm"} <= set(ninetoothed.load(package).kernels)
