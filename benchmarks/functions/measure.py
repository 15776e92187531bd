"""Run functions over their arguments on a device, and measure how far the results are from a reference."""

from __future__ import annotations

import linecache
import warnings
from dataclasses import dataclass
from typing import Any

import torch

import ninetoothed
from ninetoothed import Tensor, arrange, dtypes
from ninetoothed.dtypes import BY_NAME, DType
from ninetoothed.language.functions import LIBDEVICE

from . import references
from .points import integers, numbers, operands

# The functions of `ntl` itself that are of floats, by how many operands they have.
_OWN = {
    1: "abs ceil cos erf exp exp2 floor log log2 rsqrt sigmoid sin sqrt sqrt_rn tanh",
    2: "div_rn fdiv maximum minimum pow",
    3: "fma",
}
# Whose results are determined to the last bit: these are compared with the CPU, bit for bit.
_EXACT = """
abs ceil copysign div_rn fdim floor fma fmod ldexp logb maximum minimum nearbyint nextafter remainder rint round
rsqrt_rn saturatef scalbn sqrt_rn trunc
"""
FLOATS = ("float64", "float32", "float16")


@dataclass(frozen=True)
class Measured:
    """A function: its name in `ntl`, its operands' types by the type of the first of them, and whether it is exact."""

    name: str
    types: dict[str, tuple[str, ...]]
    is_exact: bool

    @property
    def of_libdevice(self) -> bool:
        return self.name.startswith("libdevice.")


def functions() -> dict[str, Measured]:
    """List the functions that map floats to floats, and all of libdevice."""
    exact = _EXACT.split()
    found = {}
    for count, names in _OWN.items():
        for name in names.split():
            found[name] = Measured(name, {each: (each,) * count for each in FLOATS}, name in exact)
    for name, row in LIBDEVICE.items():
        first, *others = row.primitive.operands
        types = [each.name for each in dtypes.ALL if each in first.type.types]
        if row.is_of_floats or row.is_predicate or types == ["float32"]:
            types += ["float16"] if "float32" in types else []
        by_type = {t: (t, *(each.type.classes[0] if each.type.classes else t for each in others)) for t in types}
        is_exact = not (row.is_of_floats or name.startswith("fast_")) or name in exact or name[-3:-1] == "_r"
        found[f"libdevice.{name}"] = Measured(f"libdevice.{name}", by_type, is_exact)
    return found


def arguments(types: tuple[str, ...], size: int = 160) -> list[torch.Tensor]:
    """Return the operands of a function of these types, equally long."""
    tensors: list[torch.Tensor] = []
    for name in dict.fromkeys(types):
        dtype, count = getattr(torch, name), types.count(name)
        is_exponent = name == "int32" and types[0].startswith("float")
        drawn = operands(dtype, count, size) if BY_NAME[name].is_floating else integers(dtype, count)
        tensors += [_exponents(tensors[0]) if is_exponent else drawn[0]] if count == 1 else drawn
    length = max(map(len, tensors))
    return [each.repeat(-(-length // len(each)))[:length].contiguous() for each in tensors]


def _exponents(x: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(-2200, 2200, x.shape, generator=generator, dtype=torch.int32)


def run(name: str, tensors: list[torch.Tensor], device: str) -> torch.Tensor:
    """Compute a function of `ntl` by a kernel; the result is on the CPU."""
    letters = [f"x{place}" for place in range(len(tensors))]
    text = f"def application({', '.join(letters)}, output):\n    output = ntl.{name}({', '.join(letters)})\n"
    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    scope: dict[str, Any] = {"ntl": ninetoothed.language}
    exec(compile(text, file, "exec"), scope)
    dtype = result_type(name, [dtypes.from_torch(each.dtype) for each in tensors])
    output = torch.empty(len(tensors[0]), dtype=getattr(torch, dtypes.to_torch_name(dtype)), device=device)
    kernel = ninetoothed.make(
        lambda *given: arrange.blocks(*given, BLOCK_SIZE=256),
        scope["application"],
        tuple(Tensor(1) for _ in range(len(tensors) + 1)),
    )
    kernel(*(each.to(device) for each in tensors), output)
    return output.cpu()


def result_type(name: str, types: list[DType]) -> DType:
    """Return the type of a function's result: a half's is a half."""
    row = LIBDEVICE[name.partition(".")[2]].primitive if "." in name else None
    (result,) = row.gives(types) if row is not None else [types[0]]
    computed = row.gives([dtypes.float32 if each.is_half else each for each in types])[0] if row is not None else None
    is_own = row is None or not row.results[0].type.classes or (types[0].is_half and computed == dtypes.float32)
    return types[0] if is_own else computed or result


def reference_of(name: str) -> str:
    """Name the function that computes in float64 what one of float32 alone approximates."""
    stem = name.partition(".")[2]
    if not stem.startswith("fast_"):
        return name
    stem = stem.removeprefix("fast_").removesuffix("f")
    return "fdiv" if stem == "divide" else f"libdevice.{stem}"


def errors(found: torch.Tensor, exact: torch.Tensor) -> tuple[float, float, int]:
    """Return the greatest error in units of the last place and against max(1, |exact|), and how many kinds differ.

    exact: in float64. Kinds differ where just one of both is NaN, or infinite once it is rounded to the type.
    """
    wanted = exact.to(found.dtype)
    is_number = found.isfinite() & wanted.isfinite()
    others = ~is_number & ~((found == wanted) | (found.isnan() & wanted.isnan()))
    if not bool(is_number.any()):
        return 0.0, 0.0, int(others.sum())
    a, b = found[is_number].double(), exact[is_number].double()
    info = torch.finfo(found.dtype)
    _, exponent = torch.frexp(b.abs().clamp(min=info.tiny))
    unit = torch.ldexp(torch.ones_like(b), exponent - 1) * info.eps
    off = (a - b).abs()
    return float((off / unit).max()), float((off / b.abs().clamp(min=1)).max()), int(others.sum())


def measured(function: Measured, device: str) -> dict[str, Any]:
    """Measure a function with each type: `{type: {"ulps", "absolute", "kinds"}}`, or `{"differ", "of"}` if it is exact.

    Halves of exact ones are left out, and all of these on the CPU, with which the others are compared.
    """
    found: dict[str, Any] = {}
    for dtype, types in function.types.items():
        if function.is_exact and (device == "cpu" or dtype == "float16"):
            continue
        if function.is_exact:
            tensors = arguments(types, 40)
            result, expected = (run(function.name, tensors, each) for each in (device, "cpu"))
            found[dtype] = {"differ": differing(result, expected), "of": len(result)}
        elif dtype != "float64":
            tensors = arguments(types)
            wide = [each.double() if each.is_floating_point() else each for each in tensors]
            exact = run(reference_of(function.name), wide, "cpu")
            found[dtype] = _rounded(*errors(run(function.name, tensors, device), exact))
        elif device == "cpu":
            found[dtype] = against_mpmath(function.name, types)
    return found


def one(name: str, device: str) -> tuple[str, dict[str, Any] | str]:
    """Measure a function; an error is told, and does not stop the others."""
    warnings.simplefilter("ignore")
    try:
        return name, measured(functions()[name], device)
    except Exception as error:
        return name, f"{type(error).__name__}: {error}"


def against_mpmath(name: str, types: tuple[str, ...], every: int = 1) -> dict[str, Any]:
    """Measure float64 on the CPU; of pairs some hundreds. every: how much coarser the numbers are."""
    count = len(types)
    given = [numbers(torch.float64, 1, 8 * every)] if count == 1 else operands(torch.float64, count)
    if count > 1:
        chosen = torch.randperm(len(given[0]), generator=torch.Generator().manual_seed(2))[: 600 // every]
        given = [each[chosen] for each in given]
    off = references.off(name.removeprefix("libdevice."), given, run(name, given, "cpu"))
    ulps, absolute = (max(each) for each in zip(*off, strict=True))
    return _rounded(ulps, absolute, 0)


def differing(found: torch.Tensor, expected: torch.Tensor) -> int:
    """Count results that differ; zeros of both signs do, and NaN are all alike."""
    same = found == expected
    if found.is_floating_point():
        same = (same & (found.signbit() == expected.signbit())) | (found.isnan() & expected.isnan())
    return int((~same).sum())


def _rounded(ulps: float, absolute: float, kinds: int) -> dict[str, Any]:
    return {"ulps": float(f"{ulps:.2g}"), "absolute": float(f"{absolute:.2g}"), "kinds": kinds}
