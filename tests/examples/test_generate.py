import importlib.util
from pathlib import Path

import pytest
import torch

from examples import loading

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

PATH = Path(__file__).resolve().parents[2] / "examples" / "generate.py"


@pytest.fixture
def generate(monkeypatch):
    # The example sets it for its own process.
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    spec = importlib.util.spec_from_file_location("generate", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # Smaller still: what is tested is the program.
    config = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "initializer_range": 0.3}
    small = loading.small_config
    monkeypatch.setattr(
        loading, "small_config", lambda library: transformers.LlamaConfig(**{**small(library).to_dict(), **config})
    )
    return module


@pytest.mark.parametrize("backend", ("ninetoothed", "torch"))
def test_speed_and_agreement(generate, capsys, backend):
    assert generate.main(["--backend", backend, "--tokens", "6", "--batch", "2", "--prompt-tokens", "5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    other = "torch" if backend == "ninetoothed" else "ninetoothed"
    assert "Generating text" in lines[0] and ("This is a CPU" in lines[1] or torch.cuda.is_available())
    (model,) = [line for line in lines if line.startswith("LlamaForCausalLM, ")]
    assert model.endswith("2 x 6 tokens")
    first, second = [line for line in lines if line.endswith(" tokens/s")]
    assert first.startswith(f"{backend}: 12 tokens in ") and second.startswith(f"{other}: 12 tokens in ")
    assert "ninetoothed: 24 modules run on its kernels" in "\n".join(lines)
    assert lines[-1] == "the backends agree on all 12 tokens"


def test_joined_products(generate, capsys):
    assert generate.main(["--tokens", "4", "--join"]) == 0
    assert "the backends agree on all 4 tokens" in capsys.readouterr().out


def test_a_folder_with_a_model(generate, capsys, tmp_path):
    model = transformers.LlamaForCausalLM(loading.small_config(transformers))
    model.save_pretrained(tmp_path)
    assert generate.main(["--model", str(tmp_path), "--tokens", "3", "--report", "--no-check"]) == 0
    out = capsys.readouterr().out
    assert "NTAttention" in out and "24 swapped, 0 left alone" in out and "torch:" not in out


def test_text_comes_from_the_tokenizer(generate, capsys, tmp_path):
    words = {f"word{number}": number for number in range(1024)}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="word0"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=inner).save_pretrained(tmp_path)
    transformers.LlamaForCausalLM(loading.small_config(transformers)).save_pretrained(tmp_path)
    arguments = ["--model", str(tmp_path), "--prompt", "word5 word7", "--tokens", "4", "--backend", "torch"]
    assert generate.main([*arguments, "--batch", "2", "--no-check"]) == 0
    (text,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("word")]
    assert len(text.split()) == 4


def test_sampling(generate, capsys):
    arguments = ["--tokens", "6", "--temperature", "1.5", "--top-k", "50", "--backend", "torch", "--no-check"]
    texts = []
    for seed in ("1", "1", "2"):
        # The seed is that of the weights too: the tokens differ, whatever sampling does with it.
        assert generate.main([*arguments, "--seed", seed]) == 0
        texts.append(capsys.readouterr().out.splitlines()[-2])
    assert texts[0] == texts[1] != texts[2] and len(texts[0].split()) == 6


def test_what_follows_an_end_is_not_made(generate):
    tokens = torch.tensor([[4, 5, 6, 0], [6, 0, 0, 0], [1, 2, 3, 4]])
    assert generate.made(tokens, (6, 9)).sum(-1).tolist() == [3, 1, 4] and generate.made(tokens, ()).all()


def test_halves_are_judged_by_the_logits(generate, capsys):
    assert generate.main(["--dtype", "bfloat16", "--tokens", "6"]) == 0
    assert "the backends agree on" in capsys.readouterr().out


def test_disagreement_is_told(generate, capsys, monkeypatch):
    """A swap that changes what the model computes is not explained by rounding."""
    swap_modules = generate.swap_modules

    def broken(model):
        report = swap_modules(model)
        model.lm_head.weight.data.neg_()
        undo = lambda _: (report.undo(), model.lm_head.weight.data.neg_())  # noqa: E731
        return type("Report", (), {"undo": undo, "swapped": report.swapped})()

    monkeypatch.setattr(generate, "swap_modules", broken)
    assert generate.main(["--tokens", "6"]) == 1
    assert "of 6 tokens; given ninetoothed's tokens" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    (
        (["--model", "/nowhere"], "/nowhere holds no config.json"),
        (["--prompt", "Nine"], "--prompt needs a tokenizer"),
        (["--device", "cuda:99"], f"--device cuda:99: PyTorch finds {torch.cuda.device_count()} CUDA devices here"),
        (["--device", "nonsense"], "--device nonsense: the kernels run on cpu and on cuda"),
        (["--device", "meta"], "--device meta: the kernels run on cpu and on cuda"),
        (["--seed", "9" * 30], "Overflow"),
        (["--temperature", "-1"], "temperature=-1.0: pass a finite number"),
        (["--top-p", "0"], "top_p=0.0: pass a number above 0"),
    ),
)
def test_mistakes_are_told_in_one_line(generate, capsys, arguments, message):
    assert generate.main(arguments) == 2
    told = capsys.readouterr()
    assert message in told.err and told.err.count("\n") == 1 and not told.out


@pytest.mark.parametrize("config", ("{", '{"model_type": "llama"}'))
def test_a_folder_with_half_a_model(generate, capsys, tmp_path, config):
    (tmp_path / "config.json").write_text(config)
    assert generate.main(["--model", str(tmp_path)]) == 2
    assert str(tmp_path) in capsys.readouterr().err


@pytest.mark.parametrize("arguments", (["--tokens", "0"], ["--backend", "jax"]))
def test_arguments_out_of_range(generate, capsys, arguments):
    with pytest.raises(SystemExit):
        generate.main(arguments)
    assert "usage:" in capsys.readouterr().err


def test_seed(generate, capsys):
    options = generate.parse(["--device", "cpu"])
    torch.manual_seed(options.seed)
    first, _ = loading.load(options)
    torch.manual_seed(options.seed)
    second, _ = loading.load(options)
    assert torch.equal(first.lm_head.weight, second.lm_head.weight)
