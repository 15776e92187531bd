"""The memory that a training step holds while it runs, and a picture of it."""

import json
import pathlib
import tempfile

from torch.profiler import ProfilerActivity, profile

# Points that are kept of a curve: the highest of as many equal spans of time.
POINTS = 400


def curve(step, on_gpu, held=0):
    """Give `[(milliseconds, GiB)]` of a step, as the host asks for memory and gives it back.

    held: bytes that are held before, which a CPU's allocator does not tell.
    """
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profile(activities=activities, profile_memory=True) as found:
        step()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "trace.json"
        found.export_chrome_trace(str(path))
        events = json.loads(path.read_text(errors="replace"))["traceEvents"]
    # Device types as PyTorch numbers them: 0 is a CPU, 1 a CUDA device.
    seen = [
        (each["ts"], each["args"]["Total Allocated"])
        for each in events
        if each.get("name") == "[memory]" and each["args"]["Device Type"] == int(on_gpu)
    ]
    return thinned([(time, size + held) for time, size in sorted(seen)])


def thinned(seen):
    """Keep the highest point of each span of time; microseconds and bytes become milliseconds and GiB."""
    if not seen:
        return []
    first, last = seen[0][0], seen[-1][0]
    spans = {}
    for time, size in seen:
        span = int((time - first) / max(1e-9, last - first) * (POINTS - 1))
        spans[span] = max(spans.get(span, (0, 0)), (size, time))
    return [((time - first) / 1e3, size / 2**30) for _, (size, time) in sorted(spans.items())]


def draw(rows, path, title):
    """Plot tokens per second, the most memory held, and memory over a step, of each variant; returns the path."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = {name: row for name, row in rows.items() if "error" not in row}
    figure, (speed, most, over) = pyplot.subplots(
        1, 3, figsize=(13, 4.2), width_ratios=(1, 1, 2.2), layout="constrained"
    )
    colors = {name: f"C{index}" for index, name in enumerate(rows)}
    for axes, key, label in ((speed, "tokens/s", "tokens per second"), (most, "GiB", "most memory held, GiB")):
        for name, row in rows.items():
            bars = axes.bar(name, row.get(key, 0.0), color=colors[name])
            axes.bar_label(bars, fmt="%.0f" if key == "tokens/s" else "%.1f", fontsize=7, padding=2)
        axes.tick_params(axis="x", labelrotation=40, labelsize=8)
        axes.set_title(label, fontsize=9)
    for name, row in rows.items():
        points = row.get("memory") or [(0.0, 0.0)]
        over.plot(*zip(*points), label=name, color=colors[name], linewidth=1.2)
    over.set_xlabel("milliseconds of the host, which issues one step")
    over.set_title("memory held over a step, GiB", fontsize=9)
    if rows:
        over.legend(fontsize=8)
    figure.suptitle(title, fontsize=10)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
    return path
