"""Private names of `torch.distributed.tensor`, each of which may be missing."""

import importlib.util
import logging
import pkgutil

import pytest

from ninetoothed.runtime import missing

pytest.importorskip("torch.distributed.tensor")
from ninetoothed.runtime import private_dtensor


def test_the_pinned_versions_have_them():
    assert not missing.of(missing.OF_DTENSORS) and private_dtensor.IS_THERE


@pytest.mark.parametrize("path", missing.OF_DTENSORS)
def test_each_may_be_missing_and_is_named(path, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "ninetoothed")
    owner, _, name = path.rpartition(".")
    owner = pkgutil.resolve_name(owner)
    monkeypatch.delattr(owner if name in vars(owner) else type(owner), name)
    spec = importlib.util.spec_from_file_location(
        "ninetoothed.runtime.private_dtensor_without", private_dtensor.__file__
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert not module.IS_THERE
    for cache in (missing.tell, missing.tell_of_dtensors):
        cache.cache_clear()
    missing.tell_of_dtensors()
    assert f"this PyTorch has no {path}: {missing.OF_DTENSORS[path]}" in caplog.messages
