"""Run modules and scripts in processes of their own, which are forks of one that has imported what they need.

PyTorch, Triton and our packages take longer to import than most of what tests run needs. The first process is started
with the environment that must be there before an import; a fork gets what may be set later.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import pathlib
import runpy
import subprocess
import sys
import tempfile
import traceback
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Done:
    """What became of a fork: its exit status, and what it has printed."""

    status: str
    stdout: str
    stderr: str


def run_script(path, *arguments, before=(), **environment):
    """Run a file as `python FILE` does. before: pairs of the environment in which packages are imported."""
    return _run(tuple(before), {"script": str(path), "arguments": arguments}, environment)


def run_module(name, *arguments, before=(), **environment):
    """Run a module as `python -m` does."""
    return _run(tuple(before), {"module": name, "arguments": arguments}, environment)


def _run(before, request, environment):
    parent = _parent(before)
    with tempfile.NamedTemporaryFile("r") as stdout, tempfile.NamedTemporaryFile("r") as stderr:
        request = {**request, "stdout": stdout.name, "stderr": stderr.name, "environment": environment}
        print(json.dumps(request), file=parent.stdin, flush=True)
        status = parent.stdout.readline().strip()
        return Done(status or "unknown", stdout.read(), stderr.read())


@functools.cache
def _parent(before):
    """The process that forks; it ends with this one, which closes its input."""
    # Not what this process's pytest was given: a plugin may compile, which Triton's interpreter does not.
    given = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    environment = {**given, "PYTHONPATH": str(ROOT), **dict(before)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-m", __spec__.name], cwd=ROOT, env=environment, text=True, **pipes)


def _serve():
    """Run what is asked for, one after the other, and tell how each ended."""
    for name in ("torch", "triton", "ninetoothed", "ninetoothed_ops"):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:  # There may be no Triton.
            pass
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if not child:
            os._exit(_child(**request))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _child(arguments, stdout, stderr, environment, module=None, script=None):
    """Run a module or a script, with all that it prints in files; its exit status."""
    for descriptor, path in enumerate((os.devnull, stdout, stderr)):
        with open(path, "w" if descriptor else "r") as file:
            os.dup2(file.fileno(), descriptor)
    os.environ.update(environment)
    sys.argv = [module or script, *arguments]
    status = 0
    try:
        if module:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = str(pathlib.Path(script).parent)
            runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return status


if __name__ == "__main__":
    _serve()
