"""Results on disk: found again under their key alone, whatever happens to the files and however many write them."""

import concurrent.futures
import json
import multiprocessing
import os
import warnings

import pytest

from ninetoothed.runtime import cache
from ninetoothed.runtime.cache import Record


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    monkeypatch.setenv("NINETOOTHED_CACHE_DIR", str(tmp_path))
    return tmp_path


def same(result):
    return result


def record(**key):
    return Record("tuned", "kernel", key)


def test_a_result_is_found_under_its_key_alone():
    record(a=1, b=(1, (2, 3))).write({"x": [1, 2]})
    assert record(b=(1, (2, 3)), a=1).read(same) == {"x": [1, 2]}
    assert record(a=2, b=(1, (2, 3))).read(same) is None and record(a=1).read(same) is None


def test_what_cannot_be_understood_is_ignored_with_a_warning():
    record(a=1).write(5)
    with pytest.warns(UserWarning, match="ignored and written anew"):
        assert record(a=1).read(lambda result: None) is None
    with pytest.warns(UserWarning, match="ignored"):
        assert record(a=1).read(lambda result: result["configuration"]) is None


@pytest.mark.parametrize(
    "content",
    (b"", b"{", b"\xff\xfe\x00", b"[]", b"null", b'{"key": {"a": 1}}', b'{"key": {"a": 2}, "result": 3}', b"[" * 10**5),
    ids=("empty", "cut off", "binary", "a list", "null", "no result", "another key", "deep"),
)
def test_a_broken_or_foreign_file_is_ignored_with_a_warning_and_rewritten(content):
    mine = record(a=1)
    mine.path.parent.mkdir(parents=True)
    mine.path.write_bytes(content)
    with pytest.warns(UserWarning, match=f"{mine.path} is ignored"):
        assert mine.read(same) is None
    mine.write(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mine.read(same) == 3


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read():
    record(a=1).write(3)
    record(a=1).path.chmod(0)
    with pytest.warns(UserWarning, match="ignored"):
        assert record(a=1).read(same) is None


def test_where_nothing_can_be_written_a_warning_says_so(directory):
    (directory / "tuned").write_text("a file where a folder is needed")
    with pytest.warns(UserWarning, match="could not be written"):
        record(a=1).write(3)


def _write_and_read(value):
    mine = Record("tuned", "kernel", {"a": 1})
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a half-written file would be one
        for _ in range(50):
            mine.write([value] * 1000)
            found = mine.read(same)
            assert found == found[:1] * 1000
    return True


def test_many_processes_write_and_read_one_file(directory):
    with concurrent.futures.ProcessPoolExecutor(4, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert all(pool.map(_write_and_read, range(8)))
    assert [path.suffix for path in (directory / "tuned").iterdir()] == [".json"]
    assert json.loads(record(a=1).path.read_text())["key"] == {"a": 1}


def test_a_home_directory_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NINETOOTHED_CACHE_DIR", "~/kept")
    assert cache.directory() == tmp_path / "kept"
