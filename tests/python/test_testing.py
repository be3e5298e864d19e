"""rondo.testing as users' tests call it."""
import pytest

import rondo
from conftest import sum_model
from rondo import testing


def test_plans_that_are_as_they_say(sum_plan, pycoder, tmp_path):
    testing.verify(sum_plan)
    sum_plan.save(tmp_path / "plan.rondo")
    assert testing.check(tmp_path / "plan.rondo").target == "host"
    testing.expect_peak_bytes(sum_plan, at_most=1 << 20)
    testing.expect_updated_in_place(sum_plan, "total")
    testing.expect_copies_at_most(sum_plan, at_most=1 << 16)


def test_expectations_that_do_not_hold(sum_plan, tmp_path):
    (tmp_path / "plan.rondo").write_bytes(b"no plan at all")
    for call, word in (
            (lambda: testing.check(tmp_path / "plan.rondo"), "plan"),
            (lambda: testing.expect_peak_bytes(sum_plan, at_most=1), "more than 1"),
            (lambda: testing.expect_updated_in_place(sum_plan, "nothing"), "nothing"),
            (lambda: testing.expect_shares_memory(sum_plan, "x", "total"), "x"),
            (lambda: testing.expect_reuses_memory(sum_plan, "total", "x"), "total"),
            (lambda: testing.expect_dies_after(sum_plan, "x", "double"), "x")):
        with pytest.raises(AssertionError, match=word):
            call()


def test_a_cache_that_is_not_updated_in_place_is_found():
    plan = rondo.compile(sum_model(), auto_state=False)
    with pytest.raises(AssertionError, match="total"):
        testing.expect_updated_in_place(plan, "total")


def test_a_driver_that_is_not_there(sum_plan):
    with pytest.raises(rondo.InvalidArgument, match="tpu"):
        testing.verify(sum_plan, driver="tpu")
