"""docs/gallery.md and its pictures are what `python -m docs.gallery` writes today."""

import json

import pytest

from benchmarks.gallery.__main__ import UNREACHED
from benchmarks.gallery.files import examples
from docs import gallery
from docs.gallery_pictures import drawn
from docs.gallery_shipped import shipped


def test_the_page_is_current():
    assert gallery.FILE.read_text() == gallery.page(), "run `python -m docs.gallery`"


def test_every_kernel_has_its_picture():
    names = [each.name for each in (*examples(), *shipped())]
    assert {path.stem for path in gallery.PICTURES.glob("*.svg")} == set(names) and len(names) == len(set(names))


# Those of the others are drawn in the same way: by their number, a few of every theme.
@pytest.mark.parametrize("example", examples()[::5], ids=lambda each: each.name)
def test_pictures_are_current(example):
    assert (gallery.PICTURES / f"{example.name}.svg").read_text() == drawn(example), "run `python -m docs.gallery`"


@pytest.mark.parametrize("kernel", shipped(), ids=lambda each: each.name)
def test_kernels_of_the_package_are_shown_as_they_are(kernel):
    assert (gallery.PICTURES / f"{kernel.name}.svg").read_text() == gallery.picture_of(kernel)
    assert kernel.verdict == "proved" and f"({gallery.path_of(kernel.path)})" in gallery.FILE.read_text().replace(
        "../", ""
    )


def test_times_are_shown_and_what_failed_is_told(tmp_path, monkeypatch):
    """Of two runs, what the newer one did not reach is told by the older one."""
    own, other = examples()[:2]
    timed = {"arguments": ["float32 (8,)"], "milliseconds": {"ninetoothed": 0.5, "eager": 0.25}}
    result = {"name": own.name, **timed, "errors": {"inductor": "Error: no"}}
    unreached = {"name": own.name, "milliseconds": {}, "errors": {"ninetoothed": UNREACHED}}
    newer = {"name": other.name, "milliseconds": {}, "errors": {"ninetoothed": "Error: never"}}
    for day, name, results in ((2, "a GPU", [result]), (3, "another", [unreached, newer])):
        record = {"date": f"2026-01-0{day}T03", "device": name, "torch": "2.11+cu", "triton": "3.6", "results": results}
        (tmp_path / f"gallery-{day}.json").write_text(json.dumps(record))
    monkeypatch.setattr(gallery, "RESULTS", tmp_path)
    text = gallery.page()
    assert f"[{own.title}](#{gallery.anchor(own.title)}) | proved | 0.500 | 0.250 | 2.00 |" in text
    assert "- 1 kernel on one a GPU, PyTorch 2.11, Triton 3.6, 2026-01-02\n- 1 kernel on one another" in text
    assert "Timed on a GPU with float32 (8,). Inductor failed: `Error: no`." in text and text.count("Not timed.") > 0
    assert "Not timed. NineToothed failed: `Error: never`." in text and UNREACHED not in text
