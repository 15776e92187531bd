"""`kernel.show`: the data and the structure of its page, and the page in a browser where there is one."""

import re
import shutil
import subprocess

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor
from ninetoothed.seeing import page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def arrangement(x, w, y):
    return x.tile((2, 4)), w.tile((1, 4)).expand((x.tile((2, 4)).shape[0], -1)), y.tile((2, 4))


def weigh(x, w, y):
    weighed = x * w
    total = ntl.sum(weighed)
    y = weighed + total


def kernel():
    return ninetoothed.make(arrangement, weigh, (Tensor(2), Tensor(2), Tensor(2)))


def call(rows=3, columns=6):
    return torch.ones(rows, columns), torch.arange(float(columns))[None], torch.empty(rows, columns).fill_(-1)


def test_data():
    given = call()
    data = page.data_of(kernel(), given, {})
    assert bool((given[2] == -1).all())
    assert [each["index"] for each in data["programs"]] == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert data["parameters"]["w"]["shared"] == [0, 1, 2, 3, 4, 5] and not data["parameters"]["x"]["shared"]
    last = data["programs"][3]
    assert last["held"]["x"] == {"places": [16, 17], "overhang": 6, "how": ["read"]}
    assert last["held"]["y"]["how"] == ["written"]
    value = last["steps"][0]["values"]["weighed"]
    assert value == {"shape": [2, 4], "type": "float32", "elements": ["4", "5", None, None] + [None] * 4}
    assert [text.strip() for text in data["source"].values()][1] == "total = ntl.sum(weighed)" and not data["notes"]


def test_what_is_large_is_cut_and_the_page_says_so():
    data = page.data_of(kernel(), call(200, 100), {})
    assert len(data["programs"]) == 256
    assert "Cut: only the first 256 programs are shown." in data["notes"]
    assert "Cut: x of (200, 100) is shown up to (64, 64)." in data["notes"]


def test_the_page_needs_nothing_else(tmp_path):
    shown = kernel().show(*call())
    assert not re.search(r"https?:|<link|src=|@@", shown.html) and "weighed + total" in shown.html
    assert shown._repr_html_().startswith('<iframe srcdoc="&lt;!doctype') or "&quot;" in shown._repr_html_()
    assert shown.save(tmp_path / "page.html").read_text() == shown.html


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
def test_the_page_in_a_browser(tmp_path):
    path = kernel().show(*call()).save(tmp_path / "page.html")
    # From the second program, by the slider to the third, by the keyboard to the last.
    slide = (
        "const slider = document.getElementById('program'); slider.value = 2; slider.dispatchEvent(new Event('input'))"
    )
    key = "document.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight'}))"
    path.write_text(path.read_text().replace("</body>", f"<script>{slide}; {key}</script></body>"))
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile", "--dump-dom"]
    done = subprocess.run([CHROMIUM, *options, f"{path.as_uri()}#1,0"], capture_output=True, text=True, timeout=120)
    page = done.stdout
    assert '<span id="at">(1, 1)</span>' in page, done.stderr[-2000:]
    assert page.count('class="cell held') + page.count('class="cell shared held') == 2 + 2 + 2
    assert "6 lanes of its tile are overhang" in page and page.count('<td class="over">--</td>') == 6 + 2 + 6
