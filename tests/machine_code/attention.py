"""Attentions that change their query, in one spelling each, so that a left operand is the same in each round."""

from dataclasses import replace
from types import SimpleNamespace

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, block_size
from ninetoothed.runtime import arguments, dispatch, executable, variants
from ninetoothed.runtime.compilation.target import target_of
from ninetoothed.runtime.selection import machine

try:
    import triton
except ModuleNotFoundError:
    triton = SimpleNamespace(jit=lambda function: function)


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


def spelled(before, inside, after):
    """Make an attention that applies a function to its query before its loop, in each round, and for the next round."""

    def application(query, key, value, output):
        scaled = before(query)
        peak = ntl.full((query.shape[0],), float("-inf"), dtype=ntl.float32)
        total = ntl.zeros((query.shape[0],), dtype=ntl.float32)
        accumulator = ntl.zeros(output.shape, dtype=ntl.float32)

        for i in range(key.shape[0]):
            left = inside(scaled, i)
            scores = ntl.dot(left, ntl.trans(key[i]))
            new_peak = ntl.maximum(peak, ntl.max(scores, axis=1))
            weights = ntl.exp2(scores - new_peak[:, None])
            decay = ntl.exp2(peak - new_peak)
            total = total * decay + ntl.sum(weights, axis=1)
            accumulator = accumulator * decay[:, None] + ntl.dot(weights.to(value.dtype.dtype), value[i])
            peak = new_peak
            scaled = after(scaled, left)

        output = accumulator / total[:, None]

    return application


def as_it_is(tile, _=None):
    return tile


def as_in_the_round(_, tile):
    return tile


def times(tile, _=None):
    return (tile * 1.4427).to(tile.dtype)


def times_one(tile, _=None):
    return tile * 1.0


def positive(tile, _=None):
    return ntl.where(tile > 0, tile, 0.0)


@triton.jit
def helped(tile, _=None):
    return (tile * 1.4427).to(tile.dtype)


def counted(tile, i):
    return (tile * i).to(tile.dtype)


APPLICATIONS = {
    "scaled before": spelled(times, as_it_is, as_it_is),
    "scaled in each round": spelled(as_it_is, times, as_it_is),
    "chosen before": spelled(positive, as_it_is, as_it_is),
    "chosen in each round": spelled(as_it_is, positive, as_it_is),
    "by a helper": spelled(helped, as_it_is, as_it_is),
    "by a helper in each round": spelled(as_it_is, helped, as_it_is),
    "carried, times 1": spelled(as_it_is, times_one, as_in_the_round),
    "scaled and carried, times 1": spelled(times, times_one, as_in_the_round),
    "carried for the next": spelled(times, as_it_is, times_one),
    "carried, times 1.4427": spelled(as_it_is, times, as_in_the_round),
    "times the round": spelled(as_it_is, counted, as_it_is),
    "as it is": spelled(as_it_is, as_it_is, as_it_is),
}


def make(spelling="scaled before"):
    tensors = tuple(Tensor(4, shape_options=(None, None, None, {"constexpr": True})) for _ in range(4))
    return ninetoothed.make(arrangement, APPLICATIONS[spelling], tensors, kernel_name="scaled")


def variant(rows, warps, spelling="scaled before", columns=64):
    """The kernel's definition, and a variant of it for (2, 4, 1024, 64) with blocks of so many rows."""
    launcher = dispatch.Launcher(make(spelling).definition)
    given = tuple(torch.empty(2, 4, 1024, 64, dtype=torch.float16) for _ in range(4))
    configuration = launcher.trace(given, {}, machine.H200).selection.schedule
    meta = tuple(zip(launcher.definition.meta_symbols, (rows, columns), strict=True))
    configuration = replace(configuration, meta=meta, num_warps=warps, num_stages=3)
    call = arguments.BoundCall(given, ())
    selection = launcher._variants.select(launcher.plan, call, torch.device("cpu"), machine.H200, configuration)
    return launcher.definition, variants.trace(launcher.definition, selection)


def compiled(definition, variant):
    """The variant as Triton makes it for an assembler that is sound: with its query in registers."""
    target = replace(target_of(variant.selection.gpu), loses_wgmma_operands=False)
    return executable._compiled(definition, variant, executable.schedule_of(variant), target)
