"""Kernels of the package as the gallery shows them: theirs are the formula, the arrangement and the application."""

from __future__ import annotations

import ast
import pathlib
import re
from dataclasses import dataclass
from typing import Any

import torch

from ninetoothed.make import Kernel
from tests.ninetoothed_ops.kernels import calls

ROOT = pathlib.Path(__file__).resolve().parents[1]
VERDICT = re.compile(r"^\| `(\w+)` \| ([\w ]+) \|", re.M)
# By theme: the name of a call of `calls`, its title, and the file of its kernel.
SHIPPED = {
    "norms": (
        ("rms_norm", "RMS norm", "rms_norm"),
        ("layer_norm", "Layer norm", "layer_norm"),
        ("channel_norm", "Group norm and batch norm", "channel_norm"),
        ("channel_moments", "Moments of channels", "channel_moments"),
        ("softmax", "Softmax", "softmax"),
    ),
    "losses": (
        ("cross_entropy", "Cross entropy", "cross_entropy"),
        ("kl_div", "Kullback-Leibler divergence of probabilities", "kl_div"),
        ("jsd", "Divergence of Jensen and Shannon", "jsd"),
    ),
    "random": (("dropout", "Dropout", "dropout"),),
    "indexing": (
        ("embedding", "Embedding", "embedding"),
        ("embedding_backward", "Gradient of an embedding", "embedding_backward"),
    ),
}


@dataclass(frozen=True)
class Shipped:
    """A kernel of `ninetoothed_ops`."""

    name: str
    title: str
    file: str

    @property
    def path(self) -> pathlib.Path:
        return ROOT / "ninetoothed_ops" / "kernels" / f"{self.file}.py"

    @property
    def formula(self) -> str:
        """The docstring of its file."""
        return ast.get_docstring(ast.parse(self.path.read_text())) or ""

    @property
    def verdict(self) -> str:
        """What docs/verification.md says of it."""
        return dict(VERDICT.findall((ROOT / "docs" / "verification.md").read_text()))[self.name]

    def call(self) -> tuple[Kernel, tuple[Any, ...]]:
        """Return the kernel and arguments of a small call."""
        return calls.small(self.name, torch.float32)


def shipped(theme: str = "") -> list[Shipped]:
    """List the kernels of a theme, or all."""
    return [Shipped(*each) for name, own in SHIPPED.items() if theme in ("", name) for each in own]
