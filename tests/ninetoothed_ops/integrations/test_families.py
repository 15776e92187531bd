"""The page on families of transformers is that of the code, and what it says of attention by name is seen."""

import pytest
import torch

from tests.ninetoothed_ops.recorder import Recorder

transformers = pytest.importorskip("transformers")
families = pytest.importorskip("docs.families")
family_checks = pytest.importorskip("docs.family_checks")


@pytest.mark.parametrize(
    ("family", "attention"),
    (
        ("llama", "NTAttention"),
        ("gemma2", "by name `Gemma2Attention`"),
        ("t5", "by name `T5Attention`"),
        # Its sub-configs are not the defaults.
        ("encoder-decoder", "by name `BertCrossAttention`, by name `BertSelfAttention`"),
        ("axk2", "by name `AXK2Attention`"),
    ),
)
def test_rows(family, attention):
    errors = dict.fromkeys(part.split("`")[1] for part in attention.split(", ") if "`" in part)
    row = families.row(family_checks.Check(family, errors=dict.fromkeys(errors, 1e-6)))
    # That of T5 keeps its implementation in some releases when a model's is set.
    if family == "t5" and not is_reached(transformers.T5Config):
        attention += " set when made"
    assert ", ".join(row.attention) == attention and "NTLinear" in row.linear and not row.missing
    assert bool(row.rope) == (family in ("llama", "gemma2", "axk2"))
    # Another version of transformers has other classes.
    text = families.FILE.read_text()
    assert f"transformers {transformers.__version__};" not in text or f"{row}\n" in text


def is_reached(config):
    """Tell whether the attention of a family's model is ours once the model is set to it."""
    families.register_attention()
    with torch.device("meta"):
        model = transformers.AutoModel.from_config(config(num_layers=1))
        model.set_attn_implementation("ninetoothed")
        with Recorder() as recorder:
            model(input_ids=torch.ones(1, 3, dtype=torch.long), decoder_input_ids=torch.ones(1, 2, dtype=torch.long))
    return any(name.startswith("ninetoothed::sdpa") for name in recorder.names)


def test_what_is_not_called_or_cannot_be_made():
    found = family_checks.Check("gemma2", missing={"Gemma2Attention": "it is Sunday"})
    rows = [families.row(each) for each in (found, family_checks.Check("dinat"))]
    assert rows[0].attention == ("by its code `Gemma2Attention`",)
    assert "ImportError: DinatModel requires the natten library" in rows[1].missing
    page = families.page(rows)
    assert "- `gemma2`: `Gemma2Attention`: it is Sunday" in page and " 1 could not be made;" in page


# Attention of which the calls depend on data, or on inputs of several kinds; that of decoders to others' states; and
# masks that a family adds, or makes of its own.
SEEN = {
    "bert": {"BertSelfAttention", "BertCrossAttention"},
    "blip_2_qformer": {"Blip2QFormerMultiHeadAttention"},
    "decision_transformer": {"DecisionTransformerGPT2Attention"},
    "fun_asr_nano_encoder": {"FunAsrNanoAttention"},
    "glm_ocr_vision": {"GlmOcrVisionAttention"},
    "informer": {"InformerAttention"},
}


@pytest.mark.parametrize("family", SEEN)
def test_seen_with_the_numbers_of_eager(family):
    families.register_attention()
    found = family_checks.check(family)
    assert found.errors.keys() == SEEN[family] and not found.missing and not found.wrong
    assert max(found.errors.values()) < family_checks.TOLERANCE


def test_what_differs_is_found():
    ones = torch.ones(3)
    assert family_checks.difference([ones], [ones + 1e-3]) == pytest.approx(1e-3, rel=1e-2)
    for other in (torch.ones(4), torch.full((3,), torch.nan)):
        assert family_checks.difference([ones], [other]) == float("inf")
    assert family_checks.difference([], [ones]) == float("inf") == family_checks.difference([], [])
