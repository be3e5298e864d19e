"""No order in which Python uses and destroys objects ends the process."""
import gc
import os
import signal
import subprocess
import sys
import threading
import time

import numpy
import pytest

import rondo
from conftest import affine_model

X = {"x": numpy.ones(4, numpy.float32)}


def test_a_session_keeps_its_plan_and_runtime():
    plan, runtime = rondo.compile(affine_model()), rondo.Runtime("host")
    session = rondo.Session(plan, runtime)
    del plan, runtime
    gc.collect()
    assert session.run(X)["y"].tolist() == [2] * 4
    assert session.plan.target == "host" and session.runtime.driver == "host"


def test_outputs_outlive_everything():
    session = rondo.Session(rondo.compile(affine_model()))
    y = session.run(X)["y"]
    view = numpy.from_dlpack(y)[1:]
    del session, y
    gc.collect()
    assert view.tolist() == [2] * 3


def test_a_state_outlives_its_session(sum_plan, runtime):
    session = rondo.Session(sum_plan, runtime)
    state = session.read_state("total")
    session.close()
    assert state.tolist() == [[0] * 3] * 2


def test_a_closed_session_says_so(affine_plan, runtime):
    session = rondo.Session(affine_plan, runtime)
    session.close()
    session.close()
    assert session.closed
    for call in (lambda: session.run(X), session.cancel, session.reset_state, session.wait, lambda: session.read_state("s"),
                 lambda: session.plan, lambda: session.error):
        with pytest.raises(rondo.FailedPrecondition, match="closed"):
            call()


def test_what_was_never_made_cannot_be_used():
    with pytest.warns(RuntimeWarning), pytest.raises(TypeError):
        rondo.Session.__new__(rondo.Session).run(X)
    for plan, runtime in ((None, rondo.Runtime()), (rondo.Runtime(), rondo.Runtime()), (None, None)):
        with pytest.raises((TypeError, AttributeError)):
            rondo.Session(plan, runtime)


def test_a_session_is_closed_while_it_runs(slow_plan, runtime, slow_inputs):
    session = rondo.Session(slow_plan, runtime)
    ended = []

    def run():
        with pytest.raises(rondo.Cancelled):
            session.run(slow_inputs)
        ended.append(True)
    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.1)
    with pytest.raises(rondo.FailedPrecondition):
        session.run(slow_inputs)  # a session serves one call at a time
    session.cancel()
    session.close()
    thread.join()
    assert ended == [True]


def test_inputs_may_go_while_they_are_used(slow_plan, runtime, slow_inputs):
    session = rondo.Session(slow_plan, runtime)
    thread = threading.Thread(target=lambda: pytest.raises(rondo.Cancelled, session.run, slow_inputs))
    thread.start()
    time.sleep(0.1)
    with pytest.raises(ValueError):
        slow_inputs["x"].resize(1)  # numpy refuses, because the run holds the array
    slow_inputs.clear()
    gc.collect()
    session.cancel()
    thread.join()


def test_memory_is_flat(affine_plan, runtime):
    def resident():
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    session = rondo.Session(affine_plan, runtime)
    x = numpy.ones(4, numpy.float32)

    def run_many(count):
        for _ in range(count):
            session.run({"x": x})
            with pytest.raises(rondo.InvalidArgument):
                session.run({})
    run_many(1000)
    before = resident()
    run_many(10000)
    assert resident() - before < 1 << 20


def test_sessions_give_their_memory_back(affine_plan, runtime):
    for _ in range(100):
        with rondo.Session(affine_plan, runtime) as session:
            session.run(X)
    del session
    gc.collect()
    assert runtime.metrics()["sessions"] <= 8  # sessions of other tests' fixtures


def run_program(text, *, status=0):
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120,
                          cwd=os.path.dirname(os.path.abspath(__file__)))
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def test_a_process_ends_with_runs_under_way():
    for end in ("", "sys.exit(0)", "del session, runtime, plan"):
        run_program(f"""
import asyncio, sys, numpy, rondo
from conftest import slow_model
plan, runtime = rondo.compile(slow_model()), rondo.Runtime("host", threads=1)
session = rondo.Session(plan, runtime)
def done(*_): pass
session._start({{"x": numpy.zeros((512, 512), numpy.float32)}}, done, None, None, None)
{end}
""")


def test_a_runtime_whose_last_session_ends_in_a_completion():
    run_program("""
import gc, time, numpy, rondo
from conftest import slow_model
session = rondo.Session(rondo.compile(slow_model(20)), rondo.Runtime("host", threads=1))
ended = []
session._start({"x": numpy.zeros((512, 512), numpy.float32)}, lambda *result: ended.append(result), None, None, None)
del session
gc.collect()
while not ended: time.sleep(0.01)
assert ended[0][1] is None, ended
time.sleep(0.2)
""")


def test_a_child_of_fork_is_refused_and_ends():
    run_program("""
import os, numpy, rondo
from conftest import affine_model
session = rondo.Session(rondo.compile(affine_model()))
child = os.fork()
if child == 0:
    try:
        session.run({"x": numpy.ones(4, numpy.float32)})
    except rondo.FailedPrecondition as error:
        assert "fork" in str(error)
        del session
        os._exit(7)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert session.run({"x": numpy.ones(4, numpy.float32)})["y"].tolist() == [2] * 4
""")


def test_control_c_ends_a_compilation():
    program = subprocess.Popen([sys.executable, "-c", """
import rondo
from conftest import slow_model
print("ready", flush=True)
while True: rondo.compile(slow_model(50))
"""], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=os.path.dirname(os.path.abspath(__file__)))
    program.stdout.readline()
    time.sleep(0.3)
    program.send_signal(signal.SIGINT)
    _, said = program.communicate(timeout=60)
    assert "KeyboardInterrupt" in said and program.returncode != 0
