"""Session: extends _rondo's with a runtime of its own if none is given, and with awaitable runs."""
from __future__ import annotations

import asyncio
import atexit
from typing import Any, Iterable

from . import _rondo
from ._rondo import Plan, Runtime
from .errors import Error

# A completion takes the interpreter's lock, so all runs must end before the interpreter does.
atexit.register(_rondo._end_runs)


def _runtime_for(plan: Plan) -> Runtime:
    """A runtime on the plan's target. A plan for GPUs and the host runs on the host if no GPU can run it."""
    targets = plan.target.split(",")
    if any(target != "host" for target in targets):
        try:
            runtime = Runtime("cuda", devices=plan.devices)
            runtime.supports(plan)
            return runtime
        except Error:
            if "host" not in targets:
                raise
    return Runtime("host", devices=plan.devices)


class Session(_rondo.Session):
    """One user's arena, state and recorded graphs over a plan. All device memory is allocated here; runs allocate none.

    runtime: several sessions may share one; None makes one on the plan's target. timeout: seconds for making the session.
    run_timeout: seconds for each run that has no timeout. watchdog: seconds without progress after which a run with collectives ends;
    None: a minute. memory_limit: the most bytes that arena and state may take on each device, weights aside; 0: what is free. Programs
    with variants (compile's `variants`) run as the fastest that keeps to it; `variants` and `why_smaller` say which.

    A session serves one call at a time: a second call at the same time raises FailedPrecondition. Many sessions can run at once,
    each from its own thread, or as awaited runs.
    """

    def __init__(self, plan: Plan, runtime: Runtime | None = None, *, timeout: float | None = None,
                 run_timeout: float | None = None, watchdog: float | None = None, memory_limit: int = 0) -> None:
        if not isinstance(plan, Plan):
            raise TypeError(f"plan is a {type(plan).__name__}: give a rondo.Plan, by rondo.compile or rondo.Plan.load")
        super().__init__(plan, runtime if runtime is not None else _runtime_for(plan), timeout=timeout,
                         run_timeout=run_timeout, watchdog=watchdog, memory_limit=memory_limit)

    async def run_async(self, inputs: dict[str, Any], *, program: str | None = None,
                        outputs: dict[str, Any] | Iterable[str] | None = None,
                        timeout: float | None = None) -> dict[str, Any]:
        """`run`, awaitable. One of the runtime's async_workers executes it, or a thread of asyncio if a bucket must pad the inputs. The inputs must not change until it has ended.

        Cancelling the task cancels the run. The task ends when the run has ended; then the session is free.
        """
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[dict[str, Any]] = loop.create_future()

        def settle(results: dict[str, Any] | None, error: Error | None) -> None:
            if ended.cancelled():
                return
            if error is not None:
                ended.set_exception(error)
            else:
                ended.set_result(results or {})

        def done(results: dict[str, Any] | None, error: Error | None) -> None:
            # Called on a thread of the runtime. Nobody waits on a closed loop.
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, results, error)

        if not self._start(inputs, done, program, outputs, timeout):
            ended = asyncio.ensure_future(asyncio.to_thread(self.run, inputs, program=program, outputs=outputs, timeout=timeout))
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            ended.add_done_callback(lambda future: future.cancelled() or future.exception())  # marks its exception as retrieved
            if not self.closed:
                self.cancel()
            if not ended.done():
                await asyncio.wait([ended])
            raise

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
