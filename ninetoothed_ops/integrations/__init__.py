"""Integrations of other libraries; each file is imported only when it is asked for."""

from ninetoothed.errors import UnsupportedError


def register_attention() -> None:
    """Register `attn_implementation="ninetoothed"` with transformers, for all models of this process.

    It imports transformers; without it, and with one that lacks what it stands on, it raises UnsupportedError. Nothing
    changes for a model of another implementation.

        ninetoothed_ops.register_attention()
        model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="ninetoothed")
    """
    try:
        from . import names
    except ModuleNotFoundError as error:
        if error.name != "transformers":
            raise
        raise UnsupportedError(
            'register_attention: transformers is not installed: pip install -U "transformers>=5.17".'
        ) from None

    names.check("register_attention")
    from . import attention_interface

    attention_interface.register_attention()
