"""Make records of commits and of the working tree, and keep them by what they were made from."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ("ninetoothed", "ninetoothed_ops")
WORKING_TREE = "the working tree"
# What records are made from, beside the packages: files, and folders of files.
SOURCES = (
    "benchmarks/gallery",
    "benchmarks/guard/census.py",
    "benchmarks/guard/corpus.py",
    "benchmarks/guard/questions.py",
    "benchmarks/guard/recorder.py",
    "benchmarks/guard/watch.py",
    "benchmarks/trust",
    "benchmarks/types",
    "examples",
    "tests/conftest.py",
    "tests/examples/test_linear_cross_entropy.py",
    "tests/ninetoothed_ops/every.py",
    "tests/ninetoothed_ops/samples.py",
    "tests/ninetoothed_ops/kernels/calls.py",
    "tests/ninetoothed_ops/kernels/training_calls.py",
)
# How many records are kept.
MOST_KEPT = 24


class Failed(Exception):
    """A record could not be made."""


@dataclass
class Recording:
    """The record of a commit that is being made, or was kept."""

    name: str
    path: pathlib.Path
    folder: tempfile.TemporaryDirectory[str] | None = None
    process: subprocess.Popen[bytes] | None = None

    def result(self) -> dict[str, Any]:
        """Wait for the record."""
        if self.process is not None and self.folder is not None:
            said = self.process.communicate()[1]
            self.folder.cleanup()
            if self.process.returncode:
                raise Failed(f"{self.name} could not be recorded:\n{said.decode()[-3000:]}")
        return json.loads(gzip.decompress(self.path.read_bytes()))

    def end(self) -> None:
        """End a recording whose result nobody waits for."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def begin(commit: str, options: Iterable[str] = ()) -> Recording:
    """Begin to record a commit, or the working tree, in a process of its own; nothing runs where it is known."""
    options = tuple(options)
    folder = tempfile.TemporaryDirectory(prefix="ninetoothed-guard-")
    packages, empty = pathlib.Path(folder.name, "packages"), pathlib.Path(folder.name, "empty")
    empty.mkdir()
    export(commit, packages)
    path = kept() / f"{fingerprint(packages, options)}.json.gz"
    if path.exists():
        folder.cleanup()
        path.touch()
        return Recording(commit, path)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("NINETOOTHED", "TRITON"))}
    environment |= {
        "PYTHONPATH": f"{packages}{os.pathsep}{ROOT}",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "NINETOOTHED_CACHE_DIR": str(pathlib.Path(folder.name, "cache")),
    }
    command = [sys.executable, "-m", "benchmarks.guard.recorder", str(path), *options]
    process = subprocess.Popen(command, cwd=empty, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    return Recording(commit, path, folder, process)


def export(commit: str, folder: pathlib.Path) -> None:
    """Write the packages of a commit, or those of the working tree, to a folder."""
    folder.mkdir()
    if commit == WORKING_TREE:
        for name in PACKAGES:
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        return
    archive = subprocess.run(["git", "archive", commit, *PACKAGES], cwd=ROOT, capture_output=True)
    if archive.returncode:
        raise Failed(f"git has no packages of {commit!r}: {archive.stderr.decode().strip()}")
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)


def fingerprint(packages: pathlib.Path, options: tuple[str, ...]) -> str:
    """Identify all that a record is made from."""
    versions = [platform.python_version(), *(f"{name} {version(name)}" for name in ("torch", "triton", "numpy"))]
    digest = hashlib.sha256(repr((versions, options)).encode())
    for root, path in (*files(packages, PACKAGES), *files(ROOT, SOURCES)):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:24]


def version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "absent"


def files(root: pathlib.Path, names: Iterable[str]) -> Iterator[tuple[pathlib.Path, pathlib.Path]]:
    for name in names:
        path = root / name
        yield from ((root, each) for each in ([path] if path.is_file() else sorted(path.rglob("*.py"))))


def kept() -> pathlib.Path:
    """The folder of the records, without the oldest where there are many."""
    folder = pathlib.Path(os.environ.get("NINETOOTHED_CACHE_DIR") or "~/.cache/ninetoothed").expanduser() / "guard"
    folder.mkdir(parents=True, exist_ok=True)
    found = sorted(folder.glob("*.json.gz"), key=lambda path: path.stat().st_mtime)
    for path in found[:-MOST_KEPT]:
        path.unlink(missing_ok=True)
    return folder


def described(commit: str) -> str:
    """The short hash and the subject of a commit."""
    if commit == WORKING_TREE:
        return commit
    command = ["git", "log", "-1", "--format=%h (%s)", commit, "--"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if told.returncode:
        raise Failed(f"git knows no commit {commit!r}")
    return told.stdout.strip()
