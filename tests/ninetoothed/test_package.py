"""The package as it is imported: its version, and the errors that users catch by name."""

import pathlib
import re
from importlib import metadata

import pytest

import ninetoothed
from ninetoothed import errors

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Raised and caught inside, or raised under the name of a base that users know.
INTERNAL = {"AbsentError", "ArrangementAttributeError", "NotOfferedError"}


def test_the_version_is_the_one_that_is_declared():
    declared = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.M).group(1)
    assert ninetoothed.__version__ in (declared, "0+unknown")


def test_a_clone_that_is_not_installed_has_a_version_too(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert ninetoothed.__version__ == "0+unknown"


def test_errors_are_exported():
    raised = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert raised - INTERNAL == raised & set(ninetoothed.__all__)
    assert all(getattr(ninetoothed, name) is getattr(errors, name) for name in raised - INTERNAL)


def test_all_names_are_there_and_in_order():
    assert ninetoothed.__all__ == sorted(ninetoothed.__all__)
    assert [name for name in ninetoothed.__all__ if not hasattr(ninetoothed, name)] == []


@pytest.mark.parametrize("name", ("build", "debugging"))
def test_names_that_are_not_offered_yet(name):
    with pytest.raises(
        ninetoothed.UnsupportedError, match=rf"`ninetoothed.{name}` \(.*\) is not offered by this version"
    ):
        getattr(ninetoothed, name)
    assert not hasattr(ninetoothed, name)
    for statement in (f"import ninetoothed.{name}", f"from ninetoothed import {name}"):
        with pytest.raises(ImportError):
            exec(statement)


def test_other_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="has no attribute 'tensor_of_nothing'"):
        ninetoothed.tensor_of_nothing
