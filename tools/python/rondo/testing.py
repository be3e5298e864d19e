"""What tests ask of a plan: that it is proved, that memory is used as it says, and expectations by the model's own names.

    from rondo import testing

    def test_memory(plan):
        testing.verify(plan)
        testing.expect_peak_bytes(plan, at_most=64 << 20)
        testing.expect_updated_in_place(plan, "k_cache", program="decode")

Each raises AssertionError with a sentence that names buffers, nodes and steps.
"""
from __future__ import annotations

import os
from typing import Union

from . import _rondo
from ._rondo import Plan
from .errors import Error

__tracebackhide__ = True  # pytest shows the test's line

__all__ = ["check", "verify", "expect_peak_bytes", "expect_updated_in_place", "expect_reuses_memory", "expect_shares_memory",
           "expect_dies_after", "expect_copies_at_most"]


def check(path: Union[str, "os.PathLike[str]"]) -> Plan:
    """The plan in the file opens: it is read, verified, and its memory and order are proved. Returns it."""
    try:
        return Plan.load(path)
    except Error as error:
        raise AssertionError(str(error)) from None


def verify(plan: Plan, driver: str = "host", threads: int = 1) -> None:
    """Every program, step by step over poisoned memory and as graphs, uses memory as the plan says, like `rondo run --verify`.

    On virtual devices of the host driver, a plan for GPUs, too; driver="cuda" runs on GPUs.
    """
    findings = _rondo._verify(plan, driver, threads)
    assert not findings, f"memory is not used as the plan says:\n{findings}"


def expect_peak_bytes(plan: Plan, at_most: int) -> None:
    """The device memory of a first session, on all devices together: weights, arena and state."""
    assert plan.peak_bytes <= at_most, f"the plan takes {plan.peak_bytes} bytes, more than {at_most}; {_rondo._peak_text(plan)}"


def _expect(plan: Plan, kind: int, value: str = "", other: str = "", program: str = "", at_most: int = 0) -> None:
    mismatch = _rondo._mismatch(plan, kind, value, other, program, at_most)
    assert not mismatch, mismatch


def expect_updated_in_place(plan: Plan, value: str, program: str = "") -> None:
    """`value` is changed where it lies, not copied there. program: "" for each that has the name."""
    _expect(plan, _rondo._UPDATED_IN_PLACE, value, program=program)


def expect_reuses_memory(plan: Plan, value: str, before: str, program: str = "") -> None:
    """`value` lies in memory that `before` had before it, or takes it over in place."""
    _expect(plan, _rondo._REUSES_MEMORY, value, before, program)


def expect_shares_memory(plan: Plan, value: str, other: str, program: str = "") -> None:
    """Some bytes are both's, at whatever time."""
    _expect(plan, _rondo._SHARES_MEMORY, value, other, program)


def expect_dies_after(plan: Plan, value: str, node: str, program: str = "") -> None:
    """The node's step is the last that uses `value`."""
    _expect(plan, _rondo._DIES_AFTER, value, node, program)


def expect_copies_at_most(plan: Plan, at_most: int, program: str = "") -> None:
    """The bytes that a run moves without computing."""
    _expect(plan, _rondo._COPIES_AT_MOST, program=program, at_most=at_most)
