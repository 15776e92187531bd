"""Figure 6 of the paper as a picture: bars for each operation, relative to the hand-written Triton kernel."""


def draw(results, path, title, baseline="triton"):
    """Plot the speed of each peer over the baseline's for every result of `benchmarks.kernels`; returns the path."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    from benchmarks.peers import NAMES

    results = [result for result in results if baseline in result["milliseconds"]]
    measured = [result["milliseconds"] for result in results]
    known = dict.fromkeys((*NAMES, *(name for times in measured for name in times)))
    names = [name for name in known if any(name in times for times in measured)]
    width = 0.8 / max(1, len(names))
    figure, axes = pyplot.subplots(figsize=(max(6.0, 1.3 * len(results)), 4.5), layout="constrained")
    for index, name in enumerate(names):
        shown = [(place, times) for place, times in enumerate(measured) if name in times]
        bars = axes.bar(
            [place + (index - (len(names) - 1) / 2) * width for place, _ in shown],
            [times[baseline] / times[name] for _, times in shown],
            width,
            label=name,
        )
        axes.bar_label(bars, [f"{times[name]:.3g}" for _, times in shown], fontsize=6, rotation=90, padding=2)
    axes.axhline(1.0, color="black", linewidth=0.6)
    axes.set_xticks(range(len(results)), [label(result) for result in results], rotation=30, ha="right")
    axes.set_ylabel(f"speed relative to {baseline} (labels: ms)")
    axes.margins(y=0.15)
    axes.set_title(title)
    if names:
        axes.legend(ncols=len(names), fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
    return path


def label(result):
    return result["op"] if result["case"] in ("paper", "quick") else f"{result['op']}, {result['case']}"
