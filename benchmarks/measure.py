"""Clocks: device time, host time, CPU time, and the ceilings of a device. Whatever is compared takes turns."""

import statistics
import time
from dataclasses import dataclass

import torch

# A second of a GPU's clock, at most: by how much longer it waits on a slower one does not matter.
CYCLES = 2e9


@dataclass(frozen=True)
class Ceilings:
    """The ceilings that a device was seen to reach: bytes a second of a copy, operations a second of a product."""

    bytes: float
    operations: float


def device_times(calls, rounds=9, burst=25.0, rest=0.05):
    """Milliseconds on the GPU of each call (`{name: function}`): the median over rounds in which they take turns.

    A turn is a burst of so many milliseconds after a rest of so many seconds: a GPU at its limit of power lowers its
    clock, by a fifth where it multiplies matrices for long, and would charge each peer for the one before it. Before
    each call the caches are overwritten. The GPU waits until the host has issued the burst: else the delays of a busy
    host would count as the device's time.
    """
    flush = torch.empty(2**28, dtype=torch.int8, device="cuda")
    plans = {name: plan(call, flush, burst) for name, call in calls.items()}
    samples = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            time.sleep(rest)
            times, _ = issue(call, flush, *plans[name])
            # The first fifth brings the GPU to its clock.
            samples[name].append(statistics.median(times[len(times) // 5 :]))
    return {name: statistics.median(values) for name, values in samples.items()}


def plan(call, flush, burst):
    """(repetitions that fill a burst, seconds for which the GPU waits while the host issues them)."""
    call()
    times, issued = issue(call, flush, 10, delay=0.01)
    flushes, _ = issue(lambda: flush.zero_(), flush, 10, delay=0.01)
    repetitions = int(burst / (statistics.median(times) + statistics.median(flushes)))
    repetitions = min(100, max(5, repetitions))
    return repetitions, 2 * issued / 10 * repetitions


def issue(call, flush, repetitions, delay):
    """Issue calls while the GPU waits for `delay` seconds: (milliseconds of each, the host's seconds for all)."""
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(repetitions)]
    torch.cuda.synchronize()
    begin = time.perf_counter()
    torch.cuda._sleep(int(delay * CYCLES))
    for start, stop in events:
        flush.zero_()
        start.record()
        call()
        stop.record()
    issued = time.perf_counter() - begin
    torch.cuda.synchronize()
    return [start.elapsed_time(stop) for start, stop in events], issued


def host_times(calls, rounds=15, repetitions=60):
    """Microseconds for which a call of each (`{name: function}`) keeps the host: the median over rounds in turns.

    Their inputs should be small: then the GPU is never waited for.
    """
    samples = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(repetitions):
                call()
            samples[name].append((time.perf_counter() - start) / repetitions)
    torch.cuda.synchronize()
    return {name: 1e6 * statistics.median(values) for name, values in samples.items()}


def cpu_times(calls, rounds=15, warmup=2):
    """Milliseconds on the CPU of each call (`{name: function}`): the list over rounds in which they take turns."""
    for _ in range(warmup):
        for call in calls.values():
            call()
    samples = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            samples[name].append(1e3 * (time.perf_counter() - start))
    return samples


def ceilings(dtype):
    """Measure the current GPU: a copy of 2 GiB, counting bytes both ways, and an 8192^3 product in this type."""
    source = torch.randn(2**29, device="cuda")
    target = torch.empty_like(source)
    a, b = torch.randn(2, 8192, 8192, device="cuda").to(dtype)
    milliseconds = device_times({"copy": lambda: target.copy_(source), "mm": lambda: torch.mm(a, b)}, rounds=3)
    moved = 2 * source.numel() * source.element_size()
    return Ceilings(moved / milliseconds["copy"] * 1e3, 2 * 8192**3 / milliseconds["mm"] * 1e3)
