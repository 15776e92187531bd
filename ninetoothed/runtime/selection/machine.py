"""Machines: the numbers of each GPU, and of its generation, that choosing a schedule and compiling need.

A GPU is one row, and so is a generation; nothing else in the package states a number of a GPU.
"""

from __future__ import annotations

import difflib
import functools
import math
from dataclasses import dataclass, field, replace
from typing import Any

from ninetoothed.errors import ArgumentError, UnsupportedError


@dataclass(frozen=True)
class ProductCosts:
    """Numbers of which the cost model of products is made: the time of one multiprocessor, and what it holds.

    Times are clock cycles; a row may have another unit, of `unit` seconds.

    Multiplying: `rate` is the multiplications and additions a cycle of 16-bit operands, `exact_rate` of float32 without
    tensor cores. A tile of fewer rows than `least_rows` takes the time of so many. Small tiles feed the tensor cores
    too slowly: the smallest reach the part `small_tile_efficiency` of the rate, the largest all of it. Tiles of 256
    columns and 8 warps take the part `wide` of the time.

    Copying, in bytes a cycle: `copy` of whole rows, `odd_copy` where rows start at odd multiples of 16 bytes, `gather`
    where threads gather the elements.

    Loading, where memory is counted: at most `intake` bytes a cycle by a multiprocessor, `shared_intake` by all of them
    from L2, and from memory the part `reached` of its bandwidth. Where `reached` is 0, memory is not counted.

    Waiting: `latency` from a load to its use, which the steps in flight hide (all stages but `stages_in_use`, and at
    least `least_hidden`), `round_trip` of a step, which nothing hides, and `issue` of a step of each program.

    Of what bounds a step, the longest counts, and what is near it the more, the smaller `sharpness` is.

    Starting and ending: `launch`, `wave` of programs, `lone_wave` of one more where a program has a multiprocessor to
    itself, `refill` where there are several, for each byte of a step, shared by the programs that are resident together
    (later waves begin at different times); for an element stored: `wave_store` in each wave, `store` by each program,
    `store_behind` by each program that loads its next tile meanwhile. `fix_up` for the parts of a sum to meet, and
    `part` for an element of each.

    Holding: at most `most_resident` programs, each with `other_registers` a thread beside its accumulator (None where
    registers are not counted); a multiprocessor has `own_shared_memory` bytes more than one program may take.

    is_fitted: whether the numbers were fitted to timed launches, so that pipelines and ways of sharing are compared by
        them, too, and the last wave counts by what is in it. Otherwise tiles alone are compared.
    precision: estimates whose quotient differs from 1 by less are equal.
    """

    rate: float
    exact_rate: float = 128
    least_rows: int = 1
    small_tile_efficiency: float = 0.35
    wide: float = 1
    copy: float = 64
    odd_copy: float = 64
    gather: float = 64
    intake: float = math.inf
    shared_intake: float = math.inf
    reached: float = 0
    unit: float = 0
    latency: float = 800
    stages_in_use: int = 1
    least_hidden: float = 1
    round_trip: float = 0
    issue: float = 60
    sharpness: float = math.inf
    launch: float = 0
    wave: float = 1500
    lone_wave: float = 0
    refill: float = 0
    wave_store: float = 0
    store: float = 1 / 64
    store_behind: float = 0
    fix_up: float = 0
    part: float = 0
    most_resident: int = 4
    other_registers: int | None = None
    own_shared_memory: int = 0
    is_fitted: bool = False
    precision: float = 0


# Fitted to some 2600 timed launches of 115 products on an H200, of which the pick is on average within 2 % of the
# fastest. Subtiles came later: they are estimated with the same numbers, and were timed at a dozen sizes. Its cycles
# are some of an H200 that multiplies, at 1.7 GHz: so its products from 1024^3 to 8192^3 take what is estimated, to
# within 8 %, but that of 1536^3, 18 us and not 22.
_HOPPER_HALVES = ProductCosts(
    unit=1 / 1.7e9,
    rate=1600,
    least_rows=64,
    small_tile_efficiency=1,
    wide=0.9,
    odd_copy=33,
    gather=40,
    latency=620,
    stages_in_use=2,
    least_hidden=0.7,
    round_trip=240,
    issue=0,
    launch=6500,
    wave=2800,
    lone_wave=800,
    wave_store=0.004,
    store=0,
    store_behind=0.02,
    fix_up=8500,
    part=0.13,
    most_resident=8,
    other_registers=45,
    own_shared_memory=1024,
    is_fitted=True,
)


# Of few rows, in microseconds: a large operand streams past a small one, and memory alone is waited for. Fitted to some
# 1700 timed products of 2 to 64 rows by the weights of Llama models on an H200, of which the pick is on average within
# 1 % of the fastest.
_HOPPER_STREAMS = ProductCosts(
    unit=1e-6,
    rate=math.inf,
    copy=math.inf,
    odd_copy=math.inf,
    gather=math.inf,
    intake=158e3,
    shared_intake=13.8e6,
    reached=0.883,
    latency=0.757,
    issue=0,
    sharpness=4.2,
    launch=3.36,
    wave=0,
    refill=6.6e-5,
    store=0,
    fix_up=0.706,
    part=1.22e-4,
    is_fitted=True,
    precision=0.005,
)


@dataclass(frozen=True)
class WorkCosts:
    """Numbers by which kernels are estimated whose schedules no formula compares: what a multiprocessor does a cycle.

    special: exponentials and other special functions. copied: bytes from L2 to registers or shared memory. reached: the
    part of memory's bandwidth. launch: seconds. sharpness: as that of `ProductCosts`. But for the last they are those
    of data sheets and of the fits above; with them the paper's kernels take from 0.8 to 1.3 times what is estimated.
    """

    special: float = 16
    copied: float = 64
    reached: float = 0.883
    launch: float = 3.4e-6
    sharpness: float = 2


@dataclass(frozen=True)
class Generation:
    """Numbers that GPUs share whose architectures, as Triton calls them, are among these: 90 is compute capability 9.0.

    compiler: Triton's name of the backend that compiles for them.
    warp_size: threads of a warp. threads: the most that a multiprocessor runs at once. most_warps: of one program.
    vector_bits: the most that a thread loads at once.
    has_tma: whether a copy engine moves tiles. has_wgmma: whether a group of four warps multiplies together, reading
        operands from shared memory.
    without_wgmma: the architecture to compile for where no wgmma may be used, as Triton calls it.
    products: the costs of products.
    streams: those of products of few rows, where these have their own.
    aligned_halves: those of products of 16-bit operands whose rows are aligned, where these have their own.
    work: those of all other work, for estimates.
    most_deep_area: the largest area of a tile whose steps may be 256 bytes deep: of larger ones too much is unrolled.
    crowded_registers: registers of an accumulator's thread where the kernel loads further tiles of the result's shape.
    attention_registers: registers of a thread for scores, weights and accumulator.
    gradient_registers: the same for the gradients of attention; without flags, and with one (a mask, a diagonal).
    """

    name: str
    architectures: range | tuple[str, ...]
    products: ProductCosts
    aligned_halves: ProductCosts | None = None
    streams: ProductCosts | None = None
    work: WorkCosts = WorkCosts()
    has_tma: bool = True
    has_wgmma: bool = False
    without_wgmma: str | None = None
    most_deep_area: int = 64 * 128
    crowded_registers: int = 128
    attention_registers: int = 130
    gradient_registers: tuple[int, int] = (195, 195)
    warp_size: int = 32
    threads: int = 2048
    most_warps: int = 32
    vector_bits: int = 128
    compiler: str = "cuda"


# It has neither a copy engine nor products that leave operands in shared memory.
_CDNA_3 = Generation(
    "CDNA 3",
    ("gfx942",),
    ProductCosts(rate=1024),
    has_tma=False,
    warp_size=64,
    most_warps=16,
    compiler="hip",
    attention_registers=110,
    gradient_registers=(125, 120),
)

GENERATIONS = (
    # Operands pass through registers, and no copy engine fetches them.
    Generation(
        "Ampere",
        range(90),
        ProductCosts(rate=1024),
        has_tma=False,
        most_deep_area=64 * 32,
        attention_registers=110,
        gradient_registers=(125, 120),
    ),
    Generation(
        "Hopper",
        range(90, 100),
        ProductCosts(rate=2048),
        aligned_halves=_HOPPER_HALVES,
        streams=_HOPPER_STREAMS,
        has_wgmma=True,
        without_wgmma="sm89",
        attention_registers=200,
        gradient_registers=(195, 165),
    ),
    # Accumulators pass from tensor memory through registers, where tiles of an addend leave them little room.
    Generation("Blackwell", range(100, 120), ProductCosts(rate=4096), crowded_registers=64),
    # It multiplies as Ampere does, and has the copy engine. Later ones are taken for it until they have a row.
    Generation("Blackwell RTX", range(120, 1000), ProductCosts(rate=1024), attention_registers=110),
    _CDNA_3,
    replace(_CDNA_3, name="CDNA 4", architectures=("gfx950",), products=ProductCosts(rate=2048)),
)


def generation_of(architecture: int | str) -> Generation:
    """Return the generation of an architecture; UnsupportedError where there is no row for it."""
    found = next((each for each in GENERATIONS if architecture in each.architectures), None)
    if found is None:
        known = ", ".join(str(name) for each in GENERATIONS for name in each.architectures if isinstance(name, str))
        raise UnsupportedError(f"there is no row for GPUs of {architecture}; of AMD's, there are {known}")
    return found


@dataclass(frozen=True)
class Machine:
    """A description of a GPU. Equal descriptions compile the same kernels.

    architecture: as Triton calls it, 90 for compute capability 9.0 or "gfx942". multiprocessors: AMD's compute units.
    shared_memory: bytes that one program may have. registers: those of a multiprocessor, of 32 bits. l2: bytes.
    bandwidth: bytes a second from memory. is_run_on: whether the tests and the benchmarks of this version ran on it.

    For estimates alone: `clock`, the cycles a second under load, `lanes`, the float32 operations a cycle of a
    multiprocessor, and `products`, the part of its generation's rate of products that it has.
    """

    name: str
    architecture: int | str
    multiprocessors: int
    shared_memory: int
    registers: int = 65536
    l2: int = 50 * 2**20
    bandwidth: float = 3.0e12
    is_run_on: bool = field(default=False, compare=False)
    clock: float = field(default=1.7e9, compare=False)
    lanes: int = field(default=128, compare=False)
    products: float = field(default=1, compare=False)

    @property
    def generation(self) -> Generation:
        """The numbers that it shares with GPUs of its time."""
        return generation_of(self.architecture)

    @property
    def converts_float8(self) -> bool:
        """Tell whether it has instructions that convert to types of 8 bits, and saturate infinities, too.

        AMD's do not: gfx942 has instructions for other types of 8 bits alone, and those of gfx950 keep infinities.
        """
        return isinstance(self.architecture, int) and self.architecture >= 89

    @property
    def target(self) -> str:
        """The name of its architecture: "sm_90", "gfx942"."""
        return f"sm_{self.architecture}" if isinstance(self.architecture, int) else self.architecture

    def __str__(self) -> str:
        return f"{self.name} ({self.target}, {self.multiprocessors} multiprocessors)"


# For each the tests compile kernels.
MACHINES = (
    Machine("A100", 80, 108, 163 * 1024, l2=40 * 2**20, bandwidth=2.0e12, clock=1.4e9, lanes=64),
    Machine("H100", 90, 132, 227 * 1024, l2=50 * 2**20, bandwidth=3.35e12),
    Machine("H200", 90, 132, 227 * 1024, l2=60 * 2**20, bandwidth=4.8e12, is_run_on=True),
    Machine("B200", 100, 148, 227 * 1024, l2=126 * 2**20, bandwidth=8.0e12, clock=1.8e9),
    Machine("RTX 3090", 86, 82, 99 * 1024, l2=6 * 2**20, bandwidth=0.94e12, products=1 / 4),
    Machine("RTX 5090", 120, 170, 99 * 1024, l2=96 * 2**20, bandwidth=1.79e12, clock=2.4e9, products=1 / 4),
    Machine("MI300X", "gfx942", 304, 64 * 1024, registers=131072, l2=32 * 2**20, bandwidth=5.3e12, clock=2.1e9),
    Machine("MI355X", "gfx950", 256, 160 * 1024, registers=131072, l2=32 * 2**20, bandwidth=8.0e12, clock=2.4e9),
)
A100, H100, H200, B200, *_ = MACHINES


def named(name: str) -> Machine:
    """Return the GPU of a name, in capitals or not: `named("h100")` is `H100`."""
    known = {machine.name.lower(): machine for machine in MACHINES}
    if name.lower() in known:
        return known[name.lower()]
    names = [machine.name for machine in MACHINES]
    near = difflib.get_close_matches(name.upper(), names, 1)
    meant = f"did you mean {near[0]!r}? Known are" if near else "known are"
    raise ArgumentError(
        f"there is no row for a GPU called {name!r}; {meant} {', '.join(names)}; describe another as a"
        " `ninetoothed.runtime.selection.machine.Machine`"
    )


def current(device: Any = None) -> Machine | None:
    """Describe the GPU behind a CUDA device (the current one by default); None where there is none."""
    import torch

    if not torch.cuda.is_available():
        return None
    device = torch.device("cuda" if device is None else device)
    return _describe(torch.cuda.current_device() if device.index is None else device.index)


@functools.cache
def _describe(index: int) -> Machine:
    """Describe a GPU by what its driver says, and by its row in the tables if it has one."""
    import torch

    properties = torch.cuda.get_device_properties(index)
    name = getattr(properties, "gcnArchName", None) if torch.version.hip else None
    architecture = name.split(":")[0] if name else properties.major * 10 + properties.minor
    known = next((machine for machine in MACHINES if machine.name in properties.name), None)
    clock = 1e3 * getattr(properties, "clock_rate", 0)
    described = Machine(
        known.name if known else properties.name,
        architecture,
        properties.multi_processor_count,
        getattr(properties, "shared_memory_per_block_optin", 0) or (known or A100).shared_memory,
        getattr(properties, "regs_per_multiprocessor", 65536),
        getattr(properties, "L2_cache_size", 0) or (known or A100).l2,
        known.bandwidth if known else 1.0e12,
    )
    if known:
        return replace(described, clock=known.clock, lanes=known.lanes, products=known.products)
    return replace(described, clock=clock or described.clock)
