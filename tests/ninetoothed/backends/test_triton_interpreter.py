"""Everything that applications may do, once more: as emitted text in Triton's interpreter, in a process of its own."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton")


def test_applications_in_the_interpreter(tmp_path):
    plugin = "tests.ninetoothed.backends.interpreted"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        plugin,
        "tests/ninetoothed/frontend/test_applications.py",
        "tests/ninetoothed/frontend/test_division.py",
        "tests/ninetoothed/frontend/test_indexing.py",
        "tests/ninetoothed/frontend/test_random_programs.py",
        "-k",
        "not compiles",
    ]
    environment = {
        **os.environ,
        "TRITON_INTERPRET": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "NINETOOTHED_CACHE_DIR": str(tmp_path),
    }
    finished = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stdout[-5000:] + finished.stderr[-2000:]
