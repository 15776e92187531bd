"""The versions of transformers that are supported: those whose masks and caches were tested."""

import transformers
from torch.torch_version import TorchVersion

from ninetoothed.errors import UnsupportedError

# In 5.0 `generate` makes masks by other arguments.
OLDEST = "5.17"


def check(caller: str) -> None:
    """Raise UnsupportedError for a version that nothing was tested with."""
    if TorchVersion(transformers.__version__) < OLDEST:
        raise UnsupportedError(
            f"{caller}: transformers {transformers.__version__} is installed, and {OLDEST} or later is supported: "
            f'pip install -U "transformers>={OLDEST}".'
        )
