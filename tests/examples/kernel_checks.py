"""Compare what a kernel's `check` yields: results and what PyTorch gives in float64."""

import itertools

import torch

# Relative errors of all elements together, some units in the last place of each type.
TOLERANCES = {torch.float64: 1e-13, torch.float32: 1e-5, torch.float16: 1e-3, torch.bfloat16: 8e-3}


def assert_right(example, device, most=None):
    """Compare all pairs of a check, or so many; return how many there were."""
    torch.manual_seed(0)
    count = 0
    for actual, expected in itertools.islice(example.module.check(device), most):
        count += 1
        what = f"{example.name}, call {count}: {actual.dtype} of {tuple(actual.shape)}"
        assert actual.device.type == device and actual.shape == expected.shape, f"{what}: {tuple(expected.shape)}"
        if actual.dtype.is_floating_point:
            assert expected.dtype == torch.float64, f"{what}: expected is {expected.dtype}, not float64"
            assert_near(actual, expected, TOLERANCES[actual.dtype], what)
        else:
            assert torch.equal(actual, expected.to(actual.dtype)), what
    return count


def assert_near(actual, expected, tolerance, what):
    """Compare numbers: infinities and NaN stand at the same places, all else is near in the sum of squares."""
    is_finite = expected.isfinite()
    assert torch.equal(actual.isfinite(), is_finite), what
    others = (each.double()[~is_finite].nan_to_num(0.5) for each in (actual, expected))
    assert torch.equal(*others), what
    error, norm = (actual.double() - expected)[is_finite].norm().item(), expected[is_finite].norm().item()
    assert error <= tolerance * norm, f"{what}: relative error {error / norm if norm else error}"
