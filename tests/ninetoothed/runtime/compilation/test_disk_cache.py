"""Results on disk: found again under their key alone, whatever happens to the files and however many write them."""

import ast
import errno
import io
import json
import multiprocessing
import os
import pathlib
import shutil
import stat
import tempfile
import time
import warnings

import pytest

from ninetoothed.runtime.compilation import disk_cache
from ninetoothed.runtime.compilation.compile import write_module
from ninetoothed.runtime.compilation.disk_cache import DiskRecord


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    monkeypatch.setenv("NINETOOTHED_CACHE_DIR", str(tmp_path))
    return tmp_path


def same(result):
    return result


def record(**key):
    return DiskRecord("tuned", "kernel", key)


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


def test_a_file_cut_off_or_changed_anywhere_is_never_mistaken():
    mine = record(a=1, b="x")
    mine.write({"hash": "0123", "lost": [1.5]})
    whole = mine.path.read_bytes()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(len(whole)):
            mine.path.write_bytes(whole[:n])
            assert mine.read(same) is None, n
        assert len(caught) == len(whole)
        for n in range(len(whole)):
            mine.path.write_bytes(whole[:n] + bytes([whole[n] ^ 1]) + whole[n + 1 :])
            assert mine.read(same) in (None, {"hash": "0123", "lost": [1.5]}), n
            mine.path.write_bytes(whole[:n] + whole[n + 1 :])
            assert mine.read(same) in (None, {"hash": "0123", "lost": [1.5]}), n
    mine.path.write_text(whole.decode().replace("0123", "0124"))
    with pytest.warns(UserWarning, match="ignored"):
        assert mine.read(same) is None


def test_files_of_another_version_are_not_read(monkeypatch):
    record(a=1).write(3)
    text = record(a=1).path.read_text()
    with monkeypatch.context() as patch:
        patch.setattr(disk_cache, "version", lambda: "another")
        assert record(a=1).read(same) is None
        record(a=1).path.write_text(text)
        with pytest.warns(UserWarning, match="ignored"):
            assert record(a=1).read(same) is None
        record(a=1).write(4)
        assert record(a=1).read(same) == 4
    assert record(a=1).read(same) == 3


def test_files_and_directories_are_the_users_alone(monkeypatch, tmp_path):
    monkeypatch.setenv("NINETOOTHED_CACHE_DIR", str(tmp_path / "new"))
    record(a=1).write(3)
    write_module("kernel", "text = 1\n")
    for path in (tmp_path / "new", *(tmp_path / "new").rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_a_directory_that_others_may_read_is_closed(directory):
    directory.chmod(0o755)
    record(a=1).write(3)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700 and record(a=1).read(same) == 3


def in_a_temporary_directory(directory, match):
    """Whether results are kept elsewhere, after one warning."""
    with pytest.warns(UserWarning, match=match):
        record(a=1).write(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert record(a=1).read(same) == 3
        path = write_module("kernel", "text = 1\n")
    elsewhere = disk_cache.directory()
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o700
    return elsewhere != directory and elsewhere in path.parents and not list(directory.iterdir())


@pytest.mark.parametrize("mode", (0o777, 0o775, 0o702, 0o1777))
def test_a_directory_that_others_may_write_to_is_not_used(mode, directory):
    directory.chmod(mode)
    assert in_a_temporary_directory(directory, f"{directory} is not used .* others may write to it")


def test_a_directory_of_somebody_else_is_not_used(directory, monkeypatch):
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    assert in_a_temporary_directory(directory, f"{directory} is not used .* belongs to another user")


def test_a_temporary_directory_that_is_cleaned_away_is_made_again(directory):
    directory.chmod(0o777)
    with pytest.warns(UserWarning, match="not used"):
        shutil.rmtree(disk_cache.directory())
    assert write_module("kernel", "text = 1\n").exists()


@pytest.mark.parametrize("reason", (errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT))
def test_a_directory_that_takes_no_more_is_read_still(reason, directory, monkeypatch):
    record(a=1).write(3)
    original = tempfile.mkstemp

    def fail(*args, dir, **kwargs):
        if directory in (dir, *dir.parents):
            raise OSError(reason, os.strerror(reason))
        return original(*args, dir=dir, **kwargs)

    monkeypatch.setattr(tempfile, "mkstemp", fail)
    assert record(a=1).read(same) == 3
    with pytest.warns(UserWarning, match=f"{directory / 'tuned'} could not be written") as caught:
        for key in range(3):
            record(a=key).write(4)
    assert len(caught) == 1 and record(a=1).read(same) == 3
    path = write_module("kernel", "text = 1\n")
    assert path.read_text() == "text = 1\n" and directory not in path.parents
    assert write_module("kernel", "text = 1\n") == path


def test_a_disk_that_becomes_full_leaves_nothing_behind(directory, monkeypatch):
    class Full(io.TextIOWrapper):
        def write(self, text):
            super().write(text[: len(text) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    record(a=1).write(3)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdopen", lambda handle, *args, **kwargs: Full(open(handle, "wb")))
        with pytest.warns(UserWarning, match="No space left"):
            record(a=1).write(4)
    assert len(list((directory / "tuned").iterdir())) == 1 and record(a=1).read(same) == 3


def test_what_killed_writers_left_is_swept():
    mine = record(a=1)
    mine.write(3)
    old, young = mine.path.with_suffix(".old.tmp"), mine.path.with_suffix(".young.tmp")
    for path in (old, young):
        path.write_text("{")
    os.utime(old, (0, time.time() - 2 * 3600))
    mine.write(4)
    assert not old.exists() and young.exists() and mine.read(same) == 4


def test_nothing_is_kept_that_runs_code_when_it_is_read():
    root = pathlib.Path(disk_cache.__file__).parents[2]
    for path in (path for package in ("ninetoothed", "ninetoothed_ops") for path in (root / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            assert not {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"} & set(names), path


def test_a_file_that_may_not_be_read(monkeypatch):
    record(a=1).write(3)

    def fail(path):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(pathlib.Path, "read_bytes", fail)  # root may read everything
    with pytest.warns(UserWarning, match="ignored"):
        assert record(a=1).read(same) is None


def test_where_nothing_can_be_written_a_warning_says_so(directory):
    (directory / "tuned").write_text("a file where a folder is needed")
    with pytest.warns(UserWarning, match="could not be written"):
        record(a=1).write(3)


def _write_and_read(value):
    mine = DiskRecord("tuned", "kernel", {"a": 1})
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a half-written file would be one
        for _ in range(50):
            mine.write([value] * 1000)
            found = mine.read(same)
            assert found == found[:1] * 1000
    return True


def test_many_processes_write_and_read_one_file(directory):
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert all(pool.map(_write_and_read, range(8)))
    assert [path.suffix for path in (directory / "tuned").iterdir()] == [".json"]
    assert json.loads(record(a=1).path.read_text())["key"] == {"a": 1}


def test_a_home_directory_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NINETOOTHED_CACHE_DIR", "~/kept")
    assert disk_cache.directory() == tmp_path / "kept"
