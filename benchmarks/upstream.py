"""Upstream's operators, timed by an environment of their own: both languages are called `ninetoothed`.

`python -m benchmarks.kernels --upstream PYTHON` has the interpreter PYTHON, of an environment with PyTorch, upstream's
`ninetoothed` and its operators `ntops`, run this file as a program: one operation each time, since tuning takes long.
So far it was run against a stand-in alone.
"""

import json
import pathlib
import subprocess
import sys

OPERATORS = {"rope": "rotary_position_embedding", "sdpa": "scaled_dot_product_attention"}


def measured(python, name, case, dtype):
    """(milliseconds, relative error) of upstream's operator, or (None, message) where it does not run."""
    done = subprocess.run([python, __file__, name, case, dtype], capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return None, lines[-1] if lines else f"exit status {done.returncode}"
    result = json.loads(done.stdout.splitlines()[-1])
    return result["milliseconds"], result["error"]


def main(name, case, dtype):
    # The packages of this project come last: `ninetoothed` must be the one that is installed.
    sys.path[0:1] = []
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
    import ntops
    import torch

    from benchmarks import measure, tasks

    task = tasks.load(name)
    args, kwargs = tasks.arguments(task, case, getattr(torch, dtype), "cuda")
    operator = getattr(ntops.torch, OPERATORS.get(name, name))

    def call():
        return operator(*args, **kwargs)

    with torch.inference_mode():
        error = tasks.relative_error(call(), tasks.reference(task, args, kwargs))
        print(json.dumps({"milliseconds": measure.device_times({"upstream": call})["upstream"], "error": error}))


if __name__ == "__main__":
    main(*sys.argv[1:])
