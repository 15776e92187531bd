"""The page on families of transformers is that of the code."""

import pytest

transformers = pytest.importorskip("transformers")
families = pytest.importorskip("docs.families")


@pytest.mark.parametrize("family", ("llama", "gemma2", "gpt2", "bert"))
def test_rows(family):
    row = families.row(family)
    assert ("NTAttention" in row.swapped) == (family == "llama") and bool(row.named) == (family != "llama")
    # Another version of transformers has other classes.
    text = families.FILE.read_text()
    assert f"transformers {transformers.__version__};" not in text or f"{row}\n" in text


def test_what_passes_an_argument_that_is_refused_and_what_cannot_be_made():
    assert families.row("axk2").named == ("`AXK2Attention` except `indices`",)
    row = families.row("encoder-decoder")
    assert row.missing and "could not be made" in str(row) and "1 could not be made." in families.page([row])
