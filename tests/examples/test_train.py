"""The example of training, tiny: both models learn alike, go on from either's checkpoint, and write."""

import pytest
import torch

from examples import train

for _name in ("transformers", "peft", "tqdm"):
    pytest.importorskip(_name)


def test_both_learn_alike_and_resume_to_the_same_bits(tmp_path, capsys):
    given = ["--size", "tiny", "--device", "cpu", "--steps", "24", "--bytes", "20000", "--written", "8", "--lora"]
    assert train.main([*given, "--folder", str(tmp_path)]) == 0
    output, bar = capsys.readouterr()
    assert output.count("has the same bits") == 2 and train.PROMPT in output and "\ndef " in output
    assert "tokens/s, loss " in bar and " GiB]" in bar
    for name in ("losses", "lora"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
        theirs, ours = (torch.load(tmp_path / f"{name}-{kind}.pt") for kind in ("pytorch", "ninetoothed"))
        assert theirs["model"].keys() == ours["model"].keys() and theirs["step"] == ours["step"] == 23
        assert theirs["losses"] == pytest.approx(ours["losses"], rel=1e-3) and len(ours["losses"]) == 23
        assert sum(ours["losses"][-5:]) < sum(ours["losses"][:5])
    assert any("lora_A" in name for name in ours["model"])


def test_both_learn_alike_under_autocast(tmp_path, capsys):
    given = ["--size", "tiny", "--device", "cpu", "--steps", "12", "--bytes", "9000", "--written", "1", "--bfloat16"]
    assert train.main([*given, "--folder", str(tmp_path)]) == 0
    assert "has the same bits" in capsys.readouterr().out
    kept = torch.load(tmp_path / "losses-ninetoothed.pt")
    assert kept["losses"] == pytest.approx(torch.load(tmp_path / "losses-pytorch.pt")["losses"], rel=1e-2)


def test_curves_and_bits_that_differ_are_told(tmp_path, capsys):
    losses = [5.0 - 0.01 * step for step in range(40)]
    apart = {"PyTorch": losses, "NineToothed": [1.03 * each for each in losses]}
    assert not train.compare(apart, tmp_path / "apart.png", "apart")
    assert train.compare({"PyTorch": losses, "NineToothed": [1.001 * each for each in losses]}, tmp_path / "a.png", "")
    assert "3.00% apart" in capsys.readouterr().out
    model = torch.nn.Linear(2, 2)
    other = torch.nn.Linear(2, 2)
    other.load_state_dict(model.state_dict())
    assert train.same_bits(model, other)
    with torch.no_grad():
        other.bias += 1
    assert not train.same_bits(model, other)


def test_the_text_is_of_the_standard_library():
    text, source = (bytes(train.gather(4000, is_source).tolist()) for is_source in (False, True))
    assert len(text) == len(source) == 4000 and source.startswith(b'"""') and b"import" in source
    assert max(text) < 128 and text != source
    assert torch.equal(train.gather(4000), train.gather(8000)[:4000])


def test_no_step_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        train.main(["--steps", "0", "--folder", str(tmp_path)])
    assert "--steps must be 1 or more, not 0" in capsys.readouterr().err
