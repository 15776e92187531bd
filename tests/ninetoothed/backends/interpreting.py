"""Modules that run under Triton's interpreter, each in a process of its own: Triton reads the setting when imported.

The processes are forks of one that has imported PyTorch and Triton already, which takes longer than most modules do.
"""

import functools
import json
import os
import pathlib
import runpy
import subprocess
import sys
import tempfile
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[3]


def run_module(cache, *arguments):
    """Run a module in the interpreter, with arguments of its own; its caches go to a directory of the test's.

    Return what it has printed.
    """
    parent = _parent()
    with tempfile.NamedTemporaryFile("r") as output:
        request = {"arguments": arguments, "output": output.name, "NINETOOTHED_CACHE_DIR": str(cache)}
        print(json.dumps(request), file=parent.stdin, flush=True)
        status, printed = parent.stdout.readline().strip(), output.read()
    assert status == "0", f"status {status or 'unknown'}: {printed[-10000:]}"
    return printed


@functools.cache
def _parent():
    """The process that forks; it ends with this one, which closes its input."""
    environment = {
        # Not what this process's pytest was given: a plugin may compile, which the interpreter does not.
        **{name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"},
        "TRITON_INTERPRET": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    command = [sys.executable, "-m", __spec__.name]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen(command, cwd=ROOT, env=environment, text=True, **pipes)


def _serve():
    """Run what is asked for, one after the other, and tell how each ended."""
    import triton  # noqa: F401

    import ninetoothed  # noqa: F401
    import ninetoothed_ops  # noqa: F401

    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if not child:
            os._exit(_child(**request))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _child(arguments, output, **environment):
    """Run a module as `python -m` does, with all that it prints in a file; its exit status."""
    with open(output, "w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ.update(environment)
    sys.argv = list(arguments)
    status = 0
    try:
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
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
