"""One step by kernel."""

from collections import defaultdict

import torch
from torch.profiler import ProfilerActivity, profile

STEPS = 4
# C++ kernels have names of a thousand letters.
LETTERS = 160


class _Seen(Exception):
    """Ends a run of which enough was seen."""


def kernels(run, count, device):
    """`[{"name", "count", "microseconds"}]` of one step of a run, about half way, the longest in all first.

    run: as `prepare` of a variant gives it, for `count` tokens. On a CPU, operators stand in for kernels, without what
    they call. Nothing where there are less than four tokens.
    """
    first = max(2, count // 2)
    # Of the last token some loops tell without another step.
    steps = min(STEPS, count - 1 - first)
    if steps < 1:
        return []
    on_gpu = device.type == "cuda"
    found = profile(activities=[ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU], acc_events=True)
    tokens = 0

    def watch():
        nonlocal tokens
        tokens += 1
        if tokens not in (first, first + steps):
            return
        if on_gpu:
            torch.cuda.synchronize(device)
        if tokens == first:
            found.start()
        else:
            found.stop()
            raise _Seen

    try:
        run(watch)
    except _Seen:
        pass
    times = defaultdict(list)
    for event in found.events():
        if on_gpu == event.device_type.name.startswith("CUDA"):
            spent = event.time_range.elapsed_us() if on_gpu else event.self_cpu_time_total
            times[event.name[:LETTERS]].append(spent)
    rows = [
        {"name": name, "count": len(each) / steps, "microseconds": sum(each) / steps} for name, each in times.items()
    ]
    return sorted(rows, key=lambda row: -row["microseconds"])
