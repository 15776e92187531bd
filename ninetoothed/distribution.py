"""The distribution that holds this package, `ninetoothed-torch`, and the other one that has a package of its name.

The original implementation of the language is distributed as `ninetoothed`. Each has a folder `ninetoothed`, so that
of two in one environment the files of the one that was installed last replace the other's.
"""

from __future__ import annotations

import warnings
from importlib import metadata

NAME, ORIGINAL = "ninetoothed-torch", "ninetoothed"
BESIDE = (
    f"the original implementation of NineToothed (distribution `{ORIGINAL}`) is installed beside `{NAME}`, and both"
    f" have a package called ninetoothed: `pip uninstall {ORIGINAL} {NAME}`, then install the one that you want"
)


def version() -> str | None:
    """Return the installed version; None of a clone that is on the path and not installed."""
    try:
        return metadata.version(NAME)
    except metadata.PackageNotFoundError:
        return None


def is_beside_the_original() -> bool:
    """Tell whether the distribution of the original is installed, too."""
    try:
        metadata.distribution(ORIGINAL)
    except metadata.PackageNotFoundError:
        return False
    return True


def warn_of_the_original() -> None:
    """Warn where the original is installed, too."""
    if is_beside_the_original():
        warnings.warn(BESIDE, stacklevel=3)
