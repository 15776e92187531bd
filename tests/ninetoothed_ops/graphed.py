"""Calls for tests of CUDA graphs: every operator, and every class of sizes for which a launch needs a workspace."""

from collections.abc import Callable

import torch

import ninetoothed_ops as ops


def half(*shape: int) -> torch.Tensor:
    return torch.randn(shape, device="cuda", dtype=torch.float16) / 8


def _images(count, channels, size, filters, kernel):
    return half(count, channels, size, size), half(filters, channels, kernel, kernel)


def _convolved(images, filters):
    return ops.conv2d(images, filters, padding=filters.shape[-1] // 2)


# By name: a function, and what makes its arguments. The second half of a name says how a sum is shared out.
CALLS: dict[str, tuple[Callable, Callable[[], tuple]]] = {
    "mm, split": (ops.mm, lambda: (half(2, 4096), half(4096, 512))),
    "mm, split, long": (ops.mm, lambda: (half(1, 14336), half(4096, 14336).mT)),
    "mm, split, square": (ops.mm, lambda: (half(128, 8192), half(8192, 128))),
    "mm, whole": (ops.mm, lambda: (half(16, 4096), half(4096, 4096))),
    "mm, remainder": (ops.mm, lambda: (half(1152, 4096), half(4096, 4096))),
    "mm, remainder, odd": (ops.mm, lambda: (half(1032, 4104), half(4104, 4096))),
    "mm, copied rows": (ops.mm, lambda: (half(2048, 1001), half(1001, 2048))),
    "addmm, split": (ops.addmm, lambda: (half(512), half(2, 4096), half(4096, 512))),
    "addmm, remainder": (ops.addmm, lambda: (half(4096), half(1152, 4096), half(4096, 4096))),
    "bmm, split": (ops.bmm, lambda: (half(4, 64, 4096), half(4, 4096, 64))),
    "conv2d, split, repacked": (_convolved, lambda: _images(1, 512, 7, 512, 3)),
    "conv2d, repacked": (_convolved, lambda: _images(4, 256, 14, 256, 3)),
    "conv2d, of one pixel": (_convolved, lambda: _images(1, 2048, 7, 512, 1)),
    "sdpa, of one query": (ops.sdpa, lambda: (half(2, 8, 1, 64), half(2, 8, 512, 64), half(2, 8, 512, 64))),
    "sdpa": (ops.sdpa, lambda: tuple(half(2, 8, 256, 64) for _ in range(3))),
    "rms_norm": (lambda x, weight: ops.rms_norm(x, (4096,), weight), lambda: (half(16, 4096), half(4096))),
    "gated": (lambda x: ops.gated(*x.chunk(2, -1), "gelu"), lambda: (half(16, 4096),)),
    "gelu": (ops.gelu, lambda: (half(16, 4096),)),
    "layer_norm": (lambda x, w: ops.layer_norm(x, (4096,), w, w), lambda: (half(16, 4096), half(4096))),
    "softmax": (lambda x: ops.softmax(x, -1), lambda: (half(64, 4096),)),
    "softmax, of long rows": (lambda x: ops.softmax(x, -1), lambda: (half(4, 200_000),)),
    "silu": (ops.silu, lambda: (half(16, 4096),)),
    "swiglu": (lambda x: ops.swiglu(*x.chunk(2, -1)), lambda: (half(16, 4096),)),
    "add": (ops.add, lambda: (half(64, 4096), half(4096))),
    "add, of a number": (lambda x: ops.add(x, 2.5, alpha=0.5), lambda: (half(64, 4096),)),
    "rope": (ops.rope, lambda: (half(2, 16, 8, 64), half(16, 32), half(16, 32))),
}
WITH_WORKSPACE = tuple(name for name in CALLS if "split" in name or "remainder" in name)


def call(name: str) -> tuple[Callable, tuple]:
    """The function and arguments of a call, the same each time."""
    torch.manual_seed(0)
    function, make = CALLS[name]
    return function, make()


def warmed(function: Callable, args: tuple) -> torch.Tensor:
    """Call a function as long as calls are recorded and written out; the result."""
    for _ in range(4):
        output = function(*args)
    torch.cuda.synchronize()
    return output


def captured(function: Callable, args: tuple, pool=None, **options) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
    """A graph of one call, and its output, which is filled with NaNs."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool, **options):
        output = function(*args)
    output.fill_(float("nan"))
    torch.cuda.synchronize()
    return graph, output


def leaves_nothing(function: Callable, args: tuple) -> bool:
    """Whether a call in a private pool, on a stream that is new to it, leaves nothing there but its output."""
    pool, stream = torch.cuda.MemPool(), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    found = []
    with torch.cuda.stream(stream), torch.cuda.use_mem_pool(pool):
        for _ in range(4):
            output = function(*args)
            held = {output.untyped_storage().data_ptr()}
            found.append(torch._C._cuda_checkPoolLiveAllocations(torch.cuda.current_device(), pool.id, held))
            del output
    torch.cuda.synchronize()
    return all(found)


def llama():
    """A Llama of transformers with random weights, two layers, and sizes for which decoding splits sums."""
    import transformers

    sizes = {"hidden_size": 4096, "intermediate_size": 8192, "num_attention_heads": 32, "num_key_value_heads": 8}
    others = {"num_hidden_layers": 2, "vocab_size": 1000, "max_position_embeddings": 256}
    ids = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": 0}
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**sizes, **others, **ids)
    return transformers.LlamaForCausalLM(config).eval().to("cuda", torch.float16)


@torch.no_grad()
def generated(model, tokens: torch.Tensor, count: int, **options) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens from `generate` with a static cache, which runs steps in graphs; and the logits of the new."""
    found = model.generate(
        input_ids=tokens,
        attention_mask=torch.ones_like(tokens),
        max_new_tokens=count,
        min_new_tokens=count,
        do_sample=False,
        cache_implementation="static",
        output_logits=True,
        return_dict_in_generate=True,
        **options,
    )
    return found.sequences, torch.stack(found.logits, 1)


@torch.no_grad()
def logits(model, sequences: torch.Tensor, count: int) -> torch.Tensor:
    """Those that a model gives for the last so many tokens, all at once, not compiled."""
    return model(input_ids=sequences[:, :-1], use_cache=False).logits[:, -count:]
