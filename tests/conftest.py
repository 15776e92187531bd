"""What all tests share: the device that they run on, the cache that they compile into, and the files that are quick."""

import gc
import importlib.util
import os
import pathlib
import shutil
import sys
import tempfile

import pytest
import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton")
TESTS = pathlib.Path(__file__).resolve().parent


def error(actual, expected):
    """The relative error of all elements together; NaN where one is."""
    return ((actual.double() - expected.double()).norm() / expected.double().norm()).item()


# `pytest -m quick` runs these files alone: a minute on two cores, and something of every room. A file stands here that
# takes a few seconds at most; tests marked slow are left out.
QUICK = (
    "test_architecture.py",
    "test_guides.py",
    "ninetoothed/arrangement/test_evaluate.py",
    "ninetoothed/test_debugging.py",
    "ninetoothed/test_expr.py",
    "ninetoothed/test_fusion.py",
    "ninetoothed/test_messages.py",
    "ninetoothed/arrangement/test_metaops.py",
    "ninetoothed/test_package.py",
    "ninetoothed/arrangement/test_symbol.py",
    "ninetoothed/arrangement/test_tensor.py",
    "ninetoothed/ir/test_verify.py",
    "ninetoothed/frontend/test_applications.py",
    "ninetoothed/frontend/test_blocks.py",
    "ninetoothed/frontend/test_division.py",
    "ninetoothed/frontend/test_errors.py",
    "ninetoothed/frontend/test_guards.py",
    "ninetoothed/frontend/test_indexing.py",
    "ninetoothed/frontend/test_messages.py",
    "ninetoothed/frontend/test_parse.py",
    "ninetoothed/frontend/test_races.py",
    "ninetoothed/language/test_functions.py",
    "ninetoothed/language/test_primitives.py",
    "ninetoothed/passes/test_overhang.py",
    "ninetoothed/backends/test_torch_access.py",
    "ninetoothed/backends/test_torch_control.py",
    "ninetoothed/backends/test_torch_forms.py",
    "ninetoothed/backends/test_torch_pointers.py",
    "ninetoothed/backends/test_torch_primitives.py",
    "ninetoothed/backends/test_triton.py",
    "ninetoothed/backends/test_triton_grid.py",
    "ninetoothed/passes/test_guards.py",
    "ninetoothed/passes/test_epilogue_subtile.py",
    "ninetoothed/passes/test_grid.py",
    "ninetoothed/backends/test_triton_specialised.py",
    "ninetoothed/passes/test_stream_k.py",
    "ninetoothed/backends/test_triton_hoisting.py",
    "ninetoothed/backends/test_triton_index_width.py",
    "ninetoothed/runtime/test_arguments.py",
    "ninetoothed/runtime/selection/test_selection.py",
    "ninetoothed/runtime/test_dispatch.py",
    "ninetoothed/runtime/test_executable.py",
    "ninetoothed/runtime/test_call_cache.py",
    "ninetoothed/runtime/test_launch_plan.py",
    "ninetoothed/runtime/test_requirements.py",
    "ninetoothed/runtime/test_specialise.py",
    "ninetoothed/runtime/test_workspace.py",
    "ninetoothed_ops/kernels/test_arrangements.py",
    "ninetoothed_ops/kernels/test_golden.py",
    "ninetoothed_ops/kernels/test_style.py",
    "ninetoothed_ops/modules/test_eligibility.py",
    "ninetoothed_ops/modules/test_linear.py",
    "ninetoothed_ops/modules/test_rms_norm.py",
    "ninetoothed_ops/modules/test_silu.py",
    "ninetoothed_ops/modules/test_swap.py",
    "ninetoothed_ops/ops/test_errors.py",
    "ninetoothed_ops/ops/test_layout.py",
    "ninetoothed_ops/test_registration.py",
)


CACHES = {"NINETOOTHED_CACHE_DIR": "own", "TRITON_CACHE_DIR": "triton"}


def pytest_configure(config):
    """Let workers, and processes that they start, find what others compiled, in new caches; one thread each.

    What files draw when they are read is the same in each run, as is what tests draw.
    """
    torch.manual_seed(0)
    # What Inductor writes around its kernels is compiled for seconds, and runs once.
    os.environ.setdefault("AOT_INDUCTOR_COMPILE_WRAPPER_OPT_LEVEL", "O0")
    if "PYTEST_XDIST_WORKER" in os.environ:
        torch.set_num_threads(1)
        os.environ["OMP_NUM_THREADS"] = "1"
    else:
        folder = tempfile.mkdtemp(prefix="ninetoothed-tests-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
        os.environ.update({name: os.path.join(folder, each) for name, each in CACHES.items()})


def pytest_collection_finish(session):
    """Let garbage collections pass over what lives as long as the session: they took an eighth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 10, 20)


def is_quick(path: pathlib.Path) -> bool:
    return path.is_relative_to(TESTS) and path.relative_to(TESTS).as_posix() in QUICK


def pytest_ignore_collect(collection_path, config):
    """Let `-m quick` read no other file: that alone would take ten seconds."""
    if config.option.markexpr == "quick" and collection_path.suffix == ".py" and not is_quick(collection_path):
        return True


def pytest_collection_modifyitems(items):
    """Mark what is quick, and let what is slow begin first: no worker waits for another's last long test."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    for item in items:
        if is_quick(item.path) and item.get_closest_marker("slow") is None:
            item.add_marker(pytest.mark.quick)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Let a parallel worker that has done its tests take over some of another's."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getvalue("dist") == "load" else None


@pytest.fixture(autouse=True)
def seeded():
    """Draw the same numbers in each run, whatever runs before: a test that fails fails again."""
    torch.manual_seed(0)


@pytest.fixture(autouse=True, scope="module")
def compiled_anew():
    """Let Dynamo forget what other files have compiled: of one function, as `torch.func.grad`'s, it compiles a few."""
    dynamo = sys.modules.get("torch._dynamo")
    if dynamo is not None:
        dynamo.reset()


@pytest.fixture
def device() -> str:
    """The GPU where there is one, else the CPU."""
    return DEVICE
