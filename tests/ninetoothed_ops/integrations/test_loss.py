"""Losses of models of transformers, without their logits: those of the unswapped, gradients too."""

import copy
import inspect

import pytest
import torch
import torch.nn.functional as F

from ninetoothed_ops import swap_modules
from ninetoothed_ops.modules.pending_logits import PendingLogits
from tests.conftest import DEVICE
from tests.ninetoothed_ops.recorder import Recorder

# Of which the heads are plain, tied, softly capped, and scaled before the loss.
FAMILIES = {
    "Llama": {},
    "Qwen3": {"tie_word_embeddings": True},
    "Gemma2": {"final_logit_softcapping": 5.0, "attn_implementation": "eager"},
    "Granite": {"logits_scaling": 3.0},
    "Cohere": {"logit_scale": 0.25},
}
WITHOUT = "ninetoothed::linear_cross_entropy_with_gradients"
TOKENS = torch.randint(1, 97, (2, 9), generator=torch.Generator().manual_seed(0)).to(DEVICE)
LABELS = TOKENS.masked_fill(torch.arange(9, device=DEVICE) < 2, -100)


@pytest.fixture
def twins(make):
    """twins(name, **options): a model in training, and its copy with a loss that needs no logits."""

    def build(name="Llama", **options):
        model = make(name, num_hidden_layers=1, **options).train()
        twin = copy.deepcopy(model)
        report = swap_modules(twin, loss=True)
        return model, twin, report

    return build


def stepped(model, **options):
    model.zero_grad()
    with Recorder() as recorder:
        output = model(input_ids=TOKENS, labels=LABELS, **options)
    output.loss.backward()
    grads = {name: each.grad for name, each in model.named_parameters() if each.grad is not None}
    return output, grads, WITHOUT in recorder.names


@pytest.mark.parametrize("name", FAMILIES)
def test_the_loss_of_a_family(name, twins):
    model, twin, report = twins(name, **FAMILIES[name])
    for options in ({}, {"num_items_in_batch": torch.tensor(13, device=DEVICE)}):
        expected, theirs, _ = stepped(model, **options)
        found, ours, is_without = stepped(twin, **options)
        assert is_without and found.logits is None and expected.logits is not None
        torch.testing.assert_close(found.loss, expected.loss, rtol=1e-5, atol=0)
        assert ours.keys() == theirs.keys()
        for key, each in theirs.items():
            assert (ours[key] - each).norm() <= 1e-4 * each.norm().clamp(min=1e-6), key
    assert "the model itself" in str(report) and "NTCausalLM" in str(report)
    report.undo()
    assert type(twin) is type(model) and stepped(twin)[0].logits is not None


def test_logits_where_they_are_asked_for(twins):
    model, twin, _ = twins()
    expected = model(input_ids=TOKENS, labels=LABELS)
    for found in (
        twin(input_ids=TOKENS, labels=LABELS, skip_logits=False),
        twin(input_ids=TOKENS),
        twin.eval()(input_ids=TOKENS, labels=LABELS),
    ):
        torch.testing.assert_close(found.logits, expected.logits, rtol=1e-4, atol=1e-4)
    assert len(twin.train()(input_ids=TOKENS, labels=LABELS, return_dict=False, use_cache=False)) == 1
    with torch.no_grad():
        assert twin(input_ids=TOKENS, labels=LABELS).logits is not None


def test_it_is_the_model_that_it_was(twins):
    model, twin, _ = twins()
    assert isinstance(twin, type(model)) and type(twin).__name__ == type(model).__name__
    assert inspect.signature(twin.forward) == inspect.signature(model.forward)
    copied = copy.deepcopy(twin)
    output, _, is_without = stepped(copied)
    assert is_without and output.logits is None and copied.lm_head.weight.grad is not None
    assert twin.lm_head.weight.grad is None


def test_heads_that_somebody_looks_at(twins):
    """Hooks see logits, and what is wrapped around a head is called."""
    model, twin, _ = twins()
    shapes = []
    handle = twin.lm_head.register_forward_hook(lambda *args: shapes.append(args[2].shape))
    output, _, is_without = stepped(twin)
    assert not is_without and shapes == [(2, 9, 97)] and output.logits is not None
    handle.remove()
    twin.lm_head = torch.nn.Sequential(twin.lm_head)
    assert stepped(twin)[0].logits is not None


def test_a_loss_of_ones_own(twins):
    """What a loss function asks of the logits beyond a cross-entropy, it gets: the logits."""
    model, twin, _ = twins()

    def loss(logits, labels, vocab_size, **_):
        shifted = logits[..., :-1, :].contiguous()
        plain = F.cross_entropy(shifted.view(-1, vocab_size), labels[..., 1:].reshape(-1), label_smoothing=0.1)
        return plain + logits.float().log_softmax(-1).square().mean() + (logits + 1).mean()

    for each in (model, twin):
        each.loss_function = loss
    expected, theirs, _ = stepped(model)
    found, ours, is_without = stepped(twin)
    assert is_without
    torch.testing.assert_close(found.loss, expected.loss, rtol=1e-5, atol=0)
    for key, each in theirs.items():
        torch.testing.assert_close(ours[key], each, rtol=1e-3, atol=1e-4, msg=key)


def test_operations_on_pending_logits():
    """Each of them, and what comes of two, is that of the logits."""
    head = torch.nn.Linear(8, 5)
    states, target = torch.randn(2, 3, 8), torch.randint(5, (6,))
    operations = {
        "scaled": lambda x: x / 2 * 3,
        "capped": lambda x: torch.tanh(x / 3) * 3,
        "capped otherwise": lambda x: torch.tanh(x / 3) * 2,
        "capped twice": lambda x: torch.tanh(torch.tanh(x)),
        "scaled after": lambda x: 2 * (3 * torch.tanh(x / 3)) / 2,
        "added": lambda x: x + 1,
        "cast": lambda x: x.to(torch.float64).float(),
        "transposed": lambda x: x.transpose(0, 1).transpose(0, 1),
        "sliced": lambda x: x[:, :, :],
    }
    for name, operation in operations.items():
        pending = PendingLogits(head, states, states, states.dtype)
        losses = [
            F.cross_entropy(operation(each).reshape(-1, 5), target, label_smoothing=0.1)
            for each in (pending, head(states))
        ]
        torch.testing.assert_close(*losses, msg=name)
    pending = PendingLogits(head, states, states, states.dtype)
    assert pending[..., :2].shape == (2, 3, 2) and pending.shape == pending.size() == (2, 3, 5)


def test_trainer(make, tmp_path):
    """Its label smoothing takes the logits, and its batches are averaged over their tokens."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    data = [{"input_ids": row, "labels": row} for row in torch.randint(1, 97, (8, 6)).tolist()]
    for smoothing in (0.0, 0.1):
        found = []
        for is_swapped in (False, True):
            model = make("Llama", num_hidden_layers=1).train()
            if is_swapped:
                swap_modules(model, loss=True)
            args = transformers.TrainingArguments(
                output_dir=tmp_path, use_cpu=DEVICE == "cpu", max_steps=2, per_device_train_batch_size=2,
                gradient_accumulation_steps=2, label_smoothing_factor=smoothing, optim="sgd", learning_rate=0.01,
                logging_steps=1, report_to=[], save_strategy="no", disable_tqdm=True, eval_strategy="no",
            )  # fmt: skip
            trainer = transformers.Trainer(model=model, args=args, train_dataset=data, eval_dataset=data)
            with Recorder() as recorder:
                trainer.train()
            assert (WITHOUT in recorder.names) == (is_swapped and not smoothing)
            losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
            found.append((*losses, trainer.evaluate()["eval_loss"]))
        assert found[1] == pytest.approx(found[0], rel=1e-4)
