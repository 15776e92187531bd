"""Run by `test_twins` under TRITON_INTERPRET=1: every Triton twin, on small odd shapes, against float64."""

import json

import torch
import torch.nn.functional as F
import triton

from benchmarks.tasks.rope import rope
from benchmarks.twins import (
    add,
    addmm,
    bmm,
    conv2d,
    launch,
    mm,
    rms_norm,
    rope as rope_twin,
    sdpa,
    sdpa_backward,
    silu,
    softmax,
    tma,
    training,
)
from tests.ninetoothed.backends.interpreted import mend

BOUNDS = {torch.float32: 1e-6, torch.float16: 1e-3}


def cases(r):
    """(operation, arguments, keyword arguments, PyTorch's function) of each case; `r` makes a random tensor."""
    yield "add", (r(1027), r(1027)), {"alpha": 0.5}, torch.add
    yield "add", (r(3, 1, 5), r(7, 5)), {}, torch.add
    yield "add", (r(3, 5, 7, 9).permute(2, 0, 3, 1)[:, :, ::2], r(5)), {}, torch.add
    yield "silu", (r(33, 65),), {}, F.silu
    yield "silu", (r(33, 65)[::2, 3:40],), {}, F.silu
    yield "softmax", (r(5, 77), -1), {}, torch.softmax
    yield "softmax", (r(5, 7, 3), 1), {}, torch.softmax
    yield "rms_norm", (r(5, 77), (77,)), {}, F.rms_norm
    yield "rms_norm", (r(3, 4, 100), (4, 100), r(4, 100), 1e-3), {}, F.rms_norm
    yield "rms_norm", (r(100, 5).T, (100,), r(200)[::2], 1e-3), {}, F.rms_norm
    yield "mm", (r(35, 50), r(50, 37)), {}, torch.mm
    yield "mm", (r(50, 35).T, r(37, 50).T), {}, torch.mm
    yield "addmm", (r(35, 37), r(35, 50), r(50, 37)), {"beta": 0.7, "alpha": 1.3}, torch.addmm
    yield "addmm", (r(37), r(35, 50), r(50, 37)), {}, torch.addmm
    yield "bmm", (r(3, 35, 20), r(3, 20, 37)), {}, torch.bmm
    # Rows of multiples of 16 bytes, which descriptors read.
    yield "mm", (r(35, 40), r(40, 24)), {}, torch.mm
    yield "mm", (r(40, 64)[:, :48].T, r(24, 40).T), {}, torch.mm
    yield "addmm", (r(35, 24), r(35, 40), r(40, 24)), {"beta": 0.7, "alpha": 1.3}, torch.addmm
    yield "addmm", (r(24), r(40, 32).T, r(24, 40).T), {}, torch.addmm
    yield "bmm", (r(3, 35, 40), r(3, 40, 24)), {}, torch.bmm
    yield "bmm", (r(3, 40, 32).mT, r(3, 24, 40).mT), {}, torch.bmm
    yield "conv2d", (r(2, 5, 9, 8), r(6, 5, 3, 2)), {}, F.conv2d
    yield (
        "conv2d",
        (r(2, 8, 11, 9), r(6, 4, 3, 3), r(6)),
        {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2), "groups": 2},
        F.conv2d,
    )
    yield "rope", (r(2, 5, 3, 16), r(5, 8), r(5, 8)), {}, rope
    yield "rope", (r(2, 5, 3, 16), r(2, 5, 8), r(2, 5, 8)), {"interleaved": False}, rope
    yield "rope", (r(2, 5, 3, 16), r(5, 16), r(5, 16)), {}, whole_rope
    yield "rope", (r(2, 5, 3, 16), r(2, 5, 16), r(2, 5, 16)), {"interleaved": False}, whole_rope
    attention = F.scaled_dot_product_attention
    yield "sdpa", (r(1, 2, 50, 16), r(1, 2, 70, 16), r(1, 2, 70, 16)), {"scale": 0.3}, attention
    yield "sdpa", (r(1, 2, 70, 16), r(1, 2, 70, 16), r(1, 2, 70, 16)), {"is_causal": True}, attention
    yield "sdpa", (r(1, 2, 40, 16), r(1, 2, 70, 16), r(1, 2, 70, 16)), {"is_causal": True}, attention
    yield "sdpa", (r(1, 4, 40, 16), r(1, 2, 64, 16), r(1, 2, 64, 16)), {"enable_gqa": True}, attention
    # Contiguous heads of whole blocks, which lie below each other in one matrix; and others of whole blocks.
    whole = (r(2, 2, 128, 16), r(2, 1, 256, 16), r(2, 1, 256, 16))
    yield "sdpa", whole, {"enable_gqa": True}, attention
    yield "sdpa", whole, {"enable_gqa": True, "is_causal": True}, attention
    yield "sdpa", tuple(r(2, 128, 2, 16).transpose(1, 2) for _ in range(3)), {}, attention
    # Rows that no descriptor can read.
    apart = (r(1, 4, 40, 17)[..., :16], r(1, 2, 70, 17)[..., :16], r(1, 2, 70, 17)[..., 1:])
    yield "sdpa", apart, {"enable_gqa": True}, attention
    yield "sdpa", apart, {"enable_gqa": True, "is_causal": True}, attention
    mask = torch.rand(40, 50) > 0.5
    mask[3] = False
    yield "sdpa", (r(2, 2, 40, 16), r(2, 2, 50, 16), r(2, 2, 50, 16)), {"attn_mask": mask}, attention
    yield "sdpa", (r(1, 2, 40, 16), r(1, 2, 50, 16), r(1, 2, 50, 16)), {"attn_mask": r(1, 1, 40, 50)}, attention


def whole_rope(input, sin, cos, interleaved=True):
    """`rope` with an angle for each element: those of either element of a pair where its own result is made."""
    pairs = [table.unflatten(-1, (-1, 2) if interleaved else (2, -1)) for table in (sin, cos)]
    dim = -1 if interleaved else -2
    first, second = (rope(input, *(pair.select(dim, index) for pair in pairs), interleaved) for index in (0, 1))
    shape = (-1, 2) if interleaved else (2, -1)
    chosen = [whole.unflatten(-1, shape).select(dim, index) for index, whole in enumerate((first, second))]
    return torch.stack(chosen, dim).flatten(-2)


def shrink():
    """Leave each tuned kernel one configuration of small blocks: without a GPU there is nothing to measure."""
    blocks = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 16}
    conv2d.kernel.configs = [triton.Config(blocks)]
    blocks = {**blocks, "GROUP_SIZE_M": 2}
    for twin in (addmm, bmm, mm):
        twin.kernel.configs = [triton.Config(blocks)]
    for twin in (tma.addmm, tma.bmm, tma.mm):
        hook = twin.kernel.configs[0].pre_hook
        twin.kernel.configs = [triton.Config({**blocks, "PERSISTENT": True}, pre_hook=hook)]
    blocks = {"BLOCK_SIZE_M": 32, "BLOCK_SIZE_N": 16}
    sdpa.kernel.configs = [triton.Config(blocks)]
    tma.sdpa.kernel.configs = [triton.Config(blocks, pre_hook=tma.sdpa.set_blocks)]
    sdpa_backward.kernel.configs = [triton.Config({"BLOCK_SIZE_OWN": 64, "BLOCK_SIZE_STEP": 32})]
    for twin in (add, rms_norm, rope_twin, silu, softmax):
        del twin.kernel.configs[1:]


def double(value):
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def gradients(dtype):
    """The errors of the gradients of attention, whole and causal."""
    for is_causal in (False, True):
        *leaves, grad = (torch.randn(1, 2, 128, 16).to(dtype) for _ in range(4))

        def of(attend, tensors, is_causal=is_causal, grad=grad):
            tensors = [each.detach().requires_grad_() for each in tensors]
            output = attend(*tensors, is_causal=is_causal, scale=0.3)
            return torch.autograd.grad(output, tensors, grad.to(output.dtype))

        expected = of(F.scaled_dot_product_attention, map(double, leaves))
        for name, actual, wanted in zip("query key value".split(), of(training.sdpa, leaves), expected, strict=True):
            error = ((actual.double() - wanted).norm() / wanted.norm()).item()
            yield {"case": f"sdpa {dtype} gradient of {name}", "error": error, "bound": 2 * BOUNDS[dtype]}


def main():
    torch.manual_seed(0)
    mend()
    shrink()
    for dtype in (torch.float32, torch.float16):
        seen = set()
        for operation, args, kwargs, reference in cases(lambda *shape, dtype=dtype: torch.randn(shape).to(dtype)):
            # Each type takes each twin once; how it finds its elements is the same for all.
            if dtype is torch.float32 and operation in seen:
                continue
            seen.add(operation)
            actual = getattr(launch, operation)(*args, **kwargs)
            # PyTorch's default eps is that of the tensor's own type.
            known = {"eps": torch.finfo(dtype).eps} if operation == "rms_norm" and len(args) == 2 else {}
            expected = reference(*map(double, args), **{key: double(v) for key, v in kwargs.items()}, **known)
            same = actual.shape == expected.shape and actual.dtype == dtype
            error = ((actual.double() - expected).norm() / expected.norm()).item() if same else float("nan")
            case = f"{operation} {dtype} {sorted(kwargs)}"
            print(json.dumps({"case": case, "error": error, "bound": BOUNDS[dtype]}))
        for each in gradients(dtype):
            print(json.dumps(each))


if __name__ == "__main__":
    main()
