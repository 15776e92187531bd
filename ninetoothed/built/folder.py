"""The folder of what was built: machine code, and a manifest that says what it was built for, with what, and hashes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ninetoothed.built.description import BuiltVariant
from ninetoothed.errors import LoadError

MANIFEST = "manifest.json"
# Of the manifest's form; to be raised whenever one of before means something else.
FORMAT = 1


@dataclass(frozen=True)
class BuiltFolder:
    """A folder: its variants in the order in which they were built, with what they were built, and their files."""

    path: Path
    name: str
    variants: tuple[BuiltVariant, ...]
    versions: Mapping[str, str]
    hashes: Mapping[str, str]

    def code(self, variant: BuiltVariant) -> bytes:
        """Read the machine code of a variant; `LoadError` where its file is missing or is not what was built."""
        path = self.path / variant.cubin
        try:
            content = path.read_bytes()
        except OSError as error:
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


def load(path: Path) -> BuiltFolder:
    """Read a folder's manifest. Raises `LoadError` where it is missing, damaged, or of another format."""
    manifest = path / MANIFEST
    try:
        content = json.loads(manifest.read_bytes())
        form = content["format"]
        hashes = dict(content["files"])
        said = {key: content[key] for key in ("name", "versions", "variants")}
        is_whole = content["digest"] == _digest(said, hashes)
    except FileNotFoundError as error:
        raise LoadError(f"{path} holds no {MANIFEST}; give the folder that `ninetoothed.build` has written") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
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
