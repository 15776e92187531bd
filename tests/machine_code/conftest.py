"""The two assemblers that tests compile with, and a cache of each test's own."""

from pathlib import Path

import pytest

from ninetoothed.runtime.compilation import assembler


@pytest.fixture(autouse=True)
def directories(tmp_path, monkeypatch):
    monkeypatch.setenv("NINETOOTHED_CACHE_DIR", str(tmp_path / "ninetoothed"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    return tmp_path


@pytest.fixture
def bundled(monkeypatch):
    """The ptxas that comes with Triton, which loses registers."""
    triton = pytest.importorskip("triton")
    path = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas"
    monkeypatch.setenv("TRITON_PTXAS_PATH", str(path))
    if assembler.for_hopper().is_sound:
        version = ".".join(map(str, assembler.for_hopper().version))
        pytest.skip(
            f"needs Triton with an assembler older than CUDA 13.3, which loses registers; this one has {version}"
        )
    return assembler.for_hopper()


@pytest.fixture
def sound(monkeypatch):
    """A ptxas of CUDA 13.3 or newer."""
    pytest.importorskip("triton")
    monkeypatch.delenv("TRITON_PTXAS_PATH", raising=False)
    if not assembler.for_hopper().is_sound:
        pytest.skip('there is no ptxas of CUDA 13.3 or newer: `pip install "nvidia-cuda-nvcc>=13.3"`')
    return assembler.for_hopper()
