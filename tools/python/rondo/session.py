"""Sessions: _rondo's, with a runtime of their own where none is given, and awaitable runs."""
from __future__ import annotations

import asyncio
import atexit
from typing import Any, Iterable

from . import _rondo
from ._rondo import Plan, Runtime
from .errors import Error

# A completion takes the interpreter's lock: none may come after the interpreter.
atexit.register(_rondo._end_runs)


def _runtime_for(plan: Plan) -> Runtime:
    """On what the plan is compiled for; of a plan for GPUs and the host, on the host where no GPU can run it."""
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
    """One user's arena, state and recorded graphs over a plan. All memory is allocated here; runs allocate none of the device's.

    runtime: several sessions share one; None makes one on what the plan is compiled for. timeout: seconds for making the session.
    run_timeout: of each run that has none. watchdog: seconds that the devices of a run with collectives may make no progress;
    None: a minute.

    A session serves one call at a time: a second one at the same moment raises FailedPrecondition. Many sessions run at once,
    each from a thread of its own, or as awaited runs.
    """

    def __init__(self, plan: Plan, runtime: Runtime | None = None, *, timeout: float | None = None,
                 run_timeout: float | None = None, watchdog: float | None = None) -> None:
        super().__init__(plan, runtime if runtime is not None else _runtime_for(plan), timeout=timeout,
                         run_timeout=run_timeout, watchdog=watchdog)

    async def run_async(self, inputs: dict[str, Any], *, program: str | None = None,
                        outputs: dict[str, Any] | Iterable[str] | None = None,
                        timeout: float | None = None) -> dict[str, Any]:
        """`run`, awaitable: one of the runtime's async_workers executes it, or a thread of asyncio's where a bucket pads. The inputs must not change until it has ended.

        Cancelling the task cancels the run; the task ends when the run has, and the session is then free.
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
            # On a thread of the runtime's. A loop that is closed has nobody who waits.
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, results, error)

        if not self._start(inputs, done, program, outputs, timeout):
            ended = asyncio.ensure_future(asyncio.to_thread(self.run, inputs, program=program, outputs=outputs, timeout=timeout))
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            ended.add_done_callback(lambda future: future.cancelled() or future.exception())  # nobody will look at it
            if not self.closed:
                self.cancel()
            if not ended.done():
                await asyncio.wait([ended])
            raise

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
