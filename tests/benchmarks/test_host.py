import struct

import pytest

pytest.importorskip("tqdm")

from benchmarks import host


def words(memory, at):
    """What is written for a launch, less what aligns it."""
    return struct.unpack_from(f"{(len(memory) - 64) // 8}Q", memory, at)


def test_both_forms_launch_the_same_and_are_timed(monkeypatch, capsys):
    launched = []

    def launcher(self, memory, at, function, parameters):
        return lambda: launched.append(words(memory, at)) or 0

    monkeypatch.setattr(host, "BURST", 1)
    monkeypatch.setattr(host.Unlaunched, "launcher", launcher)
    with host.without_a_gpu():
        for name in host.NAMES:
            hits = host.hits(name)
            launched.clear()
            hits["text"](), hits["closures"]()
            text, closures = launched
            # Addresses of what each call has allocated differ.
            assert len(text) == len(closures) and sum(a != b for a, b in zip(text, closures)) <= 1
    assert host.main(["--rounds", "1"]) == 0
    printed = capsys.readouterr().out
    assert "| silu " in printed and "| conv2d " in printed and "a new size in a known class" in printed
