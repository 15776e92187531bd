"""Which ptxas is used for Hopper: the user's own, the package's, a toolkit's, where the driver loads its output."""

import importlib.metadata
import os

import pytest

pytest.importorskip("triton")

from ninetoothed.runtime.compilation import assembler
from ninetoothed.runtime.selection import machine


@pytest.fixture(autouse=True)
def nothing(monkeypatch, tmp_path):
    """No assembler but Triton's own, and no driver."""
    for name in ("TRITON_PTXAS_PATH", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path") + os.pathsep + os.defpath)
    monkeypatch.setattr(importlib.metadata, "files", lambda name: [])
    monkeypatch.setattr(assembler, "_driver_version", lambda: None)
    monkeypatch.setattr(assembler, "_DEFAULT_TOOLKIT", str(tmp_path / "local"))
    if assembler.of_triton().is_sound:
        version = ".".join(map(str, assembler.of_triton().version))
        pytest.skip(f"needs Triton with an assembler older than CUDA 13.3, to be replaced; this one has {version}")


@pytest.fixture
def put(tmp_path):
    """Put a ptxas of a version into a toolkit."""

    def put(version, place, folder="bin"):
        path = tmp_path / place / folder / "ptxas"
        path.parent.mkdir(parents=True)
        path.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release {version}, V{version}.73'\n")
        path.chmod(0o755)
        return str(path)

    return put


class File:
    """A file of a package."""

    def __init__(self, path):
        self.name, self._path = os.path.basename(path), path

    def locate(self):
        return self._path


def packaged(monkeypatch, path):
    monkeypatch.setattr(importlib.metadata, "files", lambda name: [File(f"{path}.txt"), File(path)])


def test_without_any_other_it_is_the_one_of_triton():
    assert assembler.for_hopper() == assembler.of_triton()
    assert assembler.loses_registers(machine.H200) and not assembler.loses_registers(None)


def test_it_matters_on_hopper_alone():
    assert assembler.for_architecture(90) is not None
    assert assembler.for_architecture(80) is None and assembler.for_architecture(100) is None
    assert not assembler.loses_registers(machine.A100)


def test_places_in_their_order(monkeypatch, put, tmp_path):
    expected = put("13.3", "local")
    assert assembler.for_hopper() == assembler.Assembler(expected, (13, 3))
    expected = put("13.4", "path", "")
    assert assembler.for_hopper().path == expected
    expected = put("14.0", "home")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    assert assembler.for_hopper().path == expected
    expected = put("13.5", "package")
    packaged(monkeypatch, expected)
    assert assembler.for_hopper() == assembler.Assembler(expected, (13, 5))
    assert not assembler.loses_registers(machine.H200)


def test_one_that_is_not_sound_or_does_not_run_is_passed_over(monkeypatch, put, tmp_path):
    packaged(monkeypatch, put("13.2", "package"))
    broken = put("13.5", "home")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    os.chmod(broken, 0o644)
    assert assembler.for_hopper() == assembler.of_triton()
    expected = put("13.3", "local")
    assert assembler.for_hopper().path == expected


@pytest.mark.parametrize("driver, is_used", ((None, True), (13000, True), (14010, True), (12080, False)))
def test_the_driver_must_load_its_output(driver, is_used, monkeypatch, put):
    packaged(monkeypatch, put("13.5", "package"))
    monkeypatch.setattr(assembler, "_driver_version", lambda: driver)
    assert assembler.for_hopper().is_sound == is_used


@pytest.mark.parametrize("version", ("12.8", "13.5"))
def test_what_the_user_names_is_used_as_it_is(version, monkeypatch, put):
    packaged(monkeypatch, put("13.4", "package"))
    named = put(version, "named")
    monkeypatch.setenv("TRITON_PTXAS_PATH", named)
    assert assembler.for_hopper().path == named
    assert assembler.loses_registers(machine.H200) == (version == "12.8")


def test_so_is_what_is_named_in_python(monkeypatch, put):
    from triton import knobs

    packaged(monkeypatch, put("13.4", "package"))
    with knobs.nvidia.scope():
        knobs.nvidia.ptxas = put("12.9", "named")
        assert assembler.for_hopper().version == (12, 9)
    assert assembler.for_hopper().version == (13, 4)
