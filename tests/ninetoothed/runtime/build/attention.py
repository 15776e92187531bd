"""An attention that scales its query first: the left operand of one of its products is the same in every round."""

from dataclasses import replace

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, block_size
from ninetoothed.runtime import arguments, dispatch, executable, variants
from ninetoothed.runtime.build.target import target_of
from ninetoothed.runtime.selection import machine


def arrangement(query, key, value, output, M=block_size(), N=block_size()):
    def rows(tensor):
        tensor = tensor.tile((1, 1, M, -1))
        tensor.dtype = tensor.dtype.squeeze((0, 1))
        return tensor

    query_arranged = rows(query)

    def blocks(tensor):
        tensor = tensor.tile((1, 1, N, -1)).tile((1, 1, -1, 1)).expand((-1, -1, query_arranged.shape[2], -1))
        tensor.dtype = tensor.dtype.squeeze((0, 1, 3))
        tensor.dtype.dtype = tensor.dtype.dtype.squeeze((0, 1))
        return tensor

    return query_arranged, blocks(key), blocks(value), rows(output)


def application(query, key, value, output):
    scaled = (query * 1.4427).to(query.dtype)
    peak = ntl.full((query.shape[0],), float("-inf"), dtype=ntl.float32)
    total = ntl.zeros((query.shape[0],), dtype=ntl.float32)
    accumulator = ntl.zeros(output.shape, dtype=ntl.float32)

    for i in range(key.shape[0]):
        scores = ntl.dot(scaled, ntl.trans(key[i]))
        new_peak = ntl.maximum(peak, ntl.max(scores, axis=1))
        weights = ntl.exp2(scores - new_peak[:, None])
        decay = ntl.exp2(peak - new_peak)
        total = total * decay + ntl.sum(weights, axis=1)
        accumulator = accumulator * decay[:, None] + ntl.dot(weights.to(value.dtype.dtype), value[i])
        peak = new_peak

    output = accumulator / total[:, None]


def make():
    tensors = tuple(Tensor(4, shape_options=(None, None, None, {"constexpr": True})) for _ in range(4))
    return ninetoothed.make(arrangement, application, tensors, kernel_name="scaled")


def variant(rows, warps, gpu=machine.H200, columns=64):
    """The kernel's definition, and a variant of it for (2, 4, 1024, 64) with blocks of so many rows."""
    launcher = dispatch.Launcher(make().definition)
    given = tuple(torch.empty(2, 4, 1024, 64, dtype=torch.float16) for _ in range(4))
    configuration = launcher.trace(given, {}, gpu).selection.schedule
    meta = tuple(zip(launcher.definition.meta_symbols, (rows, columns), strict=True))
    configuration = replace(configuration, meta=meta, num_warps=warps, num_stages=3)
    call = arguments.BoundCall(given, ())
    selection = launcher._variants.select(call, torch.device("cpu"), gpu, configuration)
    return launcher.definition, variants.trace(launcher.definition, selection)


def compiled(definition, variant):
    """The variant as Triton makes it for an assembler that is sound: with its query in registers."""
    target = replace(target_of(variant.selection.gpu), loses_wgmma_operands=False)
    return executable._compiled(definition, variant, executable.schedule_of(variant), target)
