"""One step by kernel."""

from collections import defaultdict

import torch
from torch.profiler import ProfilerActivity, profile

STEPS = 4


def kernels(decoder, inputs, count):
    """`[{"name", "count", "microseconds"}]` of one step of a decoder, about half way, the longest in all first.

    On a CPU, operators stand in for kernels, without what they call. Nothing where there are less than four tokens.
    """
    half = max(2, count // 2)
    steps = min(STEPS, count - 1 - half)
    if steps < 1:
        return []
    on_gpu = decoder.device.type == "cuda"
    stream = decoder.stream(inputs, count)
    for _ in range(half):
        next(stream)
    activity = ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU
    with profile(activities=[activity], acc_events=True) as found:
        for _ in range(steps):
            next(stream)
        if on_gpu:
            torch.cuda.synchronize()
    stream.close()
    times = defaultdict(list)
    for event in found.events():
        if on_gpu == event.device_type.name.startswith("CUDA"):
            times[event.name].append(event.time_range.elapsed_us() if on_gpu else event.self_cpu_time_total)
    rows = [
        {"name": name, "count": len(each) / steps, "microseconds": sum(each) / steps} for name, each in times.items()
    ]
    return sorted(rows, key=lambda row: -row["microseconds"])
