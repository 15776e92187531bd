"""Calls over a grid of operators, shapes, types and GPUs, and the schedule that each of them gets.

`python -m tests.ninetoothed.runtime.selection.picks` writes `picks.json` anew and prints what changed; a commit that
changes it explains each difference. In it a pick reads `128x256x64 w8 s3 tma persistent=132`: the block sizes in the
order of the kernel's symbols, warps, stages, whether tiles may go through TMA, and how tiles are shared out.
"""

import dataclasses
import functools
import itertools
import json
import pathlib
from contextlib import contextmanager

import torch

import ninetoothed
from ninetoothed import Symbol, Tensor
from ninetoothed.runtime import specialise
from ninetoothed.runtime.arguments import bind, check as checked
from ninetoothed.runtime.selection import machine, ranking
from ninetoothed.runtime.sizes import measure
from ninetoothed.runtime.specialise_plan import SpecialisationPlan
from ninetoothed.schedule import DataParallel, Persistent, SplitK, StreamK
from ninetoothed_ops.kernels import (
    add,
    addmm,
    bmm,
    conv2d,
    long_rows,
    mm,
    padded,
    rms_norm,
    rope,
    rope_into_cache,
    sdpa,
    silu,
    softmax,
)

FILE = pathlib.Path(__file__).with_name("picks.json")

A100, H100, H200, B200 = (machine.named(name) for name in ("A100", "H100", "H200", "B200"))
# Without a row of their own: they are described by what their driver says.
H100_PCIE = machine.Machine("NVIDIA H100 PCIe", 90, 114, 227 * 1024, l2=50 * 2**20, bandwidth=1.0e12)
H20 = machine.Machine("NVIDIA H20", 90, 78, 227 * 1024, l2=60 * 2**20, bandwidth=1.0e12)
T4 = machine.Machine("Tesla T4", 75, 40, 64 * 1024, l2=4 * 2**20, bandwidth=1.0e12)
RTX_3090 = machine.Machine("NVIDIA GeForce RTX 3090", 86, 82, 99 * 1024, l2=6 * 2**20, bandwidth=1.0e12)
RTX_4090 = machine.Machine("NVIDIA GeForce RTX 4090", 89, 128, 99 * 1024, l2=72 * 2**20, bandwidth=1.0e12)
RTX_5090 = machine.Machine("NVIDIA GeForce RTX 5090", 120, 170, 99 * 1024, l2=96 * 2**20, bandwidth=1.0e12)

ALL = (A100, H100, H200, H100_PCIE, H20, B200, T4, RTX_3090, RTX_4090, RTX_5090, None)
MOST = (A100, H200, B200, RTX_4090, RTX_5090)
GENERATIONS = (A100, H200, B200)

F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
INT8, FP8 = torch.int8, torch.float8_e4m3fn


class Selected:
    """A call as the selection sees it: its class, and its sizes rounded."""

    def __init__(self, kernel, arguments, keywords):
        self.definition = kernel.definition
        plan = SpecialisationPlan(kernel.definition)
        call, place = checked(kernel.definition, bind(kernel.definition, arguments, keywords))
        values = measure(plan, call)
        found = specialise.specialise(plan, call, values, place)
        self.specialisation = dataclasses.replace(found, dot_precision=torch.get_float32_matmul_precision())
        exact = found.numbers
        names = plan.sizes & values.keys()
        self.sizes = {name: exact.get(name, ranking.rounded(values[name])) for name in names}

    def candidates(self, gpu):
        """Schedules, the best first."""
        return ranking.candidates(self.definition, self.specialisation, self.sizes, gpu)


def described(definition, pick):
    """Every field of a schedule in a line."""
    blocks = "x".join(str(pick.blocks[name]) for name in definition.meta_symbols)
    parts = [blocks or "-", f"w{pick.num_warps}", f"s{pick.num_stages}"]
    parts += ["tma"] if pick.use_tma else []
    parts += ["overlaps"] if pick.overlaps else []
    match pick.sharing:
        case DataParallel(coarsening) if coarsening > 1:
            parts.append(f"coarsening={coarsening}")
        case Persistent(programs):
            parts.append(f"persistent={programs}")
        case SplitK(count):
            parts.append(f"split_k={count}")
        case StreamK(tiles_per_wave, count, stages):
            parts.append(f"split_k={count} tiles_per_wave={tiles_per_wave}")
            parts += [f"remainder_stages={stages}"] if stages else []
    return " ".join(parts)


def tensor(*shape, dtype=F16):
    """A tensor in memory that is never touched, so that it may be large."""
    return torch.empty(shape, dtype=dtype)


# -- the grid: (operator, case, kernel, arguments, precision of float32 products, GPUs) --

PRODUCTS = (
    *((n, n, n) for n in (1, 16, 17, 64, 100, 128, 256, 500, 512, 1000, 1024, 1536, 2048, 3000, 3072, 4096, 8192)),
    *((m, 4096, 4096) for m in (1, 2, 8, 16, 32, 33, 64, 128, 200, 512, 1280)),
    *((m, n, k) for m, (n, k) in itertools.product((1, 16, 2048), ((28672, 4096), (4096, 14336), (6144, 4096)))),
    (4096, 4096, 16),
    (4096, 4096, 64),
    (4096, 64, 4096),
    (4096, 1, 4096),
    (64, 64, 65536),
    (512, 512, 8192),
    (512, 11008, 16384),
    (5120, 5120, 5120),
    (40000, 256, 256),
    (0, 64, 64),
    (64, 64, 0),
)
# Two schedules are close there, so that a constant of the cost model shows.
CLOSE_PRODUCTS = (
    *((768, 2304, 1024), (1024, 2304, 1024), (2560, 1024, 1024), (256, 11008, 1024), (6144, 512, 1024)),
    *((376, 1016, 4088), (248, 1016, 1016), (376, 504, 1016), (256, 512, 256), (512, 11008, 4096), (6144, 1024, 4096)),
)
# Few rows by the weights of Llamas of 1B, 8B and 70B, (outputs, inputs).
LLAMA_WEIGHTS = (
    *((3072, 2048), (2048, 2048), (16384, 2048), (2048, 8192), (128256, 2048)),
    *((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (1024, 4096), (128256, 4096)),
    *((10240, 8192), (8192, 8192), (57344, 8192), (8192, 28672)),
)
FEW_PRODUCTS = ((1, 4096, 4096), (16, 64, 100), (128, 128, 128), (512, 512, 8192), (1000, 1000, 1000), (4096,) * 3)


def named(*sizes):
    return "x".join(map(str, sizes))


def short(dtype):
    return str(dtype).removeprefix("torch.")


def matrices(m, n, k, dtype=F16):
    return tensor(m, k, dtype=dtype), tensor(k, n, dtype=dtype), tensor(m, n, dtype=dtype)


def products():
    for m, n, k in PRODUCTS:
        yield "mm", f"{named(m, n, k)} float16", mm.make(), matrices(m, n, k), "highest", (*MOST, H100_PCIE)
    for m, n, k in CLOSE_PRODUCTS:
        yield "mm", f"{named(m, n, k)} float16", mm.make(), matrices(m, n, k), "highest", (H200, H20, H100_PCIE)
    for (m, n, k), dtype in itertools.product(FEW_PRODUCTS, (BF16, F32, F64, INT8, FP8)):
        yield "mm", f"{named(m, n, k)} {short(dtype)}", mm.make(), matrices(m, n, k, dtype), "highest", MOST
    for m, n, k in FEW_PRODUCTS:
        yield "mm", f"{named(m, n, k)} tf32", mm.make(), matrices(m, n, k, F32), "high", MOST
    for m, n, k in ((4096, 4096, 4096), (1280, 4096, 4096), (16, 4096, 4096)):
        yield "mm", f"{named(m, n, k)} float16 everywhere", mm.make(), matrices(m, n, k), "highest", ALL
        mixed = tensor(m, k), tensor(k, n, dtype=F32), tensor(m, n, dtype=F32)
        yield "mm", f"{named(m, n, k)} float16 x float32", mm.make(), mixed, "high", GENERATIONS
    for (n, k), m in itertools.product(LLAMA_WEIGHTS, (1, 16, 32, 64)):
        arguments = tensor(m, k, dtype=BF16), tensor(n, k, dtype=BF16).T, tensor(m, n, dtype=BF16)
        yield "mm", f"{named(m, n, k)} bfloat16 transposed", mm.make(), arguments, "highest", (H100, H200)
    yield from layouts()


def layouts():
    """Operands whose rows start anywhere, at multiples of 8 elements, or stand upright."""
    for m, n, k in ((4088, 4088, 4088), (4104, 4104, 4104), (1000, 4096, 4096), (512, 2056, 4096)):
        yield "mm", f"{named(m, n, k)} float16 odd rows", mm.make(), matrices(m, n, k), "highest", GENERATIONS
    for m, n, k in ((4095, 4095, 4095), (300, 301, 302), (16, 4097, 4096)):
        yield "mm", f"{named(m, n, k)} float16 unaligned", mm.make(), matrices(m, n, k), "highest", GENERATIONS
    for m, n, k in ((4096, 4096, 4096), (16, 28672, 4096), (2048, 128256, 4096)):
        upright = tensor(m, k), tensor(n, k).T, tensor(m, n)
        yield "mm", f"{named(m, n, k)} float16 transposed", mm.make(), upright, "highest", GENERATIONS


def operators():
    for (m, n, k), dtype in itertools.product((*FEW_PRODUCTS, (2048, 2048, 2048), (8192, 1024, 4096)), (F16, F32)):
        arguments = tensor(m, n, dtype=dtype), *matrices(m, n, k, dtype)
        arguments = *arguments[:3], 2.0, 0.5, arguments[3]
        yield "addmm", f"{named(m, n, k)} {short(dtype)}", addmm.make(), arguments, "high", GENERATIONS
    batches = ((1, 64, 64, 64), (3, 70, 90, 50), (4, 2048, 2048, 2048), (16, 512, 512, 64), (128, 1, 128, 4096))
    for (b, m, n, k), dtype in itertools.product((*batches, (64, 16, 1024, 1024), (8, 1000, 1000, 1000)), (F16, F32)):
        arguments = tuple(tensor(*shape, dtype=dtype) for shape in ((b, m, k), (b, k, n), (b, m, n)))
        yield "bmm", f"{named(b, m, n, k)} {short(dtype)}", bmm.make(), arguments, "highest", MOST
    images = ((4, 512, 14, 14, 512), (32, 64, 56, 56, 64), (1, 3, 224, 224, 64), (2, 5, 9, 11, 7), (16, 128, 28, 28, 1))
    for (batch, channels, height, width, filters), dtype in itertools.product(images, (F16, F32)):
        output = tensor(batch, filters, height - 2, width - 2, dtype=dtype)
        weights = tensor(filters, channels, 3, 3, dtype=dtype), tensor(filters, dtype=dtype)
        arguments = tensor(batch, channels, height, width, dtype=dtype), *weights, output, True
        case = f"{named(batch, channels, height, width, filters)} {short(dtype)}"
        yield "conv2d", case, conv2d.make(), arguments, "highest", MOST
    depthwise = tensor(8, 64, 32, 32), tensor(64, 1, 3, 3), tensor(64), tensor(8, 64, 30, 30), False
    yield "conv2d", "8x64x32x32 depthwise", conv2d.make(filters=1), depthwise, "highest", ALL


def attention():
    lengths = ((4, 48, 1024, 1024), (1, 32, 8192, 8192), (2, 8, 100, 300), (2, 32, 1, 4096), (4, 16, 4096, 4096))
    flags = ((sdpa.NO_MASK, False), (sdpa.NO_MASK, True), (sdpa.BOOLEAN_MASK, False), (sdpa.ADDITIVE_MASK, True))
    for (b, h, m, n), width in itertools.product(lengths, (16, 24, 64, 128, 256)):
        for masking, is_causal in flags if width in (64, 128) else flags[:1]:
            yield _attended(b, h, m, n, width, F16, masking, is_causal, "highest", MOST)
    for dtype, precision in ((BF16, "highest"), (F32, "highest"), (F32, "high")):
        for width in (64, 128, 256):
            yield _attended(2, 16, 2048, 2048, width, dtype, sdpa.NO_MASK, True, precision, MOST)
    yield _attended(4, 48, 1024, 1024, 80, F16, sdpa.NO_MASK, True, "highest", ALL)


def _attended(b, h, m, n, width, dtype, masking, is_causal, precision, gpus):
    shapes = (b, h, m, width), (b, h, n, width), (b, h, n, width), (b, h, m, width)
    query, key, value, output = (tensor(*shape, dtype=dtype) for shape in shapes)
    mask = tensor(1, dtype=torch.bool if masking == sdpa.BOOLEAN_MASK else dtype).expand(b, h, m, n)
    arguments = query, key, value, mask, 0.125, output, masking, is_causal
    kind = short(dtype) if precision == "highest" else "tf32"
    case = f"{named(b, h, m, n, width)} {kind} masking={masking} causal={is_causal}"
    return "sdpa", case, sdpa.make(), arguments, precision, gpus


def lanewise():
    sizes = (0, 1, 100, 1000, 4096, 65536, 10**6, 1 << 24)
    for n, dtype in itertools.product(sizes, (INT8, F16, F32, F64)):
        case = f"{n} {short(dtype)}"
        yield "silu", case, silu.make(1), (tensor(n, dtype=dtype), tensor(n, dtype=dtype)), "highest", (H200, T4, None)
    for shape in ((7, 300), (4096, 4096), (3, 5, 7), (64, 128, 1000), (2, 3, 4, 5)):
        tensors = [tensor(*shape) for _ in range(3)]
        arguments = tensors[0], tensors[1], 2.0, tensors[2]
        yield "add", f"{named(*shape)} float16", add.make(len(shape)), arguments, "highest", (A100, H200, None)
        turned = tensors[0], tensor(*reversed(shape)).permute(*reversed(range(len(shape)))), 2.0, tensors[2]
        yield "add", f"{named(*shape)} float16 transposed", add.make(len(shape)), turned, "highest", (H200, None)
    for shape in ((2, 100, 63), (8, 4096, 4095), (1, 1, 1)):
        whole = tensor(*shape[:2], -(-shape[2] // 64) * 64)
        yield "padded", f"{named(*shape)} float16", padded.make(), (tensor(*shape), whole), "highest", (H200, None)


def rows():
    shapes = [*itertools.product((1, 64, 4096), (1, 64, 300, 1024, 4096, 32768)), (100000, 128), (0, 64)]
    for shape, dtype in itertools.product(shapes, (F16, F32)):
        x, y = tensor(*shape, dtype=dtype), tensor(*shape, dtype=dtype)
        case = f"{named(*shape)} {short(dtype)}"
        yield "softmax", case, softmax.make(2), (x, y), "highest", (A100, H200, None)
        arguments = x, tensor(shape[-1], dtype=dtype), 1e-6, y, True
        yield "rms_norm", case, rms_norm.make(2), arguments, "highest", (H200, RTX_3090)
    for shape in ((2, 3, 500), (16, 1024, 64)):
        arguments = tensor(*shape), tensor(*shape)
        yield "softmax", f"{named(*shape)} float16", softmax.make(3), arguments, "highest", GENERATIONS
    for shape in ((4, 131072), (1000, 40000)):
        arguments = tensor(*shape), tensor(*shape)
        yield "softmax", f"{named(*shape)} long", long_rows.make_softmax(2), arguments, "highest", GENERATIONS
    for (b, m, h, width), interleaved in itertools.product(((2, 3, 5, 12), (4, 1024, 48, 64)), (True, False)):
        table = tensor(b, m, 1, width // 2)
        arguments = tensor(b, m, h, width), table, table, tensor(b, m, h, width)
        case = f"{named(b, m, h, width)} interleaved={interleaved}"
        yield "rope", case, rope.make(interleaved), arguments, "highest", GENERATIONS
    for b, m in ((2, 1), (32, 1), (64, 1), (1, 2048)):
        query, state, table, cache = (b, m, 8, 4, 128), (b, m, 8, 128), (b, m, 1, 64), (b, 8, 4096, 128)
        tensors = [tensor(*shape) for shape in (query, state, state, table, table, cache, cache, query)]
        arguments = *tensors[:5], tensor(b, m, dtype=torch.int64), *tensors[5:]
        yield "rope_into_cache", named(b, m), rope_into_cache.make(), arguments, "highest", GENERATIONS


@functools.cache
def fixed(**options):
    """A product whose rows and columns the user gives, with what else there is to give."""
    blocks = Symbol("M", constexpr=True), Symbol("N", meta=True), Symbol("K", meta=True, upper_bound=64)

    def arrangement(input, other, output):
        arranged = output.tile(blocks[:2])
        lhs = input.tile((blocks[0], blocks[2])).tile((1, -1)).expand((-1, arranged.shape[1]))
        lhs.dtype = lhs.dtype.squeeze(0)
        rhs = other.tile((blocks[2], blocks[1])).tile((-1, 1)).expand((arranged.shape[0], -1))
        rhs.dtype = rhs.dtype.squeeze(1)
        return lhs, rhs, arranged

    return ninetoothed.make(arrangement, mm.application, (Tensor(2), Tensor(2), Tensor(2)), **options)


def given():
    """Blocks, warps and stages that the user gives."""
    options = ({}, {"num_warps": 1}, {"num_warps": (2, 16)}, {"num_stages": 1}, {"num_stages": (2, 9)})
    for each, m, size in itertools.product(options, (16, 128, 256), (100, 3072)):
        case = f"{named(size, size, size)} M={m} {each}"
        yield "given", case, fixed(**each), (*matrices(size, size, size), {"M": m}), "highest", GENERATIONS


def grid():
    for part in (products, operators, attention, lanewise, rows, given):
        yield from part()


@contextmanager
def precision_of_products(precision):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def picks(operator=None):
    """The pick of each call of the grid: {operator: {case: {GPU: pick}}}."""
    found = {}
    for name, case, kernel, arguments, precision, gpus in grid():
        if operator in (None, name):
            *arguments, keywords = arguments if isinstance(arguments[-1], dict) else (*arguments, {})
            with precision_of_products(precision):
                selected = Selected(kernel, tuple(arguments), keywords)
            each = {
                "CPU" if gpu is None else gpu.name: described(kernel.definition, selected.candidates(gpu)[0])
                for gpu in gpus
            }
            cases = found.setdefault(name, {})
            assert case not in cases, f"{name} has two calls {case}"
            cases[case] = each
    return found


def keys(found):
    return {(operator, case, gpu) for operator, cases in found.items() for case, each in cases.items() for gpu in each}


def differences(before, after):
    """Tell which picks changed."""
    for operator, case, gpu in sorted(keys(before) & keys(after)):
        old, new = before[operator][case][gpu], after[operator][case][gpu]
        if old != new:
            yield f"{operator} {case} {gpu}: {old} -> {new}"


def main():
    kept = json.loads(FILE.read_text()) if FILE.exists() else {}
    found = picks()
    print(*differences(kept, found), f"{len(keys(found))} picks", sep="\n")
    FILE.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
