"""The folder of what was built: machine code, and a manifest that says what it was built for, with what, and hashes.

A package of AOTInductor, which is a zip file, may carry one among its files: see `ninetoothed_ops.packages`.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ninetoothed.built.description import BuiltVariant
from ninetoothed.errors import LoadError

MANIFEST = "manifest.json"
# Of the manifest's form; to be raised whenever one of before means something else.
FORMAT = 1
# Where a package of AOTInductor has its folder. Its `extra` is for texts.
_CARRIED = "ninetoothed"


@dataclass(frozen=True)
class BuiltFolder:
    """A folder: its variants in the order in which they were built, with what they were built, and their files."""

    path: Path | zipfile.Path
    name: str
    variants: tuple[BuiltVariant, ...]
    versions: Mapping[str, str]
    hashes: Mapping[str, str]

    @property
    def assembler(self) -> str:
        """The assembler that has made its machine code."""
        return self.versions.get("assembler", "an assembler that it does not tell")

    def code(self, variant: BuiltVariant) -> bytes:
        """Read the machine code of a variant; `LoadError` where its file is missing or is not what was built."""
        path = self.path / variant.cubin
        try:
            content = path.read_bytes()
        except (OSError, zipfile.BadZipFile) as error:
            raise LoadError(f"{path}, of kernel `{variant.kernel}`, cannot be read: {error}; {_ANEW}") from error
        if digest(content) != self.hashes.get(variant.cubin):
            raise LoadError(f"{path} is not what was built: its SHA-256 is another than {MANIFEST} says; {_ANEW}")
        return content


_ANEW = "copy the folder again, or build it anew"


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def write(
    path: Path, name: str, variants: tuple[BuiltVariant, ...], files: Mapping[str, bytes], versions: Mapping[str, str]
) -> BuiltFolder:
    """Write a folder. The manifest is written last, so that what is half written does not load."""
    path.mkdir(parents=True, exist_ok=True)
    manifest = path / MANIFEST
    manifest.unlink(missing_ok=True)
    for file, content in files.items():
        (path / file).write_bytes(content)
    hashes = {file: digest(content) for file, content in sorted(files.items())}
    said = {"name": name, "versions": dict(versions), "variants": [each.to_json() for each in variants]}
    text = json.dumps({"format": FORMAT, "digest": _digest(said, hashes), "files": hashes, **said}, indent=1)
    manifest.write_text(text + "\n")
    return BuiltFolder(path, name, variants, versions, hashes)


def add_to_package(package: Path, path: Path) -> None:
    """Add the files of a folder to a package of AOTInductor."""
    with zipfile.ZipFile(package, "a") as archive:
        root = archive.namelist()[0].partition("/")[0]
        for file in sorted(path.iterdir()):
            archive.write(file, f"{root}/{_CARRIED}/{file.name}")


def _located(path: Path) -> Path | zipfile.Path:
    """Return where a folder's files are; those of a package in it."""
    return next(zipfile.Path(path).iterdir()) / _CARRIED if path.is_file() else path


def load(given: Path) -> BuiltFolder:
    """Read the manifest of a folder, or of one that a package carries.

    Raises `LoadError` where it is missing, damaged, or of another format.
    """
    manifest: Any = given
    try:
        path = _located(given)
        manifest = path / MANIFEST
        content = json.loads(manifest.read_bytes())
        form = content["format"]
        hashes = dict(content["files"])
        said = {key: content[key] for key in ("name", "versions", "variants")}
        is_whole = content["digest"] == _digest(said, hashes)
    except FileNotFoundError as error:
        raise LoadError(f"{path} holds no {MANIFEST}; give the folder that `ninetoothed.build` has written") from error
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile, StopIteration) as error:
        raise LoadError(f"{manifest} cannot be read: {error!r}; {_ANEW}") from error
    if form != FORMAT:
        raise LoadError(f"{manifest} has format {form}, and this version reads {FORMAT}; build it anew")
    if not is_whole:
        raise LoadError(f"{manifest} is not what was built: its digest is another; {_ANEW}")
    try:
        variants = tuple(map(BuiltVariant.from_json, said["variants"]))
    except (ValueError, KeyError, TypeError) as error:
        raise LoadError(f"{manifest} cannot be read: {error!r}; {_ANEW}") from error
    return BuiltFolder(path, said["name"], variants, said["versions"], hashes)


def _digest(said: Mapping[str, Any], hashes: Mapping[str, str]) -> str:
    return digest(json.dumps([said, hashes], sort_keys=True).encode())
