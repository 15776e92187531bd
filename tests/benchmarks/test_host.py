import pytest

pytest.importorskip("tqdm")

from benchmarks import host


def test_both_forms_launch_the_same_and_are_timed(monkeypatch, capsys):
    launched = []
    monkeypatch.setattr(host, "BURST", 1)
    monkeypatch.setattr(host.Unlaunched, "launch", lambda *given: launched.append(given))
    with host.without_a_gpu():
        for name in host.NAMES:
            hits = host.hits(name)
            launched.clear()
            hits["text"](), hits["closures"]()
            (*first, text), (*second, closures) = launched
            # The last are the operands: addresses of what each call has allocated differ.
            assert first == second and len(text) == len(closures)
            assert [a for a, b in zip(text, closures) if a != b] == [] or len(set(text) ^ set(closures)) <= 2
    assert host.main(["--rounds", "1"]) == 0
    printed = capsys.readouterr().out
    assert "| silu " in printed and "| conv2d " in printed and "a new size in a known class" in printed
