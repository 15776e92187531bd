"""The end-to-end benchmark on a tiny model: that it runs, goes on where it ended, and counts what it says."""

import json
import sys
import types
from collections import Counter

import pytest
import torch
from torch.nn import functional

from benchmarks import twins
from benchmarks.end_to_end import breakdown, llama, twin_modules
from benchmarks.end_to_end.__main__ import main
from benchmarks.end_to_end.variants import VARIANTS

transformers = pytest.importorskip("transformers")
pytest.importorskip("matplotlib")

COUNT = 5


@pytest.fixture
def arguments(tmp_path):
    return [
        "--size",
        "tiny",
        "--device",
        "cpu",
        "--dtype",
        "float32",
        "--tokens",
        str(COUNT),
        "--output",
        str(tmp_path / "run"),
    ]


def test_no_module_of_the_model_is_in_training_mode():
    """`generate` captures no steps of one that is."""
    assert not any(module.training for module in llama.build("tiny", torch.device("cpu"), torch.float32).modules())


@pytest.fixture(autouse=True)
def twins_of_a_cpu(monkeypatch):
    """PyTorch's functions in the place of Triton's kernels, which need a GPU and have tests of their own."""
    from ninetoothed_ops import rope

    launch = types.ModuleType("launch")
    launch.mm, launch.addmm, launch.rope, launch.silu = torch.mm, torch.addmm, rope, functional.silu
    launch.rms_norm, launch.sdpa = functional.rms_norm, functional.scaled_dot_product_attention
    monkeypatch.setattr(twins, "launch", launch, raising=False)
    monkeypatch.setitem(sys.modules, "benchmarks.twins.launch", launch)
    return launch


def rows(tmp_path):
    return json.loads((tmp_path / "run.json").read_text())["results"]["rows"]


def test_variants_are_timed_and_drawn(arguments, tmp_path, capsys):
    """That every other one runs as well is tested below."""
    assert main([*arguments, "--variant", "eager", "graph loop", "ours"]) == 0
    printed, found = capsys.readouterr().out, rows(tmp_path)
    assert [row["variant"] for row in found] == ["eager", "graph loop", "ours"]
    for row in found:
        assert f"| {row['variant']} " in printed and len(row["runs"]) == 3 and row["first"] > 0
        assert row["tokens/s"] == sorted(row["runs"])[1]
    kernels = {row["variant"]: [kernel["name"] for kernel in row.get("kernels", ())] for row in found}
    assert "aten::mm" in kernels["graph loop"] and not any("ninetoothed" in name for name in kernels["graph loop"])
    assert "ninetoothed::linear_swiglu" in kernels["ours"] and all(kernels.values())
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")


def test_it_goes_on_where_it_ended(arguments, tmp_path, monkeypatch, capsys):
    def broken(model, inputs, count):
        raise RuntimeError("out of memory\nlong story")

    options = [*arguments, "--variant", "eager", "graph loop"]
    # Nothing fits into no time.
    assert main([*options, "--seconds", "0"]) == 3 and not (tmp_path / "run.json").exists()
    working = VARIANTS["graph loop"]
    monkeypatch.setitem(VARIANTS, "graph loop", type(working)(working.name, "", None, broken))
    assert main(options) == 1 and "graph loop: RuntimeError: out of memory" in capsys.readouterr().out
    eager, failed = rows(tmp_path)
    assert failed == {"variant": "graph loop", "count": COUNT, "error": "RuntimeError: out of memory"}
    # What failed is tried anew, and nothing else.
    monkeypatch.setitem(VARIANTS, "graph loop", working)
    monkeypatch.setitem(VARIANTS, "eager", type(working)("eager", "", None, broken))
    assert main(options) == 0
    assert rows(tmp_path)[0] == eager and rows(tmp_path)[1]["tokens/s"] > 0
    assert main([*options, "--again"]) == 1
    (tmp_path / "run.png").unlink()
    assert main([*options, "--picture"]) == 0 and (tmp_path / "run.png").exists()


def test_rows_of_other_options_are_not_mixed(arguments, tmp_path, capsys):
    options = [*arguments, "--variant", "eager"]
    assert main(options) == 0
    assert main([*options, "--batch", "3"]) == 2 and "pass another --output, or --again" in capsys.readouterr().err
    assert main([*options, "--batch", "3", "--again"]) == 0


def test_the_model_of_a_folder(arguments, tmp_path):
    model = llama.build("tiny", "cpu", torch.float32)
    model.save_pretrained(tmp_path / "model")
    assert main([*arguments, "--model", str(tmp_path / "model"), "--variant", "eager"]) == 0
    loaded = llama.load(tmp_path / "model", "cpu", torch.float32)
    assert torch.equal(loaded.lm_head.weight, model.lm_head.weight)
    assert llama.bytes_of_a_step(loaded) == llama.bytes_of_a_step(model)


@pytest.fixture(scope="module")
def expected():
    model, inputs = llama.build("tiny", "cpu", torch.float32), prompt()
    return model.generate(**inputs, max_new_tokens=COUNT, do_sample=False, pad_token_id=0)[:, 4:]


def prompt():
    ids = torch.arange(8).view(2, 4)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


@pytest.mark.parametrize("name", VARIANTS)
def test_variants_make_the_same_tokens(name, expected, monkeypatch):
    """In float32, of a tiny model: each gives as many as asked, and tells of the first when it is there."""
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    model, variant = llama.build("tiny", "cpu", torch.float32), VARIANTS[name]
    calls, firsts = [], []
    model.lm_head.register_forward_hook(lambda *_: calls.append(1))
    if variant.swap is not None:
        variant.swap(model)
    run = variant.prepare(model, prompt(), COUNT)
    for _ in range(2):
        del calls[:], firsts[:]
        assert torch.equal(run(lambda: firsts.append(len(calls))), expected)
        # Before a loop hands out a token it may have begun with the next.
        assert len(firsts) == len(calls) == COUNT and firsts[0] == 1
        assert all(0 <= made - told <= 1 for told, made in enumerate(firsts, 1))


def test_bytes_of_a_step():
    model = llama.build("tiny", "cpu", torch.bfloat16)
    layer = 64 * (64 + 32 + 32 + 64) + 3 * 64 * 96 + 2 * 64
    assert llama.bytes_of_a_step(model) == 2 * (2 * layer + 64 + 64 * 128)


def test_weights_are_made_and_the_same_each_time():
    first, second = (llama.build("tiny", "cpu", torch.float32) for _ in range(2))
    for one, other in zip(first.state_dict().values(), second.state_dict().values()):
        assert torch.equal(one, other)
    assert first.lm_head.weight.std().item() == pytest.approx(0.02, rel=0.1)
    assert torch.equal(first.model.rotary_emb.inv_freq, second.model.rotary_emb.inv_freq)
    assert first.model.rotary_emb.inv_freq[0] == 1.0


def test_without_a_gpu_it_says_so(capsys):
    assert main(["--device", "cpu"]) == 2 and "CUDA device" in capsys.readouterr().err


@pytest.mark.parametrize("count", (4, 5, 12))
def test_breakdown_counts_a_step(count):
    model = llama.build("tiny", "cpu", torch.float32)
    run = VARIANTS["graph loop"].prepare(model, prompt(), count)
    found = breakdown.kernels(run, count, model.device)
    counts = {row["name"]: row["count"] for row in found}
    assert counts["aten::mm"] == 2 * 7 + 1 and counts["aten::index_copy_"] == 2 * 2
    assert found == sorted(found, key=lambda row: -row["microseconds"])


def test_the_twins_compute_what_the_model_does(twins_of_a_cpu, monkeypatch):
    """By every kernel, with padding and biases; what was exchanged is taken back."""
    config = transformers.LlamaConfig(**llama.SIZES["tiny"], attention_bias=True, mlp_bias=True)
    torch.manual_seed(0)
    model, calls = transformers.LlamaForCausalLM(config).eval(), Counter()

    def counted(name, function):
        return lambda *args, **options: calls.update({name: 1}) or function(*args, **options)

    for name in ("mm", "addmm", "rms_norm", "rope", "sdpa", "silu"):
        monkeypatch.setattr(twins_of_a_cpu, name, counted(name, getattr(twins_of_a_cpu, name)))
    ids, mask = torch.arange(10).view(2, 5), torch.ones(2, 5, dtype=torch.int64)
    classes = [type(module) for module in model.modules()]
    for shown in (mask, mask.index_fill(1, torch.tensor([0]), 0)):
        with torch.no_grad():
            expected = model(ids, attention_mask=shown).logits
            swapped = twin_modules.swap_modules(model)
            torch.testing.assert_close(model(ids, attention_mask=shown).logits[:, 1:], expected[:, 1:])
        swapped.undo()
        assert [type(module) for module in model.modules()] == classes
    assert calls == {"mm": 2, "addmm": 28, "rms_norm": 10, "rope": 8, "sdpa": 4, "silu": 4}
