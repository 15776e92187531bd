"""The rows of `ntl`: each has a signature with types, a docstring, and an example that runs."""

import copy
import doctest
import importlib.util
import inspect
import pathlib
import pickle
import pydoc

import pytest
import torch

import ninetoothed.language as ntl
from ninetoothed.errors import ApplicationError
from ninetoothed.language import types
from ninetoothed.language.functions import FUNCTIONS, LIBDEVICE, Function

ROOT = pathlib.Path(__file__).resolve().parents[3]
ROWS = [*FUNCTIONS.values(), *LIBDEVICE.values()]
DOCUMENTED = [*ROWS, types.Tile, types.Source, types.Level]


def helpers():
    specification = importlib.util.spec_from_file_location("runner", ROOT / "docs" / "runner.py")
    runner = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(runner)
    return {"run": runner.run, "kernel_of": runner.kernel_of, "ntl": ntl, "torch": torch}


HELPERS = helpers()


@pytest.mark.parametrize("documented", DOCUMENTED, ids=lambda each: getattr(each, "__qualname__", repr(each)))
def test_examples_run(documented):
    test = doctest.DocTestParser().get_doctest(inspect.getdoc(documented), dict(HELPERS), repr(documented), None, 0)
    assert test.examples
    report = []
    doctest.DocTestRunner(optionflags=doctest.REPORT_NDIFF).run(test, out=report.append)
    assert not report, "".join(report)


def test_every_parameter_and_result_has_a_type():
    for row in ROWS:
        signature = inspect.signature(row)
        annotations = [signature.return_annotation, *(each.annotation for each in signature.parameters.values())]
        assert tuple(signature.parameters) == row.parameters and signature.empty not in annotations, row


def test_docstrings_begin_with_a_verb_and_end_their_first_line():
    for row in ROWS:
        first = inspect.getdoc(row).splitlines()[0]
        assert first.endswith(".") and first.split()[0].isalpha() and first[0].isupper(), row
        assert f"ntl.{row.__qualname__}(" in inspect.getdoc(row), row


def test_help_shows_signature_and_docstring():
    text = pydoc.plain(pydoc.render_doc(ntl.exp))
    assert "ninetoothed.language.exp(x: TileLike) -> Tile" in text and "Raise e to the power" in text
    assert "ninetoothed.language.libdevice.atan2(x: TileLike, y: TileLike, /)" in pydoc.render_doc(ntl.libdevice.atan2)


@pytest.mark.parametrize("row", (ntl.exp, ntl.libdevice.exp), ids=lambda row: row.__qualname__)
def test_rows_are_themselves_where_they_are_copied_or_pickled(row):
    assert isinstance(row, Function)
    assert copy.deepcopy(row) is row and pickle.loads(pickle.dumps(row)) is row


def test_calling_a_row_in_ordinary_python_says_where_it_works():
    with pytest.raises(ApplicationError, match="`ninetoothed.language.exp` works on tiles"):
        ntl.exp(1.0)
