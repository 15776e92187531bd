"""The twins are only worth comparing with if they are right, and if they compile to what a GPU runs well."""

import importlib
import json

import pytest
import torch

from benchmarks import tasks
from tests.ninetoothed.backends import interpreting

triton = pytest.importorskip("triton")


def test_interpreted_twins_agree_with_float64(tmp_path):
    printed = interpreting.run_module(tmp_path, "tests.benchmarks.interpret_twins")
    results = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    assert {result["case"].split()[0] for result in results} == set(tasks.NAMES)
    # A NaN, as of an element never written or a wrong shape, is not below any bound.
    assert [result for result in results if not result["error"] < result["bound"]] == []


class Recorder:
    """Stands in for a kernel: `launch` calls it, and it keeps what it was called with."""

    def __init__(self, kernel):
        self.configs, self.heuristics = [None], {}
        while not isinstance(kernel, triton.JITFunction):
            self.configs = getattr(kernel, "configs", self.configs)
            # Triton's heuristics keep their functions under `values`.
            self.heuristics.update(getattr(kernel, "values", {}))
            kernel = kernel.fn
        self.function = kernel

    def __getitem__(self, grid):
        return self.record

    def record(self, *args, **kwargs):
        values = dict(zip(self.function.arg_names, args, strict=False))
        config = self.configs[0].all_kwargs() if self.configs[0] else {}
        self.values = {**values, **kwargs, **config}
        if self.configs[0] and self.configs[0].pre_hook:
            self.configs[0].pre_hook(self.values)
        self.values.update({name: decide(self.values) for name, decide in self.heuristics.items()})

    def compile(self, capability):
        """The kernel compiled for a GPU that need not be here, specialised as Triton does: divisible by 16, or 1."""
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource
        from triton.tools.tensor_descriptor import TensorDescriptor

        types = {torch.float16: "*fp16", torch.float32: "*fp32"}
        signature, constants, attributes = {}, {}, {}
        for index, parameter in enumerate(self.function.params):
            value = self.values[parameter.name]
            if parameter.is_constexpr or value is None or (type(value) is int and value == 1):
                signature[parameter.name] = "constexpr"
                constants[parameter.name] = value
                continue
            integer = type(value) is int
            tensor = isinstance(value, torch.Tensor)
            if isinstance(value, TensorDescriptor):
                signature[parameter.name] = f"tensordesc<{types[value.base.dtype][1:]}{value.block_shape}>"
                continue
            signature[parameter.name] = types[value.dtype] if tensor else "i32" if integer else "fp32"
            if tensor or (integer and value % 16 == 0):
                attributes[(index,)] = [["tt.divisibility", 16]]
        source = ASTSource(self.function, signature, constants, attributes)
        options = {key: self.values[key] for key in ("num_warps", "num_stages") if key in self.values}
        options["enable_fp_fusion"] = True
        return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


TMA_TWINS = ("addmm", "bmm", "mm", "sdpa")


@pytest.mark.parametrize(
    "name, folder",
    [(name, "twins") for name in tasks.NAMES] + [(name, "twins.tma") for name in TMA_TWINS],
)
def test_twin_compiles_for_hopper(name, folder, monkeypatch):
    from benchmarks.twins import launch

    module = importlib.import_module(f"benchmarks.{folder}.{name}")
    recorder = Recorder(module.kernel)
    monkeypatch.setattr(module, "kernel", recorder)
    if folder == "twins":
        monkeypatch.setattr(launch, "readable", lambda *tensors, **options: False)
    args, kwargs = tasks.load(name).cases["paper"](lambda *shape: torch.empty(shape, dtype=torch.half, device="meta"))
    result = getattr(launch, name)(*args, **kwargs)
    expected = tasks.load(name).eager(*args, **kwargs)
    assert (result.shape, result.dtype) == (expected.shape, expected.dtype)

    compiled = recorder.compile(90)
    ptx = compiled.asm["ptx"]
    assert ("cp.async.bulk.tensor" in ptx) == (folder != "twins")
    if tasks.load(name).products(*args, **kwargs):
        assert "wgmma.mma_async" in ptx
    else:
        assert "ld.global.v4" in ptx, "loads should be 16 bytes a thread"


@pytest.mark.parametrize("is_causal", (False, True))
def test_twin_with_gradients_compiles_for_hopper(is_causal, monkeypatch):
    from benchmarks.twins import sdpa_backward, training

    recorders = [Recorder(each) for each in (sdpa_backward.delta_kernel, sdpa_backward.kernel)]
    monkeypatch.setattr(sdpa_backward, "delta_kernel", recorders[0])
    monkeypatch.setattr(sdpa_backward, "kernel", recorders[1])
    monkeypatch.setattr(training, "attend", lambda *args: None)
    tensors = [torch.empty(2, 3, 256, 64, dtype=torch.half, device="meta", requires_grad=True) for _ in range(3)]
    output = training.sdpa(*tensors, is_causal=is_causal)
    torch.autograd.grad(output, tensors, torch.empty_like(output))

    assert "ld.global.v4" in recorders[0].compile(90).asm["ptx"]
    assert "wgmma.mma_async" in recorders[1].compile(90).asm["ptx"]


def test_twin_with_gradients_refuses_what_it_lacks():
    from benchmarks.twins import training

    query = torch.empty(1, 2, 128, 64)
    for key, options in ((query[:, :1], {}), (query, {"attn_mask": query}), (query, {"dropout_p": 0.1})):
        with pytest.raises(ValueError, match="one shape, and no mask"):
            training.sdpa(query, key, key, **options)
    with pytest.raises(ValueError, match="whole blocks"):
        training.sdpa(*(query[:, :, :100],) * 3)
