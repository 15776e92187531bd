"""Triton's interpreter runs the emitted text of the ten kernels, and agrees with the CPU backend and with PyTorch."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

from tests.ninetoothed_ops.kernels import calls

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton")
def test_the_ten_kernels_in_the_interpreter(tmp_path):
    environment = {
        **os.environ,
        "TRITON_INTERPRET": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "NINETOOTHED_CACHE_DIR": str(tmp_path),
    }
    command = [sys.executable, "-m", "tests.ninetoothed_ops.kernels.interpret_kernels"]
    finished = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr[-5000:]
    assert finished.stdout.split() == list(calls.NAMES)
