"""Passes: from a program to an equivalent program. `pipeline` lists them in their order; each is a file of its own."""

from __future__ import annotations

from ninetoothed.passes.pipeline import GPU, PASSES, PORTABLE, Pass, run
from ninetoothed.passes.scheduled import Buffer, PassReport, ScheduledProgram
from ninetoothed.passes.target import CPU, Target

__all__ = ["CPU", "GPU", "PASSES", "PORTABLE", "Buffer", "Pass", "ScheduledProgram", "PassReport", "Target", "run"]
