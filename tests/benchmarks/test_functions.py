"""The page on how exact functions are follows from the rows and from what was measured."""

import json

import pytest
import torch

from benchmarks.functions import page
from benchmarks.functions.measure import differing, errors, functions
from ninetoothed.language.functions import LIBDEVICE


def test_the_page_is_that_of_the_rows_and_the_results():
    assert page.PAGE.read_text() == page.text()


def test_each_function_is_there_and_was_measured_on_the_cpu():
    found, _ = page.results()
    listed = functions()
    assert {name.removeprefix("libdevice.") for name in listed if "." in name} == LIBDEVICE.keys()
    for name, each in listed.items():
        expected = set() if each.is_exact else {*each.types} & {"float16", "float32", "float64"}
        assert found[name].keys() == expected
        assert all(one["kinds"] == 0 for one in found[name].values())


def test_what_a_gpu_measured_fills_the_page(tmp_path, monkeypatch):
    one = {"ulps": 1.5, "absolute": 1e-7, "kinds": 0}
    results = {
        "exp": {"float32": one},
        "libdevice.clz": {"int32": {"differ": 3, "of": 50}, "int64": {"differ": 0, "of": 9}},
    }
    (tmp_path / "functions-a.json").write_text(json.dumps({"device": "NVIDIA A", "results": results}))
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    text = page.text()
    (line,) = (each for each in text.splitlines() if each.startswith("| `exp` "))
    assert [cell.strip() for cell in line.split("|")[5:7]] == ["1.5", page.NONE]
    assert "int32: 3 of 50 differ" in text and "int64" not in text.partition("int32: 3 of 50 differ")[2].split("|")[0]


@pytest.mark.parametrize(
    "found, exact, expected",
    (
        ([1.0, 2.0], [1.0, 2.0], (0.0, 0)),
        ([1.0 + 2**-23], [1.0], (1.0, 0)),
        ([2.0**-149], [0.0], (1.0, 0)),
        ([torch.nan, torch.inf, 1.0], [1.0, 1e39, torch.inf], (0.0, 2)),
    ),
)
def test_errors_are_in_units_of_the_last_place(found, exact, expected):
    ulps, _, kinds = errors(torch.tensor(found), torch.tensor(exact, dtype=torch.float64))
    assert (ulps, kinds) == expected


def test_zeros_of_both_signs_differ_and_nan_does_not():
    assert differing(torch.tensor([0.0, torch.nan, 1.0]), torch.tensor([-0.0, torch.nan, 1.0])) == 1
