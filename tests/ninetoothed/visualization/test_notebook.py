"""What notebooks show of tensors, kernels, sources and explanations."""

import html
import re
import xml.etree.ElementTree

import torch

import ninetoothed
from ninetoothed import Tensor
from ninetoothed.visualization.notebook import source_html

NAME = "{http://www.w3.org/2000/svg}rect"


def drawings(text):
    return [xml.etree.ElementTree.fromstring(each) for each in re.findall(r"<svg.*?</svg>", text, re.S)]


def test_a_tensor_has_a_cell_for_each_element_and_overhang_is_empty():
    (drawn,) = drawings(Tensor(shape=(5,), name="x").tile((2,))._repr_html_())
    cells = list(drawn.iter(NAME))
    assert len(cells) == 6 and [cell.get("fill") for cell in cells].count("#fff") == 1
    assert len({cell.get("fill") for cell in cells}) == 4
    assert [cell[0].text for cell in cells] == [f"element {i}" for i in range(5)] + ["overhang"]


def test_what_is_too_large_is_told():
    assert "too large" in Tensor(shape=(100, 100), name="x").tile((2, 2))._repr_html_()


def kernel():
    def copy(x, y):
        y = x

    return ninetoothed.make(lambda x, y: (x.tile((4,)), y.tile((4,))), copy, (Tensor(1), Tensor(1)))


def test_a_kernel_shows_its_arrangement():
    text = kernel()._repr_html_()
    assert len(drawings(text)) == 2 and "x: (" in text and "ninetoothed_" not in text


def test_sources_are_highlighted_and_keep_their_text():
    source = kernel().source(torch.empty(9), torch.empty(9), gpu="h100")
    shown = source._repr_html_()
    assert '<span style="color:#8250df">def</span> copy' in shown
    assert html.unescape(re.sub(r"<[^>]+>", "", shown)) == str(source)
    assert html.unescape(re.sub(r"<[^>]+>", "", source_html("def ("))).strip() == "def ("


def test_explanations_keep_their_lines():
    shown = kernel().explain(torch.empty(9), torch.empty(9), gpu="h100")._repr_html_()
    assert shown.startswith("<pre>kernel copy for") and "&lt;" in shown
