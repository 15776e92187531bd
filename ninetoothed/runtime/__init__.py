"""The only room beside the PyTorch backend that sees live tensors: from a call to a launch."""
