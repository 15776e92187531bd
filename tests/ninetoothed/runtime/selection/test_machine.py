"""Machines are rows: a GPU that is added to them is known everywhere, and nothing else tells GPUs apart."""

import dataclasses
import pathlib
import re

import pytest
import torch

import ninetoothed
import ninetoothed_ops
from ninetoothed.errors import ArgumentError, UnsupportedError
from ninetoothed.runtime.compilation.target import target_of
from ninetoothed.runtime.selection import machine
from ninetoothed_ops.kernels import mm

ROOT = pathlib.Path(ninetoothed.__file__).parent


def square(size):
    return tuple(torch.empty(size, size, dtype=torch.float16) for _ in range(3))


def test_a_gpu_is_a_row(monkeypatch):
    with pytest.raises(ArgumentError, match="no row for a GPU called 'l40s'"):
        mm.make().source(*square(4096), gpu="l40s")
    row = machine.Machine("L40S", 89, 142, 99 * 1024, l2=96 * 2**20, bandwidth=0.86e12)
    monkeypatch.setattr(machine, "MACHINES", (*machine.MACHINES, row))
    assert mm.make().source(*square(4096), gpu="l40s").gpu is row


def test_a_generation_is_a_row(monkeypatch):
    """One with more registers for accumulators, fewer costs and no copy engine."""
    own = dataclasses.replace(
        machine.generation_of(90), name="Next", architectures=range(130, 140), has_tma=False, warp_size=64
    )
    monkeypatch.setattr(machine, "GENERATIONS", (own, *machine.GENERATIONS))
    gpu = dataclasses.replace(machine.H200, name="N100", architecture=130)
    target = target_of(gpu)
    assert target.warp_size == 64 and target.has_wgmma and not target.has_tma
    source = mm.make().source(*square(4096), gpu=gpu)
    assert not source.configuration.use_tma and "desc" not in source.text


NAMES = {
    **dict.fromkeys((75, 80, 86, 89), "Ampere"),
    90: "Hopper",
    **dict.fromkeys((100, 103), "Blackwell"),
    **dict.fromkeys((120, 121, 130), "Blackwell RTX"),
    "gfx942": "CDNA 3",
    "gfx950": "CDNA 4",
}


@pytest.mark.parametrize("architecture", NAMES)
def test_each_architecture_is_of_one_generation(architecture):
    assert machine.generation_of(architecture).name == NAMES[architecture]
    assert sum(architecture in each.architectures for each in machine.GENERATIONS) == 1


def test_one_without_a_row_is_refused_by_name():
    gpu = dataclasses.replace(machine.named("MI300X"), name="Radeon", architecture="gfx1100")
    with pytest.raises(UnsupportedError, match="no row for GPUs of gfx1100; of AMD's, there are gfx942, gfx950"):
        mm.make().source(*square(256), gpu=gpu)


class Properties:
    """What PyTorch says of a GPU."""

    name, multi_processor_count, major, minor = "AMD Instinct MI300X", 304, 9, 4
    gcnArchName, shared_memory_per_block_optin, L2_cache_size = "gfx942:sramecc+:xnack-", 65536, 4 * 2**20


def test_one_of_amd_is_not_taken_for_a_hopper(monkeypatch):
    """PyTorch says 9.4 of it, and "cuda"."""
    monkeypatch.setattr(torch.version, "hip", "7.1")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: Properties)
    machine._describe.cache_clear()
    try:
        gpu = machine._describe(0)
    finally:
        machine._describe.cache_clear()
    assert (gpu.architecture, gpu.name, gpu.multiprocessors, gpu.l2) == ("gfx942", "MI300X", 304, 4 * 2**20)
    assert gpu.generation.compiler == "hip" and not gpu.generation.has_wgmma and not gpu.generation.has_tma


# The latter, for machine code that is built ahead of time, knows on which GPUs of its family it runs.
ALLOWED = {"machine.py", "loaded.py"}


def test_no_other_file_tells_gpus_apart():
    compared = re.compile(r"get_device_capability|architecture\)?\s*(//|[<>]|[=!]=|[-+*])")
    files = [*ROOT.rglob("*.py"), *pathlib.Path(ninetoothed_ops.__file__).parent.rglob("*.py")]
    assert {path.name for path in files if compared.search(path.read_text(encoding="utf-8"))} == ALLOWED
