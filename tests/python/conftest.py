"""Shared by the tests: small models, written without any package, and their plans, which are each compiled once."""
import os
import pathlib
import sys

import numpy
import pytest

import rondo

SOURCE = pathlib.Path(os.environ.get("RONDO_SOURCE", pathlib.Path(__file__).parents[2]))
DATA = SOURCE / "tests/data"
sys.path.insert(0, str(SOURCE / "tools/bench"))
import onnx_bytes  # noqa: E402

BF16 = 16


def affine_model(dims=(4,), kind=onnx_bytes.FLOAT):
    """y = x + x in the type `kind`."""
    graph = onnx_bytes.Graph()
    graph.input("x", list(dims), kind)
    graph.node("Add", ["x", "x"], ["y"], name="double")
    graph.output("y")
    return onnx_bytes.model(graph)


def sum_model():
    """A state: total_out = total + x, y = 2 total_out."""
    graph = onnx_bytes.Graph()
    graph.input("x", [2, 3])
    graph.input("total", [2, 3])
    graph.node("Add", ["total", "x"], ["total_out"], name="accumulate")
    graph.node("Add", ["total_out", "total_out"], ["y"], name="double")
    graph.output("y")
    graph.output("total_out")
    return onnx_bytes.model(graph)


def rows_model():
    """y = rows of a table, chosen by integers."""
    graph = onnx_bytes.Graph()
    graph.input("i", [3], onnx_bytes.INT64)
    graph.floats("table", [4, 2], list(range(8)))
    graph.node("Gather", ["table", "i"], ["y"], name="look_up", axis=0)
    graph.output("y")
    return onnx_bytes.model(graph)


def slow_model(steps=600):
    """A run of many steps that takes seconds, for tests that cancel it."""
    graph = onnx_bytes.Graph()
    graph.input("x", [512, 512])
    at = "x"
    for step in range(steps):
        at = graph.node("MatMul", [at, "x"], [f"v{step}"], name=f"matmul{step}")
    graph.node("Relu", [at], ["y"])
    graph.output("y")
    return onnx_bytes.model(graph)


@pytest.fixture(scope="session")
def runtime():
    return rondo.Runtime("host", threads=1, async_workers=2)


@pytest.fixture(scope="session")
def affine_plan():
    return rondo.compile(affine_model())


@pytest.fixture(scope="session")
def sum_plan():
    return rondo.compile(sum_model(), states={"total": "total_out"})


@pytest.fixture(scope="session")
def slow_plan():
    return rondo.compile(slow_model())


@pytest.fixture(scope="session")
def pycoder():
    return rondo.compile({"prefill": DATA / "pycoder/prefill64.onnx", "decode": DATA / "pycoder/decode.onnx"})


@pytest.fixture
def affine(affine_plan, runtime):
    with rondo.Session(affine_plan, runtime) as session:
        yield session


@pytest.fixture
def summing(sum_plan, runtime):
    with rondo.Session(sum_plan, runtime) as session:
        yield session


@pytest.fixture
def slow(slow_plan, runtime):
    with rondo.Session(slow_plan, runtime) as session:
        yield session


@pytest.fixture
def slow_inputs():
    return {"x": numpy.zeros((512, 512), numpy.float32)}


def aligned(shape, dtype=numpy.float32):
    """An array at an address that suits every plan, a multiple of 256."""
    size = int(numpy.prod(shape)) * numpy.dtype(dtype).itemsize
    block = numpy.zeros(size + 256, numpy.uint8)
    first = -block.ctypes.data % 256
    return block[first:first + size].view(dtype).reshape(shape)


def address(array):
    return array.__array_interface__["data"][0]
