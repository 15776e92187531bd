"""Fine-tune a small Llama whose modules run on NineToothed's kernels, and its twin on PyTorch's, and compare.

python examples/finetuning.py [--device cpu|cuda] [--steps N]
"""

import argparse
import copy
import sys

import torch

from ninetoothed_ops import swap_modules

TEXT = b"She sells seashells by the seashore. The shells she sells are surely seashells."


def small_model():
    """Make a Llama of random weights that reads bytes; its embedding is frozen, as often in fine-tuning."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=256, hidden_size=64, intermediate_size=176, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2,
    )  # fmt: skip
    model = LlamaForCausalLM(config).train()
    model.get_input_embeddings().requires_grad_(False)
    return model


def losses(model, tokens, steps):
    """Train as any model of PyTorch is trained; give the loss of each step."""
    optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=3e-3)
    found = []
    for _ in range(steps):
        loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cpu or cuda")
    parser.add_argument("--steps", type=int, default=5)
    options = parser.parse_args(arguments)
    torch.manual_seed(0)
    model, tokens = small_model().to(options.device), torch.tensor([list(TEXT)], device=options.device)
    expected = losses(copy.deepcopy(model), tokens, options.steps)
    print(f"{len(swap_modules(model, join=True).swapped)} modules are swapped")
    found = losses(model, tokens, options.steps)
    for step, (ours, theirs) in enumerate(zip(found, expected)):
        print(f"step {step}: loss {ours:.5f}, of PyTorch's modules {theirs:.5f}", flush=True)
    return 0 if torch.allclose(torch.tensor(found), torch.tensor(expected), rtol=1e-3) else 1


if __name__ == "__main__":
    sys.exit(main())
