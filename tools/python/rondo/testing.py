"""Checks of a plan for tests: its proofs, its use of memory, and expectations by the model's own names.

    from rondo import testing

    def test_memory(plan):
        testing.verify(plan)
        testing.expect_peak_bytes(plan, at_most=64 << 20)
        testing.expect_updated_in_place(plan, "k_cache", program="decode")

Each function raises AssertionError with a sentence that names buffers, nodes and steps.
"""
from __future__ import annotations

import os
from typing import Union

from . import _rondo
from ._rondo import Plan
from .errors import Error

__tracebackhide__ = True  # pytest shows the test's line instead of this module's

__all__ = ["check", "verify", "expect_peak_bytes", "expect_updated_in_place", "expect_reuses_memory", "expect_shares_memory",
           "expect_dies_after", "expect_copies_at_most"]


def check(path: Union[str, "os.PathLike[str]"]) -> Plan:
    """Opens and returns the plan in the file: it is read and verified, and its memory and order are proved."""
    try:
        return Plan.load(path)
    except Error as error:
        raise AssertionError(str(error)) from None


def verify(plan: Plan, driver: str = "host", threads: int = 1) -> None:
    """Expects that every program uses memory as the plan says, step by step over poisoned memory and as graphs, like `rondo run --verify`.

    Runs on virtual devices of the host driver, also for a plan for GPUs; driver="cuda" runs on GPUs.
    """
    findings = _rondo._verify(plan, driver, threads)
    assert not findings, f"memory is not used as the plan says:\n{findings}"


def expect_peak_bytes(plan: Plan, at_most: int) -> None:
    """Expects at most this many bytes of device memory for a first session, over all devices: weights, arena and state."""
    assert plan.peak_bytes <= at_most, f"the plan takes {plan.peak_bytes} bytes, more than {at_most}; {_rondo._peak_text(plan)}"


def _expect(plan: Plan, kind: int, value: str = "", other: str = "", program: str = "", at_most: int = 0) -> None:
    mismatch = _rondo._mismatch(plan, kind, value, other, program, at_most)
    assert not mismatch, mismatch


def expect_updated_in_place(plan: Plan, value: str, program: str = "") -> None:
    """Expects that `value` is updated in place, not copied there. program: "" for each program that has the name."""
    _expect(plan, _rondo._UPDATED_IN_PLACE, value, program=program)


def expect_reuses_memory(plan: Plan, value: str, before: str, program: str = "") -> None:
    """Expects that `value` lies in memory that `before` used earlier, or takes it over in place."""
    _expect(plan, _rondo._REUSES_MEMORY, value, before, program)


def expect_shares_memory(plan: Plan, value: str, other: str, program: str = "") -> None:
    """Expects that `value` and `other` have some bytes in common, at any time."""
    _expect(plan, _rondo._SHARES_MEMORY, value, other, program)


def expect_dies_after(plan: Plan, value: str, node: str, program: str = "") -> None:
    """Expects that the node's step is the last that uses `value`."""
    _expect(plan, _rondo._DIES_AFTER, value, node, program)


def expect_copies_at_most(plan: Plan, at_most: int, program: str = "") -> None:
    """Expects that a run moves at most this many bytes without computing."""
    _expect(plan, _rondo._COPIES_AT_MOST, program=program, at_most=at_most)
