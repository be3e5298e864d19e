"""Awaited runs: results, errors, cancellation."""
import asyncio

import numpy
import pytest

import rondo

X = numpy.ones(4, numpy.float32)


def test_awaited_runs_of_many_sessions(affine_plan, runtime):
    async def all_of_them():
        sessions = [rondo.Session(affine_plan, runtime) for _ in range(16)]
        for turn in range(20):
            results = await asyncio.gather(*(session.run_async({"x": X * (turn + i)}) for i, session in enumerate(sessions)))
            assert [result["y"].tolist() for result in results] == [[2 * (turn + i)] * 4 for i in range(16)]
    asyncio.run(all_of_them())


def test_mistakes_and_limits_are_raised(affine, slow, slow_inputs):
    async def run():
        with pytest.raises(rondo.InvalidArgument, match="is missing"):
            await affine.run_async({})
        with pytest.raises(rondo.DeadlineExceeded):
            await slow.run_async(slow_inputs, timeout=0.02)
        y = numpy.empty(4, numpy.float32)
        assert (await affine.run_async({"x": X}, outputs={"y": y}))["y"] is y
        assert y.tolist() == [2] * 4
    asyncio.run(run())


def test_a_cancelled_task_cancels_its_run_and_frees_the_session(slow, slow_inputs):
    async def run():
        task = asyncio.create_task(slow.run_async(slow_inputs))
        await asyncio.sleep(0.1)
        with pytest.raises(rondo.FailedPrecondition):
            await slow.run_async(slow_inputs)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(slow.run_async(slow_inputs), 0.05)
        with pytest.raises(rondo.DeadlineExceeded):  # the session is free again
            slow.run(slow_inputs, timeout=0.02)
    asyncio.run(run())


def test_cancel_from_elsewhere(slow, slow_inputs):
    async def run():
        asyncio.get_running_loop().call_later(0.1, slow.cancel)
        with pytest.raises(rondo.Cancelled):
            await slow.run_async(slow_inputs)
    asyncio.run(run())


def test_a_loop_that_is_gone_and_a_completion_that_raises(slow, slow_inputs, affine, capsys):
    async def leave():
        slow._start(slow_inputs, lambda *_: None, None, None, 0.05)
    asyncio.run(leave())
    slow.wait()

    unraisable = []
    import sys
    hook, sys.unraisablehook = sys.unraisablehook, unraisable.append
    try:
        def done(results, error):
            raise RuntimeError("nobody waits")
        affine._start({"x": X}, done, None, None, None)
        affine.wait()
        for _ in range(1000):
            if unraisable:
                break
            asyncio.run(asyncio.sleep(0.001))
    finally:
        sys.unraisablehook = hook
    assert "nobody waits" in str(unraisable[0].exc_value)


def test_no_workers_no_awaited_runs(affine_plan):
    session = rondo.Session(affine_plan, rondo.Runtime("host", async_workers=0))
    with pytest.raises(rondo.Error, match="async"):
        asyncio.run(session.run_async({"x": X}))
