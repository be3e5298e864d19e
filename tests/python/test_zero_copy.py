"""Arrays are used in place: their addresses, and the runtime's count of copied bytes."""
import numpy
import pytest

import rondo
from conftest import address, affine_model, aligned


@pytest.fixture
def counted(affine_plan):
    """Returns a session, and a function for the bytes that its runs have copied in and out."""
    runtime = rondo.Runtime("host", threads=1)
    session = rondo.Session(affine_plan, runtime)

    def copied():
        metrics = runtime.metrics()
        return metrics["input_bytes"], metrics["output_bytes"]
    return session, copied


def ones():
    x = aligned(4)
    x[:] = 1
    return x


class Foreign:
    """An array of a framework that numpy does not know and that only has DLPack."""

    def __init__(self, array):
        self.array, self.asked = array, 0

    def __dlpack__(self, **options):
        self.asked += 1
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_nothing_is_copied_in_or_out(counted):
    session, copied = counted
    x, y = aligned(4), aligned(4)
    for value in range(100):
        x[:] = value
        session.run({"x": x}, outputs={"y": y})
        assert y.tolist() == [2 * value] * 4
        assert session.run({"x": x})["y"].tolist() == [2 * value] * 4
    assert copied() == (0, 0)


def test_dlpack_in(counted):
    session, copied = counted
    x, y = Foreign(ones()), Foreign(aligned(4))
    assert session.run({"x": x}, outputs={"y": y})["y"] is y
    assert (x.asked, y.asked) == (1, 1) and y.array.tolist() == [2] * 4 and copied() == (0, 0)


def test_dlpack_out(affine):
    y = affine.run({"x": numpy.ones(4, numpy.float32)})["y"]
    assert y.__dlpack_device__() == (1, 0)
    assert address(numpy.from_dlpack(y)) == address(y)
    assert address(y) % 256 == 0 and y.flags.writeable


def test_torch(counted):
    torch = pytest.importorskip("torch")
    session, copied = counted
    x, y = torch.from_numpy(ones()), torch.from_numpy(aligned(4))
    before = y.data_ptr()
    assert session.run({"x": x}, outputs={"y": y})["y"] is y
    assert y.data_ptr() == before and y.tolist() == [2] * 4 and copied() == (0, 0)
    result = session.run({"x": x})["y"]
    assert torch.from_dlpack(result).data_ptr() == address(result)


def test_jax(affine):
    jax = pytest.importorskip("jax")
    assert affine.run({"x": jax.numpy.ones(4)})["y"].tolist() == [2] * 4


def test_an_input_that_is_given_away_is_still_the_callers(runtime):
    plan = rondo.compile(affine_model(), donate=["x"])
    session = rondo.Session(plan, runtime)
    x = ones()
    x.flags.writeable = False
    assert session.run({"x": x})["y"].tolist() == [2] * 4
    assert x.tolist() == [1] * 4
