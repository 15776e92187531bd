"""Twins over tensor descriptors, for operands that these can read; others go to `twins/OP.py`."""
