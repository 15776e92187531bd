"""Figure 7 of the paper and more: tokens per second of a Llama, by whatever generates them."""
