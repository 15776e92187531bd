"""Modules that run under Triton's interpreter, each in a process of its own: Triton reads the setting when imported."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]


def run(script, cache):
    """Run a module beside this one in the interpreter; its caches go to a directory of the test's."""
    run_module(cache, f"tests.ninetoothed.backends.{script}")


def run_module(cache, *arguments):
    """The same for any module, with arguments of its own; what it has printed."""
    environment = {
        # Not what this process's pytest was given: a plugin may compile, which the interpreter does not.
        **{name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"},
        "TRITON_INTERPRET": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "NINETOOTHED_CACHE_DIR": str(cache),
    }
    command = [sys.executable, "-m", *arguments]
    finished = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stdout[-5000:] + finished.stderr[-5000:]
    return finished.stdout
