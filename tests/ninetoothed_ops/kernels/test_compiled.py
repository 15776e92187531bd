"""The ten kernels compiled for GPUs that need not be there: they compile, fit, and spill nothing as configured."""

import re

import pytest
import torch

from ninetoothed.runtime.compilation import assembler
from ninetoothed.runtime.selection import machine
from ninetoothed_ops.kernels import sdpa, sdpa_backward_exact_delta, sdpa_backward_key_value, sdpa_backward_mask
from tests.ninetoothed_ops.kernels import calls
from tests.ninetoothed_ops.kernels.launched import launched

pytest.importorskip("triton")

PRODUCTS = ("addmm", "bmm", "conv2d", "conv2d_backward_input", "conv2d_backward_weight", "linear_rope_into_cache")
PRODUCTS += ("linear_swiglu", "mm", "sdpa", "sdpa_backward_key_value", "sdpa_backward_query")
FEW_LANES = ("rope", "rope_into_cache", "rope_pair", "moments_of_parts", "channel_totals", "channel_vectors", "dropout")
OTHERS = tuple(name for name in (*calls.NAMES, *calls.GRADIENTS) if name not in PRODUCTS)
GPUS = (machine.A100, machine.H200, machine.B200)
SIMILAR = tuple(machine.named(name) for name in ("RTX 3090", "MI300X", "RTX 5090", "MI355X"))
# Each GPU has its own instruction for products. Those that are like another take turns, and all do with the rest.
CASES = [(name, gpu, torch.float16) for name in PRODUCTS for gpu in GPUS]
CASES += [(name, SIMILAR[(i + k) % 4], torch.float16) for i, name in enumerate(PRODUCTS) for k in range(2)]
CASES += [(name, (*GPUS, *SIMILAR)[i % 7], torch.float16) for i, name in enumerate(OTHERS)]
INSTRUCTIONS = {80: "mma.sync", 86: "mma.sync", 90: "wgmma", 100: "tcgen05.mma", 120: "mma.sync"}
INSTRUCTIONS |= dict.fromkeys(("gfx942", "gfx950"), "v_mfma_f32")
# Below Hopper it is never launched: two products of fewer registers are faster (ops/linear_swiglu.py).
CASES = [(name, *rest) for name, *rest in CASES if name != "linear_swiglu" or rest[0].generation.has_tma]
# bfloat16 differs from float16 in conversions alone, which take registers beside those of a product: the greatest.
CASES += [(name, machine.H200, torch.bfloat16) for name in PRODUCTS if "backward" in name or "linear" in name]


@pytest.mark.parametrize(
    "name, gpu, dtype",
    CASES,
    ids=lambda each: each.target if isinstance(each, machine.Machine) else str(each),
)
def test_compiled_without_spills(name, gpu, dtype):
    kernel, arguments = calls.large(name, dtype)
    compiled, configuration = launched(kernel, arguments, gpu)
    # An assembler of CUDA 12 takes more registers for sm_120: some kernels spill a few bytes, one 200.
    most = 200 if gpu.architecture == 120 and assembler.of_triton().version < (13, 0) else 0
    said = f"{compiled.registers} registers and {compiled.spills} bytes spilled: {configuration}"
    assert compiled.spills <= most, said
    assert compiled.shared <= gpu.shared_memory
    text = compiled.asm["ptx" if gpu.generation.compiler == "cuda" else "amdgcn"]
    if name in PRODUCTS:
        assert INSTRUCTIONS[gpu.architecture] in text or (gpu == machine.B200 and "mma.sync" in text)
    # Interleaved pairs are two loads of every other element; a thread of the few programs of decoding has two lanes,
    # one that adds up parts of channels one or two, and one of dropout four, of one draw.
    elif name not in FEW_LANES:
        assert re.search(r"ld\.global\.(\w+::\w+\.)*v[48]|_load_dwordx4", text)


# A causal kernel has the loop of a plain one, and another over the tiles on the diagonal: of 128, on each GPU.
ATTENTIONS = [(gpu, dtype, 128, True, None) for gpu in GPUS for dtype in (torch.float32, torch.float16)]
ATTENTIONS += [(gpu, torch.float16, 128, True, 50.0) for gpu in GPUS]
ATTENTIONS += [(machine.H200, torch.float32, 64, True, None), (machine.H200, torch.float16, 128, False, None)]


@pytest.mark.parametrize("gpu, dtype, depth, is_causal, softcap", ATTENTIONS)
def test_attention_of_other_types_and_depths_spills_nothing(gpu, dtype, depth, is_causal, softcap):
    tensor, mask = torch.empty(2, 8, 1024, depth, dtype=dtype), torch.empty(2, 8, 1024, 1024, dtype=dtype)
    arguments = (tensor, tensor, tensor, mask, 0.1, tensor, sdpa.NO_MASK, is_causal)
    arguments += () if softcap is None else (softcap,)
    compiled, configuration = launched(sdpa.make(is_capped=softcap is not None), arguments, gpu)
    assert compiled.spills == 0, f"{compiled.registers} registers: {configuration}"


@pytest.mark.parametrize("of_keys", (True, False))
@pytest.mark.parametrize("gpu", (machine.A100, machine.H200))
def test_halves_of_the_gradient_of_wide_heads_spill_nothing(gpu, of_keys):
    tensor, row = torch.empty(2, 16, 2048, 256, dtype=torch.bfloat16), torch.empty(2, 16, 2048, 1)
    given = *(tensor,) * 3, torch.empty(1).expand(2, 16, 1, 2048), row[:, 0, 0, 0], 0, 0.1, 0.0, tensor, *(row,) * 3
    kernel = sdpa_backward_key_value.make(of_keys=of_keys, of_values=not of_keys)
    compiled, schedule = launched(kernel, (*given, tensor, sdpa.NO_MASK, True, False, False), gpu)
    assert compiled.spills == 0, f"{compiled.registers} registers: {schedule}"
    assert INSTRUCTIONS[gpu.architecture] in compiled.asm["ptx"]
    assert compiled.emitted.source.count(" for ") == 1


@pytest.mark.parametrize("kernel", (sdpa_backward_mask, sdpa_backward_exact_delta))
def test_gradients_of_masks_of_wide_heads_fit_into_shared_memory(kernel):
    tensor, mask = (torch.empty(1, 2, 1024, width, dtype=torch.bfloat16) for width in (256, 1024))
    row = torch.empty(1, 2, 1024, 1)
    results = (row, mask) if kernel is sdpa_backward_mask else (row,)
    arguments = (*(tensor,) * 3, mask, row[0, 0, 0], 0, 0.1, 0.0, tensor, row, row, *results, True, False, False)
    compiled, _ = launched(kernel.make(is_wide=True), arguments, machine.H200)
    assert compiled.shared <= machine.H200.shared_memory
