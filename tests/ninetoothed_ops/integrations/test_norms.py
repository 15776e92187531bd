"""The norms of transformers' families: what is put in their place computes what they compute, in their types."""

import copy
import importlib

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.utils import parametrize, prune

from ninetoothed_ops.modules import swap_modules
from tests.ninetoothed_ops.autocast import autocast_on_gpus
from tests.ninetoothed_ops.integrations.calls import DEVICE, error

pytest.importorskip("transformers")
COLUMNS = 70
TOLERANCE = {torch.float32: 1e-6, torch.bfloat16: 1.6e-2}
NORMS = {
    "llama.LlamaRMSNorm": ("NTRMSNorm", COLUMNS),
    "llama4.Llama4TextRMSNorm": ("NTRMSNorm", COLUMNS),
    "imagegpt.ImageGPTLayerNorm": ("NTUnroundedRMSNorm", COLUMNS),
    "gemma.GemmaRMSNorm": ("NTUnitOffsetRMSNorm", COLUMNS),
    "qwen3_next.Qwen3NextRMSNorm": ("NTUnitOffsetRMSNorm", COLUMNS),
    "gemma3n.Gemma3nRMSNorm": ("NTRoundedRMSNorm", COLUMNS),
    "olmo2.Olmo2RMSNorm": ("NTRoundedRMSNorm", COLUMNS),
    "helium.HeliumRMSNorm": ("NTRoundedRMSNorm", COLUMNS),
    "moshi.MoshiRMSNorm": ("NTRoundedRMSNorm", COLUMNS),
    "llama4.Llama4TextL2Norm": ("NTRoundedRMSNorm", 1e-6),
    "deepseek_v4.DeepseekV4UnweightedRMSNorm": ("NTRoundedRMSNorm", 1e-6),
    "t5.T5LayerNorm": ("NTT5RMSNorm", COLUMNS),
    "cohere.CohereLayerNorm": ("NTRoundedLayerNorm", COLUMNS),
    "olmo.OlmoLayerNorm": ("NTRoundedLayerNorm", COLUMNS),
}


def class_of(path: str) -> type[nn.Module]:
    file, name = path.split(".")
    return getattr(importlib.import_module(f"transformers.models.{file}.modeling_{file}"), name)


def made(path: str, dtype: torch.dtype) -> nn.Module:
    norm = class_of(path)(NORMS[path][1])
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    return norm.to(DEVICE, dtype)


@pytest.mark.parametrize("weight", TOLERANCE, ids=str)
@pytest.mark.parametrize("path", NORMS)
def test_computes_the_same_in_the_same_types(path, weight):
    theirs = made(path, weight)
    ours = copy.deepcopy(theirs)
    report = swap_modules(ours)
    assert repr(ours).startswith(NORMS[path][0] + "(") and isinstance(ours, type(theirs))
    assert (str(COLUMNS) in repr(ours)) == bool(list(theirs.parameters()))
    for dtype in TOLERANCE:
        input = torch.randn(3, 5, COLUMNS, device=DEVICE).to(dtype).requires_grad_()
        results = []
        for module in (theirs, ours):
            output = module(input)
            grads = torch.autograd.grad(output.sin().sum(), [input, *module.parameters()])
            results.append([output, *grads])
        for found, expected in zip(*reversed(results)):
            assert found.dtype == expected.dtype and found.shape == expected.shape
            assert error(found, expected) < 2 * max(TOLERANCE[dtype], TOLERANCE[weight]), dtype
    report.undo()
    assert type(ours) is type(theirs)


@pytest.mark.parametrize("weight", (torch.float16, torch.float32), ids=str)
@pytest.mark.parametrize("path", NORMS)
def test_autocast_on_a_gpu_knows_none_of_them(path, weight):
    norm = class_of(path)(NORMS[path][1]).to(weight)
    swap_modules(swapped := copy.deepcopy(norm))
    for dtype in (torch.float16, torch.float32):
        with FakeTensorMode(), torch.no_grad(), autocast_on_gpus():
            weights = {name: torch.empty(COLUMNS, dtype=weight, device="cuda") for name, _ in norm.named_parameters()}
            for module in (norm, swapped):
                module._parameters.update(weights)
            input = torch.empty(3, COLUMNS, dtype=dtype, device="cuda")
            assert swapped(input).dtype == norm(input).dtype


KEPT = "nemotron.NemotronLayerNorm1P", "videoprism.VideoPrismLayerNorm", "deberta.DebertaLayerNorm"


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("path", KEPT)
def test_layer_norms_that_stay_of_their_class(path, dtype):
    """Under autocast they compute in the types of theirs, too."""
    theirs = class_of(path)(COLUMNS)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter)
    ours = copy.deepcopy(theirs.to(DEVICE, dtype))
    report = swap_modules(ours)
    assert isinstance(ours, type(theirs)) and type(ours) is not type(theirs)
    input = torch.randn(3, 5, COLUMNS, device=DEVICE).to(dtype).requires_grad_()
    for enabled in (False, True):
        results = []
        for module in (ours, theirs):
            with torch.autocast(DEVICE, torch.bfloat16, enabled=enabled):
                output = module(input)
            results.append([output, *torch.autograd.grad(output.sin().sum(), [input, *module.parameters()])])
        for found, expected in zip(*results):
            assert found.dtype == expected.dtype and error(found, expected) < 2 * TOLERANCE[dtype]
    report.undo()
    assert type(ours) is type(theirs)


def test_gemma3n_without_scale():
    from transformers.models.gemma3n.modeling_gemma3n import Gemma3nRMSNorm

    norm, input = Gemma3nRMSNorm(COLUMNS, with_scale=False), torch.randn(3, COLUMNS, device=DEVICE)
    expected = norm(input)
    assert len(swap_modules(norm).swapped) == 1 and error(norm(input), expected) < 1e-6


@pytest.mark.parametrize("channels", ("first", "last"))
@pytest.mark.parametrize("options", ({}, {"bias": False}, {"elementwise_affine": False}), ids=str)
def test_channels_of_convnext(channels, options):
    from transformers.models.convnext.modeling_convnext import ConvNextLayerNorm

    norm = ConvNextLayerNorm(6, data_format=f"channels_{channels}", **options).to(DEVICE)
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    input = torch.randn((2, 6, 3, 5) if channels == "first" else (2, 3, 5, 6), device=DEVICE)
    expected = norm(input)
    swap_modules(norm)
    assert repr(norm).startswith("NTChannelsLayerNorm(")
    assert norm(input).shape == expected.shape and error(norm(input), expected) < 1e-6


def test_a_weight_of_several_dimensions_is_left_alone():
    from transformers.models.cohere.modeling_cohere import CohereLayerNorm

    (row,) = swap_modules(CohereLayerNorm((4, 16))).skipped
    assert row.reason == "its weight has several dimensions"


@pytest.mark.parametrize("path", ("olmo2.Olmo2RMSNorm", "cohere.CohereLayerNorm"))
def test_a_weight_that_is_computed_after_the_swap(path):
    class Doubled(nn.Module):
        def forward(self, weight):
            return weight * 2

    changes = (
        lambda norm: prune.l1_unstructured(norm, "weight", 0.5),
        lambda norm: parametrize.register_parametrization(norm, "weight", Doubled()),
    )
    for change in changes:
        theirs, input = made(path, torch.float32), torch.randn(3, COLUMNS, device=DEVICE)
        ours = copy.deepcopy(theirs)
        swap_modules(ours)
        change(theirs), change(ours)
        assert error(ours(input), theirs(input)) < 1e-6


def test_a_weight_that_is_a_buffer_is_left_alone():
    norm = made("olmo2.Olmo2RMSNorm", torch.float32)
    weight = norm.weight.detach()
    del norm.weight
    norm.register_buffer("weight", weight)
    (row,) = swap_modules(norm).skipped
    assert row.reason == "its weight is a buffer"


@pytest.mark.parametrize("path", ("llama.LlamaRMSNorm", "cohere.CohereLayerNorm"))
def test_an_eps_of_the_class_is_left_alone(path):
    norm = made(path, torch.float32)
    copied = {name: each for name, each in vars(type(norm)).items() if name in ("forward", "__module__")}
    norm.__class__ = type(f"My{type(norm).__name__}", (nn.Module,), {**copied, "variance_epsilon": 0.5})
    del norm.variance_epsilon
    (row,) = swap_modules(norm).skipped
    assert row.reason == "its variance_epsilon is no attribute of the instance"


@pytest.mark.parametrize("path", ("cohere.CohereLayerNorm", "gemma.GemmaRMSNorm", "t5.T5LayerNorm"))
def test_under_a_mode_and_compiled(path):
    from torch.overrides import TorchFunctionMode

    class Counter(TorchFunctionMode):
        calls = 0

        def __torch_function__(self, function, types, args=(), kwargs=None):
            Counter.calls += 1
            return function(*args, **(kwargs or {}))

    norm, input = made(path, torch.float32), torch.randn(3, COLUMNS, device=DEVICE)
    expected = norm(input)
    swap_modules(norm)
    compiled = torch.compile(norm, fullgraph=True, backend="aot_eager")
    assert error(compiled(input), expected) < 1e-6
    with Counter():
        assert error(norm(input), expected) < 1e-6
    assert Counter.calls > 3


@pytest.mark.parametrize("path", ("qwen3_next.Qwen3NextRMSNormGated", "qwen4_exp.Qwen4ExpTextRMSNorm"))
def test_norms_that_compute_something_else_are_left_alone(path):
    file, name = path.split(".")
    try:
        found = importlib.import_module(f"transformers.models.{file}.modeling_{file}")
    except ImportError:
        pytest.skip("a family that this version lacks")
    norm = getattr(found, name)(COLUMNS)
    (row,) = swap_modules(norm).skipped
    assert row.reason == "its code is not that of a norm that NineToothed knows"
