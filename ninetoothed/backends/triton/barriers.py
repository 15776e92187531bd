"""Barriers between accesses of one program to the same memory: its threads run at their own pace."""

from __future__ import annotations

from dataclasses import replace

from ninetoothed import ir
from ninetoothed.backends.triton import syntax
from ninetoothed.backends.triton.analysis import guard_key
from ninetoothed.backends.triton.context import Context
from ninetoothed.expr import const
from ninetoothed.lowering import Guard


def access_key(access: ir.Access):
    """Equal for accesses in which each thread touches just what it touched before."""
    places = tuple(Guard(index, const(0)) for index in access.indices)
    return guard_key(replace(access, guards=places)) or object()


def before_read(context: Context, parameter: str, key) -> None:
    """A thread may read what another thread of the program wrote: two parameters may be the same memory."""
    if context.written:
        barrier(context)
    context.read.setdefault(parameter, set()).add(key)


def before_write(context: Context, parameter: str, key) -> None:
    """A thread may write what another thread of the program has yet to read."""
    if context.read.get(parameter, set()) - {key}:
        barrier(context)
    context.written.add(parameter)


def barrier(context: Context) -> None:
    context.run(syntax.call("tl.debug_barrier"))
    forget(context)


def forget(context: Context) -> None:
    context.written.clear()
    context.read.clear()
