"""How the tests call models and compare what they give."""

import torch

from tests.conftest import DEVICE, error

__all__ = ["DEVICE", "NAMES", "TOLERANCE", "error", "generate", "logits", "reasons"]
NAMES = ("Llama", "Mistral", "Qwen2", "Qwen3")
TOLERANCE = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 1e-1}


@torch.no_grad()
def logits(model, tokens, mask=None, **options):
    """At the tokens that the mask keeps."""
    found = model(input_ids=tokens, attention_mask=mask, **options).logits
    return found if mask is None else found[mask.bool()]


def generate(model, tokens, mask, count=8, **options):
    found = model.generate(input_ids=tokens, attention_mask=mask, max_new_tokens=count, do_sample=False, **options)
    return found[:, tokens.shape[1] :]


def reasons(report):
    """Why each module of a report was left alone, all but a part of it at least, by its name."""
    return {row.name: row.reason for row in report if row.reason}
