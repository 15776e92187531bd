"""The time of a first call: in a new process, imports and the CUDA context apart.

That of a twin includes its tuning; that of `conv2d` by ours includes repacking the filter.
`first_calls` starts `python -m benchmarks.cold` twice over one set of caches: empty for the first, warm for the second.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import torch

from benchmarks import peers, tasks

CACHES = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "NINETOOTHED_CACHE_DIR", "XDG_CACHE_HOME")


def first_calls(peer, names, case, dtype):
    """`{"cold": {operation: seconds}, "warm": {operation: seconds}}` of one peer."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, **{name: os.path.join(folder, name.lower()) for name in CACHES}}
        command = [sys.executable, "-m", "benchmarks.cold", peer, case, dtype, *names]
        return {temperature: run(command, environment) for temperature in ("cold", "warm")}


def run(command, environment):
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def measure(peer, name, case, dtype, device):
    """Seconds that the first call of one operation takes in this process."""
    task = tasks.load(name)
    args, kwargs = tasks.arguments(task, case, dtype, device)
    call = peers.calls(task, args, kwargs)[peer]
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    wait()
    start = time.perf_counter()
    call()
    wait()
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cold", description=__doc__.splitlines()[0])
    parser.add_argument("peer", choices=("ninetoothed", "triton", "eager", "inductor"))
    parser.add_argument("case")
    parser.add_argument("dtype")
    parser.add_argument("names", nargs="+", choices=tasks.NAMES)
    options = parser.parse_args()
    dtype = getattr(torch, options.dtype)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.inference_mode():
        seconds = {name: measure(options.peer, name, options.case, dtype, device) for name in options.names}
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
