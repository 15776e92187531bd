"""The schedules that calls get are those of `picks.json`, which only a commit that explains each difference changes."""

import json

import pytest

from tests.ninetoothed.runtime.selection import picks

KEPT = json.loads(picks.FILE.read_text())


@pytest.mark.parametrize("operator", KEPT)
def test_picks_stay(operator):
    found, kept = picks.picks(operator), {operator: KEPT[operator]}
    assert picks.keys(found) == picks.keys(kept)
    assert list(picks.differences(kept, found)) == []


def test_every_operator_is_there():
    assert {operator for operator, *_ in picks.grid()} == KEPT.keys()
