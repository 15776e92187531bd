"""Swapped modules are found by what they replace: by class, by its name, and by the names of what they are given."""

import copy
import inspect
import pickle

import pytest
import torch
from torch import nn

from ninetoothed_ops.modules import PassedByWarning, swap_modules
from ninetoothed_ops.modules.substitute import _called_as, kind_of
from tests.ninetoothed_ops.integrations.calls import DEVICE, error, logits
from tests.ninetoothed_ops.integrations.families import DECODERS, decoder, filled
from tests.ninetoothed_ops.integrations.test_family_modules import OPTIONS, SPEECH, VISION

transformers = pytest.importorskip("transformers")
DECODING = ("llama", "mistral", "qwen2", "qwen3", "nemotron", "gemma2", *DECODERS, "olmo", "cohere", "phi")
FAMILIES = (*DECODING, "t5", "whisper", "clip_vision_model", "convnext", "deberta")
# One of each of NineToothed's classes.
CALLED = ("qwen3", "nemotron", "gemma2", "phi3", "cohere", "t5", "clip_vision_model", "convnext", "deberta")


def model_of(family):
    if family in DECODING:
        return decoder(family, **OPTIONS.get(family, {}))
    options = {
        "t5": {"d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 2, "num_heads": 2, "vocab_size": 97},
        "whisper": {**SPEECH, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
        "clip_vision_model": VISION,
        "convnext": {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2},
        "deberta": {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 48},
    }
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(family, **options[family])
    return filled(transformers.AutoModel.from_config(config))


@pytest.mark.parametrize("family", FAMILIES)
def test_classes_names_and_signatures_stay(family):
    model = model_of(family)
    before = [(name, each, type(each), inspect.signature(each.forward)) for name, each in model.named_modules()]
    report = swap_modules(model, join=True)
    rows = {row.name: row for row in report.swapped}
    assert rows
    for name, module, cls, signature in before:
        assert isinstance(module, cls), name
        assert inspect.signature(module.forward) == signature, name
        if name in rows:
            assert kind_of(module) is rows[name].new and repr(module).startswith(f"{rows[name].new.__name__}(")
        if cls.__module__.startswith("transformers."):
            found = type(module)
            names = found.__module__, found.__qualname__, found.__name__
            assert names == (cls.__module__, cls.__qualname__, cls.__name__), name
    twins = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
    for twin in twins:
        assert list(map(type, twin.modules())) == list(map(type, model.modules()))
    report.undo()
    assert [type(each) for each in model.modules()] == [cls for _, _, cls, _ in before]


@torch.no_grad()
@pytest.mark.parametrize("family", CALLED)
def test_modules_are_called_by_the_names_of_what_they_take(family):
    """By keywords what was called by place, and the reverse."""
    model = model_of(family)
    swapped = copy.deepcopy(model)
    rows = {row.name for row in swap_modules(swapped, join=True).swapped}
    calls = recorded_calls(model, family)
    assert rows & calls.keys()
    for name in sorted(rows & calls.keys()):
        theirs, ours = model.get_submodule(name), swapped.get_submodule(name)
        exact = copy.deepcopy(theirs).double()
        bound = inspect.signature(theirs.forward).bind(*calls[name][0], **calls[name][1])
        bound.apply_defaults()
        kinds = {key: each.kind for key, each in inspect.signature(theirs.forward).parameters.items()}
        named = {key: value for key, value in bound.arguments.items() if kinds[key] is inspect._POSITIONAL_OR_KEYWORD}
        others = bound.arguments.get("kwargs", {})
        for args, kwargs in (((), named), (tuple(named.values()), {})):
            # On a GPU convolutions of PyTorch are in TF32.
            expected = first(exact(*doubled(args), **doubled({**kwargs, **others})))
            found = first(ours(*args, **kwargs, **others))
            assert error(found, expected) < 1e-4, name


def doubled(value):
    """Convert to float64 all that is of floating point."""
    if isinstance(value, dict):
        return {key: doubled(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(map(doubled, value))
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def first(output):
    return output[0] if isinstance(output, tuple) else output


def recorded_calls(model, family):
    """Run a model once, and give with what each module was called last."""
    calls, handles = {}, []
    for name, module in model.named_modules():

        def note(_, args, kwargs, name=name):
            calls[name] = args, {key: value for key, value in kwargs.items() if key != "past_key_values"}

        handles.append(module.register_forward_pre_hook(note, with_kwargs=True))
    images = torch.randn(2, 3, 32 if family == "convnext" else 8, 32 if family == "convnext" else 8, device=DEVICE)
    tokens = torch.arange(1, 11, device=DEVICE).view(2, 5)
    if model.main_input_name == "pixel_values":
        model(pixel_values=images)
    elif model.main_input_name == "input_features":
        model(input_features=torch.randn(2, 8, 12, device=DEVICE), decoder_input_ids=tokens)
    elif family == "t5":
        model(input_ids=tokens, decoder_input_ids=tokens)
    elif family == "deberta":
        model(input_ids=tokens)
    else:
        model(input_ids=tokens, use_cache=False)
    for handle in handles:
        handle.remove()
    return calls


@pytest.mark.parametrize("module", (nn.Linear(8, 8), nn.RMSNorm(8), nn.LayerNorm(8), nn.GELU(), nn.SiLU()), ids=str)
def test_those_of_pytorch(module):
    signature, name = inspect.signature(module.forward), next(iter(inspect.signature(module.forward).parameters))
    module, input = copy.deepcopy(module).to(DEVICE), torch.randn(3, 8, device=DEVICE)
    expected = module(input)
    swap_modules(module)
    assert inspect.signature(module.forward) == signature
    assert error(module(**{name: input}), expected) < 1e-5


def test_a_local_may_have_the_name_of_what_is_given():
    def original(self, normed, **kwargs): ...

    def forward(self, x, *, scale=3):
        normed = x + 1
        return normed * scale

    made = _called_as(original, forward)
    assert made(None, normed=2) == made(None, 2) == 9 and str(inspect.signature(made)) == "(self, normed, **kwargs)"


def test_fsdp_and_device_maps_find_layers(make):
    accelerate = pytest.importorskip("accelerate")
    from accelerate.utils.dataclasses import get_module_class_from_name

    model, twin = make("Llama"), make("Llama")
    swap_modules(model, join=True)
    assert isinstance(model.model.layers[0], get_module_class_from_name(model, "LlamaDecoderLayer"))
    for size in (60_000, 120_000, 200_000):
        maps = [
            accelerate.infer_auto_device_map(
                each, max_memory={"cpu": size, "disk": 10**9}, no_split_module_classes=["LlamaDecoderLayer"]
            )
            for each in (model, twin)
        ]
        assert maps[0] == maps[1]
    assert len({name for name in maps[0] if "layers.0" in name}) <= 1


def test_layers_that_are_wrapped_by_their_class(make, batch):
    from functools import partial

    from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRMSNorm

    model, inputs = make("Llama"), batch(2, 5)
    expected = logits(model, *inputs)
    swap_modules(model, join=True)
    policy = partial(transformer_auto_wrap_policy, transformer_layer_cls={LlamaDecoderLayer, LlamaRMSNorm})
    found = [name for name, each in model.named_modules() if policy(module=each, recurse=False, nonwrapped_numel=0)]
    assert found == [
        name for name, each in make("Llama").named_modules() if type(each) in (LlamaDecoderLayer, LlamaRMSNorm)
    ]
    assert error(logits(model, *inputs), expected) < 1e-4


def network():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5)).eval()


QUANTISERS = {
    "dynamic": lambda model: torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8),
    "prepare": lambda model: torch.ao.quantization.prepare(configured(model)),
    "prepare_fx": lambda model: torch.ao.quantization.quantize_fx.prepare_fx(
        model, torch.ao.quantization.get_default_qconfig_mapping("x86"), (torch.randn(1, 3, 8, 8),)
    ),
}


def configured(model):
    model.qconfig = torch.ao.quantization.get_default_qconfig("x86")
    return model


@pytest.mark.skipif(not hasattr(torch.ao, "quantization"), reason="a PyTorch without its own quantisation")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("quantise", QUANTISERS.values(), ids=QUANTISERS)
def test_what_pytorchs_quantisation_does_not_find_is_told(quantise, recwarn):
    import torch.ao.quantization.quantize_fx

    plain, model = network(), network()
    quantise(plain)
    assert not [each for each in recwarn if each.category is PassedByWarning]
    report = swap_modules(model)
    with pytest.warns(PassedByWarning, match="report.undo"):
        quantise(model)
    report.undo()
    with pytest.raises(AssertionError, match="NTConv2d"):
        swap_modules(model := network())
        torch.ao.quantization.fuse_modules(model, [["0", "1", "2"]])
