"""Arrangements: symbolic sizes, meta-operations and the index maps that they are."""
