"""The record of kernels that are built ahead of time: formulas, descriptions of variants, the folder."""
