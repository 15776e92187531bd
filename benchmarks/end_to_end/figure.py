"""Figure 7 of the paper as a picture: tokens per second by variant, for each number of new tokens."""


def draw(results, roofline, path, title):
    """Plot the results of `benchmarks.end_to_end` that are no errors, under the memory roofline; returns the path."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    found = {(row["variant"], row["count"]): row["tokens/s"] for row in results if "error" not in row}
    names = list(dict.fromkeys(name for name, _ in found))
    counts = sorted({count for _, count in found})
    width = 0.8 / max(1, len(names))
    figure, axes = pyplot.subplots(figsize=(max(6.0, 3.0 * len(counts)), 4.5), layout="constrained")
    for index, name in enumerate(names):
        shown = [(place, found[name, count]) for place, count in enumerate(counts) if (name, count) in found]
        bars = axes.bar(
            [place + (index - (len(names) - 1) / 2) * width for place, _ in shown],
            [rate for _, rate in shown],
            width,
            label=name,
        )
        axes.bar_label(bars, fmt="%.0f", fontsize=6, rotation=90, padding=2)
    axes.axhline(roofline, color="black", linewidth=0.8, linestyle="--", label="memory roofline")
    axes.set_xticks(range(len(counts)), [f"{count} new tokens" for count in counts])
    axes.set_ylabel("tokens per second")
    axes.margins(y=0.15)
    axes.set_title(title)
    figure.legend(loc="outside lower center", ncols=6, fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
    return path
