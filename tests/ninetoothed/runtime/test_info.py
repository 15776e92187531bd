"""`python -m ninetoothed`: what kernels run on here, and an empty cache."""

import dataclasses
import pathlib
import re

import pytest
import torch

from ninetoothed import __main__
from ninetoothed.runtime import info, private
from ninetoothed.runtime.compilation import assembler, disk_cache, gluon, target
from ninetoothed.runtime.selection import machine


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    monkeypatch.setenv("NINETOOTHED_CACHE_DIR", str(tmp_path))
    return tmp_path


def rows(title):
    return dict(dict(info.sections())[title])


def test_the_command_prints_every_section(capsys, directory):
    __main__.main(["info"])
    printed = capsys.readouterr().out
    assert [line for line in printed.splitlines() if not line.startswith(" ")] == [
        "versions:", "GPU:", "assembler for Hopper:", "fast paths:", "caches:"
    ]  # fmt: skip
    assert torch.__version__ in printed and str(directory) in printed


def test_fast_paths_say_why_they_are_not_active(monkeypatch):
    assert set(rows("fast paths").values()) == {"active"}
    monkeypatch.setenv("NINETOOTHED_GLUON", "0")
    monkeypatch.setattr(target, "has_descriptors", lambda: False)
    monkeypatch.setattr(private, "TensorGuards", None)
    monkeypatch.setattr(private, "empty_strided_cuda", None)
    said = rows("fast paths")
    assert all(each.startswith("not active: ") for each in said.values())
    assert said["attention with overlapped products (Gluon)"] == "not active: NINETOOTHED_GLUON=0"
    monkeypatch.delenv("NINETOOTHED_GLUON")
    monkeypatch.setattr(gluon, "why_not", lambda: "this Triton has no gl.jit")
    assert rows("fast paths")["attention with overlapped products (Gluon)"] == "not active: this Triton has no gl.jit"


def test_an_assembler_that_loses_registers_is_named_with_its_cure(monkeypatch):
    monkeypatch.setattr(assembler, "for_hopper", lambda: assembler.Assembler("/bin/ptxas", (12, 8)))
    assert "nvidia-cuda-nvcc>=13.3" in rows("assembler for Hopper")[""]
    monkeypatch.setattr(assembler, "for_hopper", lambda: assembler.Assembler("/bin/ptxas", (13, 4)))
    assert rows("assembler for Hopper")[""] == "ptxas 13.4 (/bin/ptxas)"


def test_support_of_a_gpu():
    said = {each.name: info.support(each) for each in machine.MACHINES}
    assert said["H200"] == "run" and said["A100"] == said["B200"] == "compiled for in the tests, not run on"
    compiled = "A100, H100, B200, RTX 3090, RTX 5090, MI300X, MI355X"
    assert rows("GPU")["supported"] == f"H200: run; {compiled}: compiled in the tests, not run; others: neither"
    # As a driver tells of it.
    assert info.support(machine.Machine("H200", 90, 132, 227 * 1024)) == "run"
    assert info.support(machine.named("MI300X")) == "compiled for in the tests, not run on"
    other = dataclasses.replace(machine.A100, name="RTX", architecture=75)
    assert info.support(other) == "neither run nor compiled for"


def test_clearing_removes_what_is_kept_and_nothing_else(capsys, directory):
    disk_cache.DiskRecord("tuned", "kernel", {"a": 1}).write(5)
    disk_cache.DiskRecord("compiled", "kernel", {"a": 1}).write(6)
    mine = directory / "mine.txt"
    mine.write_text("a file of the user's")
    assert rows("caches")[str(directory)].startswith("2 files, ")
    __main__.main(["cache", "clear"])
    assert capsys.readouterr().out.startswith("removed 2 files, ")
    assert mine.exists() and not list(disk_cache.kept())


def test_all_folders_of_the_cache_are_known(directory):
    """What is written to a folder that `clear` does not know would stay."""
    source = "".join(path.read_text() for path in pathlib.Path(info.__file__).parents[1].rglob("*.py"))
    written = set(re.findall(r'DiskRecord\(\s*"(\w+)"', source)) | set(re.findall(r'directory\(\) / "(\w+)"', source))
    assert written == set(disk_cache.FOLDERS)
