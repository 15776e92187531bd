"""Private names of PyTorch and of Triton: with the pinned versions they are there, and fast paths use them."""

import inspect
import types

import pytest
import torch

from ninetoothed.runtime import fast_path, private
from ninetoothed.runtime.workspace import Allocation

X, Y = torch.zeros(4, 6), torch.zeros(6)


def test_pytorch_has_guards_that_tell_tensors_apart():
    guard = private.tensor_guard((X, Y))
    assert guard is not None and guard(torch.ones(4, 6), torch.ones(6))
    assert not guard(torch.ones(4, 7), Y) and not guard(X.double(), Y) and not guard(torch.zeros(6, 4).t(), Y)


def test_pytorch_allocates_for_the_current_gpu():
    assert private.empty_strided_cuda is not None
    like = Allocation((2, 3), (3, 1), torch.float16, torch.device("cuda", 1))
    for current, name in ((1, "empty_strided_cuda"), (0, None), (None, None)):
        source = fast_path.FunctionBody()
        like.write(source, current)
        chosen = next(iter(value for value in source.names.values() if callable(value)))
        assert chosen is (torch.empty_strided if name is None else private.empty_strided_cuda)


@pytest.mark.parametrize("name", ("_get_float32_matmul_precision", "DisableTorchFunctionSubclass"))
def test_pytorch_has(name):
    assert hasattr(torch._C, name)


@pytest.mark.skipif(not torch.backends.cuda.is_built(), reason="a PyTorch for CPUs has no current GPU")
def test_pytorch_knows_the_current_gpu_and_stream():
    assert private.current_device is torch._C._cuda_getDevice
    assert private.current_stream is torch._C._cuda_getCurrentRawStream


def test_dynamo_is_told_without_a_wrapper():
    def function():
        return 1

    assert private.hidden_from_dynamo(function) is function


def test_dynamo_that_changed_is_told_by_its_public_function(monkeypatch):
    from torch._C._dynamo import eval_frame

    monkeypatch.delattr(eval_frame, "set_code_exec_strategy")
    seen = []
    monkeypatch.setattr(torch.compiler, "disable", lambda function: seen.append(function) or function)
    private.hidden_from_dynamo(function := lambda: 1)
    assert seen == [function]


def test_triton_s_launcher_is_written_in_c_underneath():
    driver = pytest.importorskip("triton.backends.nvidia.driver")
    taken = inspect.signature(driver.CudaLauncher.__call__)
    reached = []
    launcher = object.__new__(driver.CudaLauncher)
    fields = {"num_ctas": 1, "global_scratch_size": 0, "global_scratch_align": 1, "launch_cooperative_grid": False}
    fields |= {"profile_scratch_size": 0, "profile_scratch_align": 1, "launch_pdl": False, "arg_annotations": ()}
    fields |= {"kernel_signature": b"", "cluster_dims": (1, 1, 1), "launch": lambda *args: reached.append(args)}
    for name, value in fields.items():
        setattr(launcher, name, value)
    found, fixed, singly = private.c_launcher(launcher, "function", (1, 1, 0))
    assert found is launcher.launch, f"Triton's launcher takes {taken}"
    launcher(3, 1, 1, 9, "function", (1, 1, 0), None, None, None, 5, 6)
    assert reached[-1] == (3, 1, 1, 9, *fixed, *((5, 6) if singly else ((5, 6),)))


def test_a_launcher_that_is_not_as_expected_is_left_alone():
    assert private.c_launcher(types.SimpleNamespace(), None, None) == (None, (), True)
    run = types.SimpleNamespace(launch=len)
    assert private.descriptor_encoder(run) is None and run.launch is len


def test_triton_tells_what_a_compilation_depends_on(tmp_path, monkeypatch):
    compiler = pytest.importorskip("triton.backends.compiler")
    from triton import knobs

    from ninetoothed.backends.triton import emit
    from ninetoothed.runtime.build import compile as build
    from ninetoothed.runtime.dispatch import launcher_of
    from ninetoothed.runtime.selection.machine import H200
    from ninetoothed_ops.kernels import silu

    monkeypatch.setenv("NINETOOTHED_CACHE_DIR", str(tmp_path))
    emitted = emit(launcher_of(silu.make()).trace((torch.zeros(64), torch.zeros(64)), {}, H200).program)
    source = build._source(emitted, build.write_module(emitted.name, emitted.source), frozenset())
    target = compiler.GPUTarget("cuda", 90, 32)
    first, other = (private.compilation_key(source, target, {"num_warps": warps}) for warps in (4, 8))
    assert first is not None and first["source"] == other["source"] and first["options"] != other["options"]
    with knobs.compilation.scope():
        knobs.compilation.always_compile = True
        assert private.compilation_key(source, target, {}) is None
