"""Weights replaced in a session: the results are those of a plan with the new weights, and weights that do not fit change nothing."""
import numpy
import onnx_bytes
import pytest

import rondo


def affine(weight, bias):
    graph = onnx_bytes.Graph()
    graph.input("x", [2, 8])
    graph.floats("weight", [8, 4], weight.ravel().tolist())
    graph.floats("bias", [4], bias)
    graph.node("MatMul", ["x", "weight"], ["product"], name="multiply")
    graph.node("Add", ["product", "bias"], ["y"], name="add")
    graph.output("y")
    return onnx_bytes.model(graph)


OLD = numpy.arange(32, dtype=numpy.float32).reshape(8, 4)
NEW = OLD[::-1].copy() * 0.5
X = {"x": numpy.linspace(-1, 1, 16, dtype=numpy.float32).reshape(2, 8)}


@pytest.fixture
def session(runtime):
    with rondo.Session(rondo.compile(affine(OLD, [1, 2, 3, 4]), live_weights=True), runtime) as made:
        yield made


def fresh(weight):
    return rondo.Session(rondo.compile(affine(weight, [1, 2, 3, 4]))).run(X)["y"]


def test_arrays_by_name(session):
    assert (session.run(X)["y"] == fresh(OLD)).all()
    assert session.replace_weights({"weight": NEW}) == 1
    assert (session.run(X)["y"] == fresh(NEW)).all()


def test_a_twin_of_the_model(session, tmp_path):
    twin = tmp_path / "twin.onnx"
    twin.write_bytes(affine(NEW, [1, 2, 3, 4]))
    assert session.replace_weights(twin) == 1  # a bias of four numbers is built into the plan, and is the same
    assert (session.run(X)["y"] == fresh(NEW)).all()
    twin.write_bytes(affine(OLD, [1, 2, 3, 5]))
    with pytest.raises(rondo.InvalidArgument, match=r'"bias" \(read by Add "add"\) is another'):
        session.replace_weights(twin)
    assert (session.run(X)["y"] == fresh(NEW)).all()


@pytest.mark.parametrize("source, says", [
    ({"weight": NEW.T.copy()}, r"\[4, 8\]"),
    ({"weight": NEW.astype(numpy.float64)}, "f64"),
    ({"weigth": NEW}, 'nearest: "weight"'),
    ({"weight": NEW.tolist()}, "list"),
    ({}, "none of its weights"),
    ("missing.onnx", "missing.onnx"),
])
def test_what_does_not_fit(session, source, says):
    with pytest.raises(rondo.Error, match=says):
        session.replace_weights(source)
    assert (session.run(X)["y"] == fresh(OLD)).all()


def test_all_sessions_of_the_plan(session):
    with rondo.Session(session.plan, session.runtime) as other:
        with pytest.raises(rondo.FailedPrecondition, match="2 sessions"):
            session.replace_weights({"weight": NEW})
        session.replace_weights({"weight": NEW}, others=[other])
        assert (other.run(X)["y"] == fresh(NEW)).all()


def test_a_plan_without_live_weights(runtime):
    with rondo.Session(rondo.compile(affine(OLD, [1, 2, 3, 4])), runtime) as closed:
        with pytest.raises(rondo.FailedPrecondition, match="live-weights"):
            closed.replace_weights({"weight": NEW})
