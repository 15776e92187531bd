"""DTensors: tensors that lie in parts on several processes, whose calls PyTorch shares out as `sharding` says."""

from typing import Any


def is_dtensor(value: Any) -> bool:
    """Tell whether a value is a DTensor, and operators take them."""
    if type(value).__name__ != "DTensor":
        return False
    # There are none before somebody has imported what this imports.
    from ninetoothed.runtime import private_dtensor

    return private_dtensor.IS_THERE and type(value) is private_dtensor.DTensor
