"""Scripts that run under Triton's interpreter, each in a process of its own: Triton reads the setting when imported."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]


def run(script, cache):
    """Run a module beside this one in the interpreter; its caches go to a directory of the test's."""
    command = [sys.executable, "-m", f"tests.ninetoothed.backends.{script}"]
    environment = {
        **os.environ,
        "TRITON_INTERPRET": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "NINETOOTHED_CACHE_DIR": str(cache),
    }
    finished = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stdout[-2000:] + finished.stderr[-2000:]
