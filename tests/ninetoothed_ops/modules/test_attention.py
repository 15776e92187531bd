import copy

import pytest
import torch

from ninetoothed.errors import NineToothedError, UnsupportedError
from ninetoothed_ops.modules import NTAttention, swap_modules
from tests.conftest import DEVICE

ROWS, LENGTH, HEADS, HIDDEN = 2, 7, 4, 64


@pytest.fixture(params=("sdpa", "eager"))
def attention(request):
    transformers = pytest.importorskip("transformers")
    from transformers.models.llama.modeling_llama import LlamaAttention

    config = transformers.LlamaConfig(
        hidden_size=HIDDEN, num_attention_heads=HEADS, num_key_value_heads=2, attention_bias=True, attention_dropout=0.5
    )
    config._attn_implementation = request.param
    module = LlamaAttention(config, 0)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return module.eval().to(DEVICE)


@pytest.fixture
def inputs():
    # Nothing says that the second half of an angle's table repeats the first.
    angles = torch.randn(1, LENGTH, HIDDEN // HEADS, device=DEVICE)
    states = torch.randn(ROWS, LENGTH, HIDDEN, device=DEVICE)
    return {"hidden_states": states, "position_embeddings": (angles.cos(), angles.sin())}


def triangle(*shape):
    """Each token sees itself and one draw of the earlier ones."""
    return (torch.rand(*shape, LENGTH, LENGTH, device=DEVICE) < 0.7).tril() | torch.eye(
        LENGTH, device=DEVICE, dtype=torch.bool
    )


@torch.no_grad()
def compare(module, inputs, mask=None, **kwargs):
    expected, _ = module(**inputs, attention_mask=mask, **kwargs)
    report = swap_modules(module)
    output, weights = module(**inputs, attention_mask=mask, **kwargs)
    report.undo()
    assert isinstance(module, report.rows[0].old) and issubclass(report.rows[0].new, NTAttention) and weights is None
    assert output.shape == expected.shape and output.dtype == expected.dtype
    assert torch.equal(output.isnan(), expected.isnan())
    assert (output - expected).nan_to_num().norm() <= 1e-4 * expected.nan_to_num().norm()
    return output


def test_no_mask_means_what_the_implementation_says(attention, inputs):
    causal = compare(attention, inputs)
    changed = dict(inputs, hidden_states=inputs["hidden_states"].clone())
    changed["hidden_states"][:, -1] += 1
    same = (compare(attention, changed) - causal)[:, :-1].abs().max() == 0
    assert same == (attention.config._attn_implementation == "sdpa")


@pytest.mark.parametrize("shape", ((1, 1), (ROWS, HEADS)))
@pytest.mark.parametrize("additive", (False, True))
def test_masks(attention, inputs, shape, additive):
    """To "eager", which adds them, boolean masks are 0 and 1."""
    mask = triangle(*shape)
    if additive:
        mask = torch.where(mask, torch.randn(mask.shape, device=DEVICE), torch.finfo(torch.float32).min)
    compare(attention, inputs, mask)


@pytest.mark.parametrize("attention", ("eager",), indirect=True)
def test_eager_adds_boolean_masks(attention, inputs):
    mask = triangle(ROWS, HEADS)
    added = compare(attention, inputs, mask)
    assert torch.equal(added, compare(attention, inputs, mask.float()))
    attention.config._attn_implementation = "sdpa"
    assert (compare(attention, inputs, mask) - added).norm() > 1e-2


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16, torch.float64, torch.int64))
@pytest.mark.parametrize("attention", ("eager",), indirect=True)
def test_eager_adds_masks_of_any_type(attention, inputs, dtype):
    compare(attention, inputs, torch.randint(-3, 3, (ROWS, 1, LENGTH, LENGTH), device=DEVICE).to(dtype))


def test_rows_that_see_nothing(attention, inputs):
    """Zeros to "sdpa", NaN to "eager"."""
    mask = torch.zeros(1, 1, LENGTH, LENGTH, device=DEVICE)
    mask[..., 2, :] = float("-inf")
    output = compare(attention, inputs, mask)
    assert output[:, 2].isnan().all() == (attention.config._attn_implementation == "eager")
    attention.q_proj.bias.data.fill_(1e25)
    attention.k_proj.bias.data.fill_(-1e25)
    # Turned, some products would be inf, and their sum with others NaN.
    cos, sin = inputs["position_embeddings"]
    unturned = torch.ones_like(cos), torch.zeros_like(sin)
    compare(attention, dict(inputs, position_embeddings=unturned), is_causal=False)


def test_is_causal_as_the_caller_says(attention, inputs):
    sees_all = compare(attention, inputs, is_causal=False)
    attention.config._attn_implementation = "sdpa"
    assert (compare(attention, inputs, is_causal=True) - sees_all).norm() > 1e-2


def test_a_table_for_every_row(attention, inputs):
    tables = tuple(table.repeat(ROWS, 1, 1) for table in inputs["position_embeddings"])
    compare(attention, dict(inputs, position_embeddings=tables))


def test_strided_states(attention, inputs):
    states = inputs["hidden_states"].transpose(0, 1).contiguous().transpose(0, 1)
    compare(attention, dict(inputs, hidden_states=states))


@pytest.mark.parametrize("attention", ("sdpa",), indirect=True)
def test_a_bias_of_positions_is_an_error(attention, inputs):
    swap_modules(attention)
    bias = torch.randn(1, HEADS, LENGTH, LENGTH, device=DEVICE)
    with pytest.raises(UnsupportedError, match=r"NTAttention \(layer 0\): it adds no position_bias"):
        attention(**inputs, attention_mask=None, position_bias=bias)


@torch.no_grad()
def test_weights_are_dropped_in_training_alone(attention, inputs):
    swap_modules(attention)
    expected = attention(**inputs, attention_mask=None)[0]
    attention.train()
    outputs = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        outputs.append(attention(**inputs, attention_mask=None)[0])

    assert torch.equal(outputs[0], outputs[1]) and not torch.equal(outputs[0], outputs[2])
    assert not torch.equal(outputs[0], expected)


def test_copies_are_the_same_class(attention):
    swap_modules(attention)
    assert type(copy.deepcopy(attention)) is type(attention)


def test_cannot_be_made_by_hand():
    with pytest.raises(NineToothedError, match="swap_modules"):
        NTAttention(64, 4)


def test_attention_of_no_known_kind():
    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
                setattr(self, name, torch.nn.Linear(4, 4))

        def forward(self, states):
            return self.o_proj(self.q_proj(states) + self.k_proj(states) + self.v_proj(states))

    report = swap_modules(Attention())
    assert report.rows[0].reason == "an attention module of no known kind" and len(report.swapped) == 4
