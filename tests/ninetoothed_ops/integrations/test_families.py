"""The page on families of transformers is that of the code."""

import pytest

transformers = pytest.importorskip("transformers")
families = pytest.importorskip("docs.families")


@pytest.mark.parametrize(
    ("family", "attention"),
    (
        ("llama", "NTAttention"),
        ("gemma2", "by name `Gemma2Attention`"),
        # It keeps its implementation when a model's is set.
        ("t5", "by name `T5Attention` set when made"),
        # Its encoder is called without data, and its sub-configs are not the defaults.
        ("encoder-decoder", "by name `BertCrossAttention`, by name `BertSelfAttention`"),
        ("axk2", "by name `AXK2Attention`"),
    ),
)
def test_rows(family, attention):
    row = families.row(family)
    assert ", ".join(row.attention) == attention and "NTLinear" in row.linear and not row.missing
    assert bool(row.rope) == (family in ("llama", "gemma2", "axk2"))
    # Another version of transformers has other classes.
    text = families.FILE.read_text()
    assert f"transformers {transformers.__version__};" not in text or f"{row}\n" in text


def test_what_cannot_be_made():
    row = families.row("dinat")
    assert "ImportError: DinatModel requires the natten library" in row.missing
    assert "could not be made" in str(row) and " 1 could not be made;" in families.page([row])
