"""Use what was built in a process of its own: `fresh.py load ROOT`, `fresh.py record|serve FOLDER`; prints JSON."""

import json
import sys
import time

import torch

import ninetoothed
from ninetoothed.runtime.loading import loaded  # noqa: F401 - imports and the context are apart from what is timed


def load(root):
    """Launch each kernel once, and tell its error and the seconds of the first launch."""
    from tests.ninetoothed.ahead_of_time.cases import cases

    found = {}
    for name, case in cases().items():
        case.output.fill_(torch.nan)
        torch.cuda.synchronize()
        start = time.perf_counter()
        ninetoothed.load(f"{root}/{name}")[case.kernel](*case.arguments)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        found[name] = [case.error(), seconds]
    return {"launched": found, "has_triton": "triton" in sys.modules}


def model(folder, is_served):
    """Let a swapped Llama generate while it is recorded, or is served; count what is traced and compiled."""
    from transformers import LlamaConfig, LlamaForCausalLM

    import ninetoothed_ops
    from ninetoothed.runtime import executable, variants

    counts = {"traced": 0, "compiled": 0}

    def counted(module, name, what):
        function = getattr(module, name)

        def call(*args, **kwargs):
            counts[what] += 1
            return function(*args, **kwargs)

        setattr(module, name, call)

    torch.manual_seed(0)
    sizes = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 1, "vocab_size": 512}
    config = LlamaConfig(**sizes, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128)
    llama = LlamaForCausalLM(config)
    for matrix in (each for each in llama.parameters() if each.ndim > 1):
        torch.nn.init.normal_(matrix, std=0.1)  # Of smaller numbers it says one word.
    llama = llama.half().cuda().eval()
    ninetoothed_ops.swap_modules(llama)  # which tries rotary embeddings on the CPU
    counted(variants, "trace", "traced")
    counted(executable, "compile_kernel", "compiled")
    tokens = torch.arange(1, 33, device="cuda")[None]

    def generate():
        with torch.inference_mode():
            return llama.generate(tokens, max_new_tokens=4, do_sample=False, pad_token_id=0)[0].tolist()

    if is_served:
        ninetoothed.load(folder).serve(missing="refuse")
        return {"tokens": generate(), **counts}
    with ninetoothed.recording(folder) as made:
        found = generate()
    return {"tokens": found, "left_out": made.left_out, **counts}


if __name__ == "__main__":
    what, path = sys.argv[1:]
    print("RESULT" + json.dumps(load(path) if what == "load" else model(path, what == "serve")))
