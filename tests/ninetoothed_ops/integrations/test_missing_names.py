"""Names of transformers, taken away: what is needed is a named error, and without the others all else goes on."""

import contextlib
import logging
import os
import pkgutil
import re
import subprocess
import sys
import types

import pytest
import torch

import ninetoothed_ops
from ninetoothed.errors import UnsupportedError
from ninetoothed.runtime import missing
from ninetoothed_ops import swap_modules
from ninetoothed_ops.modules import caches
from ninetoothed_ops.modules.attention import are_weights_asked_for
from tests.ninetoothed_ops.integrations.calls import TOLERANCE, error, logits

transformers = pytest.importorskip("transformers")

from ninetoothed_ops.integrations import attention_interface, names, transformers as integration  # noqa: E402

CALLS = {
    "register_attention": lambda model: ninetoothed_ops.register_attention(),
    "swap_modules": swap_modules,
}


@contextlib.contextmanager
def without(path):
    """Let transformers lack a name, which it would look up anew where it is one of its own."""
    owner, _, name = path.rpartition(".")
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(pkgutil.resolve_name(owner), name)
        if owner == "transformers":
            found = type(transformers).__getattr__

            def others(self, asked):
                if asked == name:
                    raise AttributeError(asked)
                return found(self, asked)

            patch.setattr(type(transformers), "__getattr__", others)
        yield


@pytest.fixture
def told(caplog):
    caplog.set_level(logging.INFO, "ninetoothed")
    missing.tell.cache_clear()
    yield lambda: [record.getMessage() for record in caplog.records]
    missing.tell.cache_clear()


def test_the_pinned_version_has_all():
    names.check("register_attention")
    assert not missing.of(names.OF_STEPS | names.OTHERS) and names.has_steps()


@pytest.mark.parametrize("path", sorted(names.NEEDED))
@pytest.mark.parametrize("caller", CALLS)
def test_what_is_needed_is_a_named_error(caller, path, make):
    model = make("Llama")
    match = (
        rf"^{caller}: transformers {re.escape(transformers.__version__)} has no {re.escape(path)}.*; .*{names.TESTED}"
    )
    with without(path), pytest.raises(UnsupportedError, match=match):
        CALLS[caller](model)
    assert type(model.model.norm).__module__.startswith("transformers.")


def test_masks_that_are_made_of_something_else_are_refused(monkeypatch):
    monkeypatch.setattr("transformers.masking_utils.sdpa_mask", lambda batch_size, cache_position, kv_length: None)
    for register in (ninetoothed_ops.register_attention, attention_interface.register_attention):
        with pytest.raises(UnsupportedError, match=r"masking_utils\.sdpa_mask\(q_length, q_offset, kv_offset\); those"):
            register()


@pytest.mark.parametrize("path", sorted(names.OF_STEPS))
def test_without_what_steps_stand_on_they_are_those_of_transformers(path, make, told):
    model = make("Llama")
    with without(path):
        assert not list(integration.attributes(model))
        report = swap_modules(model)
    assert report.swapped and not report.attributes
    assert f"this transformers has no {path}: {names.OF_STEPS[path]}" in told()


def test_without_transformers(monkeypatch):
    from ninetoothed_ops import integrations

    for name, kind, match in (
        ("transformers", UnsupportedError, "register_attention: transformers is not installed: pip install"),
        # Something else that is missing is not hidden.
        ("ninetoothed.runtime", ImportError, "ninetoothed.runtime"),
    ):
        with monkeypatch.context() as patch:
            patch.delitem(sys.modules, "ninetoothed_ops.integrations.names", raising=False)
            patch.delattr(integrations, "names", raising=False)
            patch.setitem(sys.modules, name, None)
            with pytest.raises(kind, match=match):
                ninetoothed_ops.register_attention()


ALL_AT_ONCE = """
import logging, sys
import torch
import transformers
from transformers.models.llama import modeling_llama
from transformers.generation import utils
import transformers.integrations.sdpa_attention, transformers.pytorch_utils, transformers.cache_utils

for path in {modules}:
    sys.modules[path] = None
    owner, _, name = path.rpartition(".")
    vars(sys.modules[owner]).pop(name, None)
del transformers.pytorch_utils.Conv1D

logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
import ninetoothed_ops
from ninetoothed_ops import swap_modules

torch.manual_seed(0)
sizes = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4)
model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, pad_token_id=0)).eval()
tokens = torch.randint(1, 64, (2, 7))
options = dict(max_new_tokens=4, do_sample=False, pad_token_id=0)
with torch.no_grad():
    expected, sequence = model(tokens).logits, model.generate(tokens, **options)
    report = swap_modules(model, join=True)
    assert any(row.new is ninetoothed_ops.NTLinear for row in report.swapped), report
    assert (model(tokens).logits - expected).abs().max() < 1e-4
    assert torch.equal(model.generate(tokens, **options), sequence)
    ninetoothed_ops.register_attention()
    report.undo()
    model.set_attn_implementation("ninetoothed")
    assert (model(tokens).logits - expected).abs().max() < 1e-4
"""


@pytest.mark.slow
def test_without_its_other_modules_models_run(tmp_path):
    modules = [name for name in names.OTHERS if isinstance(pkgutil.resolve_name(name), types.ModuleType)]
    (tmp_path / "script.py").write_text(ALL_AT_ONCE.replace("{modules}", repr(modules)))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "script.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert len(modules) == 4
    for path in (*modules, "transformers.pytorch_utils.Conv1D"):
        assert f"this transformers has no {path}: {names.OTHERS[path]}" in done.stdout.splitlines()


def test_without_a_class_of_caches_each_is_updated_by_itself(make, batch):
    """Of `DynamicLayer` the name is missing; of others what they told of themselves."""
    model, (tokens, mask) = make("Llama"), batch(2, 7)
    expected = logits(model, tokens, mask)
    swap_modules(model)
    cache_utils = types.ModuleType("transformers.cache_utils")
    vars(cache_utils).update(vars(transformers.cache_utils))
    del cache_utils.DynamicLayer
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, caches.MODULE, cache_utils)
        assert error(logits(model, tokens, mask), expected) < TOLERANCE[torch.float32]
    assert caches._of_static_layer(types.SimpleNamespace()) is None
    cache = transformers.DynamicCache(config=model.config)
    own = transformers.cache_utils, cache, transformers.cache_utils.DynamicLayer, cache.layers[0]
    assert caches.are_own(*own)
    del cache.offloading
    assert not caches.are_own(*own)


def test_without_versions_each_layer_counts(monkeypatch):
    """A mask may have been written to since the layer before, which PyTorch does not tell then."""
    monkeypatch.setattr(attention_interface, "version_of", lambda mask: None)
    mask, counts = torch.ones(1, 1, 1, 8, dtype=torch.bool), []
    mask[..., 5:] = False
    setattr(mask, attention_interface.LENGTHS, None)
    for index in range(2):
        counts.append(attention_interface._counted(types.SimpleNamespace(layer_idx=index), mask).tolist())
        mask[..., 6] = True
    assert counts == [[5], [7]]


def test_without_a_collector_no_weights_are_missed(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers.utils.output_capturing", types.ModuleType("output_capturing"))
    assert not are_weights_asked_for(object(), {}) and are_weights_asked_for(object(), {"output_attentions": True})
