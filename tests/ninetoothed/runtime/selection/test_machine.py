"""Machines are rows: a GPU that is added to them is known everywhere, and nothing else tells GPUs apart."""

import dataclasses
import pathlib
import re

import pytest
import torch

import ninetoothed
from ninetoothed.errors import ArgumentError
from ninetoothed.runtime.build.target import target_of
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
    own = dataclasses.replace(machine.generation_of(90), name="Next", since=130, has_tma=False, warp_size=64)
    monkeypatch.setattr(machine, "GENERATIONS", (*machine.GENERATIONS, own))
    gpu = dataclasses.replace(machine.H200, name="N100", capability=130)
    target = target_of(gpu)
    assert target.warp_size == 64 and target.has_wgmma and not target.has_tma
    source = mm.make().source(*square(4096), gpu=gpu)
    assert not source.configuration.use_tma and "desc" not in source.text


@pytest.mark.parametrize(
    "capability, name", ((75, "Ampere"), (80, "Ampere"), (89, "Ampere"), (90, "Hopper"), (100, "Blackwell"))
)
def test_generations_follow_one_another(capability, name):
    assert machine.generation_of(capability).name == name
    assert [each.since for each in machine.GENERATIONS] == sorted(each.since for each in machine.GENERATIONS)


def test_no_other_file_tells_gpus_apart():
    compared = re.compile(r"capability\s*(//|[<>]|[=!]=)")
    found = {path.name for path in ROOT.rglob("*.py") if compared.search(path.read_text(encoding="utf-8"))}
    assert found == {"machine.py"}
