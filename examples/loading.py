"""The models and prompts of generate.py, of a folder or at random."""

from argparse import Namespace
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Task:
    """What is to be generated: `inputs` continued by a model; the tokenizer is None where there is none."""

    options: Namespace
    model: Any
    tokenizer: Any
    inputs: dict[str, torch.Tensor]

    @property
    def ends(self) -> tuple[int, ...]:
        """The tokens that end a sequence."""
        found = self.model.generation_config.eos_token_id
        return () if found is None else (found,) if isinstance(found, int) else tuple(found)

    @property
    def pad(self) -> int:
        """The token that follows the end of a sequence in a batch."""
        found = self.model.generation_config.pad_token_id
        return next(iter(self.ends), 0) if found is None else found


def prepare(options: Namespace) -> Task:
    """Make model and inputs; raises ImportError, OSError or ValueError for what is not there, or cannot be."""
    check(options.device)
    torch.manual_seed(options.seed)
    model, tokenizer = load(options)
    return Task(options, model, tokenizer, encode(options, model, tokenizer))


def check(device: str) -> None:
    """Raise ValueError for a device that the kernels do not run on, or that is not there."""
    try:
        kind, index = torch.device(device).type, torch.device(device).index or 0
    except RuntimeError:
        kind, index = None, 0
    if kind not in ("cpu", "cuda"):
        raise ValueError(f"--device {device}: the kernels run on cpu and on cuda")
    if kind == "cuda" and index >= torch.cuda.device_count():
        raise ValueError(f"--device {device}: PyTorch finds {torch.cuda.device_count()} CUDA devices here")


def load(options: Namespace) -> tuple[Any, Any]:
    """Load (model, tokenizer or None) from the folder, or make up a model."""
    try:
        import transformers
    except ImportError as error:
        raise ImportError('This example needs transformers: pip install "transformers>=5.17"') from error

    folder, dtype, tokenizer = options.model, getattr(torch, options.dtype), None
    if folder is None:
        model = transformers.LlamaForCausalLM(small_config(transformers)).to(dtype)
    elif not (folder / "config.json").is_file():
        raise FileNotFoundError(f"{folder} holds no config.json: --model takes a folder, and downloads nothing")
    else:
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, dtype=dtype)
        if any(folder.glob("tokenizer*")):
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return model.eval().to(options.device), tokenizer


def small_config(transformers: Any) -> Any:
    """Describe a Llama of a few million parameters."""
    return transformers.LlamaConfig(
        vocab_size=1024,
        hidden_size=256,
        intermediate_size=688,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=2048,
        bos_token_id=None,
        eos_token_id=None,
        # Larger than usual: weights this random choose one token over the others by more than rounding.
        initializer_range=0.1,
    )


def encode(options: Namespace, model: Any, tokenizer: Any) -> dict[str, torch.Tensor]:
    """Make the model's inputs, of the prompt or of random tokens."""
    if options.prompt is None:
        tokens = torch.randint(model.config.vocab_size, (options.batch, options.prompt_tokens)).to(options.device)
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    if tokenizer is None:
        raise ValueError("--prompt needs a tokenizer, and this model has none: use --model, or --prompt-tokens")
    return dict(tokenizer([options.prompt] * options.batch, return_tensors="pt").to(options.device))
