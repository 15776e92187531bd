"""Where the seconds of a first call go."""

import importlib
import time

from benchmarks import first_call
from tests.conftest import needs_triton


def test_a_part_has_its_own_time_alone():
    parts = first_call.Parts()
    inner = parts.timed("inner", lambda: time.sleep(0.03))

    def slow():
        time.sleep(0.01)
        inner()
        inner()

    parts.timed("outer", slow)()
    assert 0.06 <= parts.seconds["inner"] < 0.2 and 0.01 <= parts.seconds["outer"] < 0.055
    assert parts.inner == []


@needs_triton
def test_parts_are_there():
    for _, module, name in first_call.PARTS:
        found = importlib.import_module(module)
        for each in name.split("."):
            found = getattr(found, each)
        assert callable(found)
