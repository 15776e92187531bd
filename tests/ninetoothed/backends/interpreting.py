"""Modules that run under Triton's interpreter, each in a process of its own: Triton reads the setting when imported."""

from tests import forked

BEFORE = (("TRITON_INTERPRET", "1"), ("CUDA_VISIBLE_DEVICES", ""))


def run_module(cache, name, *arguments):
    """Run a module in the interpreter; its caches go to a directory of the test's. Return what it has printed."""
    done = forked.run_module(name, *arguments, before=BEFORE, NINETOOTHED_CACHE_DIR=str(cache))
    printed = done.stdout + done.stderr
    assert done.status == "0", f"status {done.status}: {printed[-10000:]}"
    return done.stdout
