"""Sessions run at the same time, each on its own thread, while Python's other threads run."""
import threading
import time

import numpy
import pytest

import rondo


def test_ten_thousand_runs_of_four_threads(affine_plan, runtime):
    wrong = []

    def run(number):
        try:
            with rondo.Session(affine_plan, runtime) as session:
                for i in range(2500):
                    value = number * 10000 + i
                    y = session.run({"x": numpy.full(4, value, numpy.float32)})["y"]
                    if y.tolist() != [2 * value] * 4:
                        wrong.append((value, y))
        except BaseException as error:
            wrong.append(error)
    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_one_session_that_threads_share_refuses_and_never_mixes(summing):
    refused = [0] * 4
    x = numpy.ones((2, 3), numpy.float32)

    def run(number):
        for _ in range(500):
            try:
                summing.run({"x": x})
            except rondo.FailedPrecondition:
                refused[number] += 1
    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert summing.read_state("total").tolist() == [[2000 - sum(refused)] * 3] * 2


def test_other_threads_go_on_during_a_run(slow, slow_inputs):
    ticks, over = [], threading.Event()

    def tick():
        while not over.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)
    thread = threading.Thread(target=tick)
    thread.start()
    began = time.monotonic()
    with pytest.raises(rondo.DeadlineExceeded):
        slow.run(slow_inputs, timeout=0.5)
    ended = time.monotonic()
    over.set()
    thread.join()
    assert sum(began < at < ended for at in ticks) > 20
