"""The package as it is imported: its version, and the errors that users catch by name."""

import pathlib
import re
from importlib import metadata

import pytest

import ninetoothed
from ninetoothed import errors, not_offered

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Raised and caught inside, or raised under the name of a base that users know.
INTERNAL = {"AbsentError", "ArrangementAttributeError", "NotOfferedError", "NotOfferedImportError"}


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


@pytest.mark.parametrize("name", not_offered.MODULES)
def test_modules_that_are_not_offered_say_what_to_use(name):
    told = re.escape(f"`ninetoothed.{name}` {not_offered.MODULES[name]}")
    with pytest.raises(ninetoothed.UnsupportedError, match=told):
        getattr(ninetoothed, name)
    assert not hasattr(ninetoothed, name)
    imports = (f"import ninetoothed.{name}", f"from ninetoothed import {name}", f"from ninetoothed.{name} import foo")
    for statement in imports:
        with pytest.raises(ImportError, match=told) as caught:
            exec(statement)
        assert isinstance(caught.value, ninetoothed.UnsupportedError)


def test_not_offered_modules_are_none_that_are_there():
    package = pathlib.Path(ninetoothed.__file__).parent
    assert [
        name for name in not_offered.MODULES if (package / name).exists() or (package / f"{name}.py").exists()
    ] == []


@pytest.mark.parametrize("name", ("jit", "eval"))
def test_functions_that_the_original_has_as_modules(name):
    with pytest.raises(ImportError, match=f"`ninetoothed.{name}` is a function: write `from ninetoothed import {name}"):
        exec(f"import ninetoothed.{name}")


def test_a_module_of_which_nothing_is_known():
    with pytest.raises(ModuleNotFoundError, match="No module named 'ninetoothed.nothing'"):
        exec("import ninetoothed.nothing")


def test_element_types_by_the_module_of_the_original():
    from ninetoothed.dtype import float16

    assert float16 is ninetoothed.float16 is ninetoothed.dtype.float16
    assert all(getattr(ninetoothed, name) is getattr(ninetoothed.dtype, name) for name in ninetoothed.dtype.__all__)


def test_other_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="has no attribute 'rows'; it is `ninetoothed.arrange.rows`"):
        ninetoothed.rows
    with pytest.raises(AttributeError, match="has no attribute 'tensor_of_nothing'"):
        ninetoothed.tensor_of_nothing
