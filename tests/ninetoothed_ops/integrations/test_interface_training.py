"""Models with attn_implementation="ninetoothed" learn as with their own attention: steps, checkpoints, halves, LoRA."""

import copy

import pytest
import torch

from ninetoothed_ops.modules import swap_modules
from tests.ninetoothed_ops.integrations.calls import DEVICE, TOLERANCE, error, logits
from tests.ninetoothed_ops.integrations.families import WINDOW, attention_operators, decoder

transformers = pytest.importorskip("transformers")
attention_interface = pytest.importorskip("ninetoothed_ops.integrations.attention_interface")
attention_interface.register_attention()

SINKS = {"num_local_experts": 4, **WINDOW}


def losses(model, tokens, mask, steps=2):
    """Train for some steps as a trainer does, with clipped gradients; no token is foretold by padding."""
    labels = tokens.masked_fill((mask & mask.roll(1, -1)) == 0, -100)
    trained = [each for each in model.parameters() if each.requires_grad]
    optimizer, found = torch.optim.AdamW(trained, lr=1e-2), []
    for _ in range(steps):
        loss = model(input_ids=tokens, attention_mask=mask, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return found


def test_steps_with_checkpoints_of_gradients(batch):
    """Each of them computes attention twice: here with sinks, over windows in every second layer."""
    model = decoder("gpt_oss", "eager", **SINKS).train()
    expected = losses(copy.deepcopy(model), *batch(2, 7))
    model.set_attn_implementation("ninetoothed")
    model.gradient_checkpointing_enable()
    assert losses(model, *batch(2, 7)) == pytest.approx(expected, rel=1e-4) and expected[-1] < expected[0]


@pytest.mark.parametrize(
    ("family", "options", "dtype"), (("gemma3_text", {}, torch.bfloat16), ("gpt_oss", SINKS, torch.float16))
)
def test_halves_and_autocast(batch, family, options, dtype):
    """As near to float32 as the model's own attention in halves."""
    model, (tokens, mask) = decoder(family, "eager", **options), batch(3, 9)
    exact, half = logits(model, tokens, mask), copy.deepcopy(model).to(dtype)
    found = []
    for name in ("eager", "ninetoothed"):
        model.set_attn_implementation(name)
        half.set_attn_implementation(name)
        with torch.autocast(DEVICE, dtype=dtype):
            mixed = logits(model, tokens, mask)
        found.append((error(logits(half, tokens, mask), exact), error(mixed, exact)))
    assert all(ours < 1.5 * theirs + 1e-3 for theirs, ours in zip(*found)), found


def test_lora(batch):
    """Adapters of peft, learning and merged, on attention by name and beside modules that are swapped."""
    peft = pytest.importorskip("peft")
    model, (tokens, mask) = decoder("phi3", "eager", num_hidden_layers=1), batch(2, 7)
    found = []
    for name in ("eager", "ninetoothed"):
        each = copy.deepcopy(model)
        report = swap_modules(each) if name == "ninetoothed" else None
        torch.manual_seed(1)
        adapted = peft.get_peft_model(
            each, peft.LoraConfig(r=4, target_modules=["qkv_proj", "o_proj"], init_lora_weights=False)
        )
        adapted.base_model.model.set_attn_implementation(name)
        steps = losses(adapted.train(), tokens, mask)
        learned = logits(adapted.eval(), tokens, mask)
        merged = adapted.merge_and_unload()
        assert error(logits(merged, tokens, mask), learned) < TOLERANCE[torch.float32]
        if report is not None:
            assert attention_operators(lambda model=merged: logits(model, tokens, mask)) == (1, 0)
            report.undo()
            assert error(logits(merged, tokens, mask), learned) < TOLERANCE[torch.float32]
        found.append((steps, learned))
    assert found[1][0] == pytest.approx(found[0][0], rel=1e-4)
    assert error(found[1][1], found[0][1]) < 10 * TOLERANCE[torch.float32]
