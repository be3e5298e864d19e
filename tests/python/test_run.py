"""Runs by name: they give the expected results and refuse wrong inputs."""
import asyncio

import numpy
import pytest

import rondo
from conftest import BF16, DATA, affine_model, aligned, onnx_bytes, rows_model


def case_of(folder, kind):
    """{name: array} of a case's inputs or outputs."""
    onnx = pytest.importorskip("onnx")
    from onnx import numpy_helper
    named = {}
    for path in sorted(folder.glob(f"test_data_set_0/{kind}_*.pb"), key=lambda path: int(path.stem.rpartition("_")[2])):
        tensor = onnx.TensorProto()
        tensor.ParseFromString(path.read_bytes())
        named[tensor.name] = numpy_helper.to_array(tensor)
    return named


@pytest.mark.parametrize("name", ["resnet", "mobilenetv2", "vit_op23"])
def test_a_network_gives_what_pytorch_and_onnxruntime_give(name):
    folder = DATA / "fixtures" / name
    inputs, expected = case_of(folder, "input"), case_of(folder, "output")

    plan = rondo.compile(folder / "model.onnx")
    session = rondo.Session(plan)
    outputs = session.run(inputs)

    assert list(outputs) == list(expected)
    for output in outputs:
        numpy.testing.assert_allclose(outputs[output], expected[output], rtol=1e-3, atol=1e-5)
    onnxruntime = pytest.importorskip("onnxruntime")
    peer = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    for output, value in zip(peer.get_outputs(), peer.run(None, inputs)):
        numpy.testing.assert_allclose(outputs[output.name], value, rtol=1e-3, atol=1e-4)


def test_outputs_are_new_arrays_each_time(affine):
    first = affine.run({"x": numpy.ones(4, numpy.float32)})["y"]
    affine.run({"x": numpy.full(4, 7, numpy.float32)})
    assert first.tolist() == [2, 2, 2, 2]


X = numpy.ones(4, numpy.float32)


class Deviceless:
    def __dlpack__(self, **kwargs):
        raise BufferError

    def __dlpack_device__(self):
        return "nowhere"


@pytest.mark.parametrize("inputs, words", [
    ({}, ['input "x"', "is missing"]),
    ({"x": X, "z": X}, ["no input is called", '"z"']),
    ({"x\0": X}, ['no input "x']),
    ({1: X}, ["int, not a str"]),
    ([X], ["list", "dict"]),
    (None, ["NoneType", "dict"]),
    ({"x": X.astype(numpy.float64)}, ["f32 [4]", "f64"]),
    ({"x": X.astype(numpy.int32)}, ["f32 [4]", "i32"]),
    ({"x": X.astype(numpy.complex64)}, ["complex64"]),
    ({"x": X.astype(">f4")}, ["f4", "byte order"]),
    ({"x": X.astype(object)}, ["object", "DLPack"]),
    ({"x": X.astype("U3")}, ["U3", "DLPack"]),
    ({"x": X.reshape(2, 2)}, ["f32 [4]", "[2, 2]"]),
    ({"x": numpy.ones(0, numpy.float32)}, ["[4]", "[0]"]),
    ({"x": numpy.ones((0, 4), numpy.float32)}, ["[4]", "[0, 4]"]),
    ({"x": numpy.float32(1)}, ["[4]"]),
    ({"x": numpy.ones((1,) * 13, numpy.float32)}, ["13 dimensions", "12"]),
    ({"x": numpy.ones(8, numpy.float32)[::2]}, ["not contiguous", "ascontiguousarray"]),
    ({"x": X[::-1]}, ["not contiguous"]),
    ({"x": [1.0, 2.0, 3.0, 4.0]}, ["is a list", "numpy"]),
    ({"x": None}, ["NoneType"]),
    ({"x": "text"}, ["is a str"]),
    ({"\ud800": X}, ["\\ud800", "UTF-8"]),
    ({"x": Deviceless()}, ["Deviceless", "__dlpack_device__", "nowhere"]),
])
def test_what_does_not_fit_is_refused_with_a_sentence(affine, inputs, words):
    with pytest.raises(rondo.Error) as refused:
        affine.run(inputs)
    assert refused.value.code in (rondo.Code.INVALID_ARGUMENT, rondo.Code.NOT_FOUND)
    for word in words:
        assert word in str(refused.value), str(refused.value)
    assert affine.run({"x": X})["y"].tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize("plan", [None, "model.rondo"])
def test_a_session_is_made_of_a_plan(plan):
    with pytest.raises(TypeError, match=f"plan is a {type(plan).__name__}.*rondo.Plan.load"):
        rondo.Session(plan)


def test_an_index_out_of_bounds_is_an_error_and_the_session_goes_on(runtime):
    session = rondo.Session(rondo.compile(rows_model()), runtime)
    assert session.run({"i": numpy.array([0, 3, 1])})["y"].tolist() == [[0, 1], [6, 7], [2, 3]]
    with pytest.raises(rondo.OutOfRange):
        session.run({"i": numpy.array([0, 4, 1])})
    assert session.run({"i": numpy.array([1, 1, 1])})["y"].tolist() == [[2, 3]] * 3


def test_outputs_can_be_named_or_given(affine, summing):
    x = numpy.ones((2, 3), numpy.float32)
    assert list(summing.run({"x": x})) == ["y"]  # states are left out
    assert sorted(summing.run({"x": x}, outputs=["total_out", "y"])) == ["total_out", "y"]
    assert summing.run({"x": x}, outputs=[]) == {}
    y = numpy.empty(4, numpy.float32)
    outputs = affine.run({"x": X}, outputs={"y": y})
    assert outputs["y"] is y and y.tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize("outputs, words", [
    (["z"], ["no output is called"]),
    ("y", ["str", "list of names"]),
    (7, ["int"]),
    ([7], ["int, not a str"]),
    ({"y": numpy.empty(5, numpy.float32)}, ["float32[5]", "y float32[4]"]),
    ({"y": numpy.empty(4, numpy.float64)}, ["float64[4]"]),
    ({"y": numpy.empty(8, numpy.float32)[::2]}, ["not contiguous"]),
    ({"y": [0.0] * 4}, ["is a list"]),
    ({"y": None}, ["NoneType"]),
])
def test_outputs_that_do_not_fit_are_refused(affine, outputs, words):
    with pytest.raises(rondo.Error) as refused:
        affine.run({"x": X}, outputs=outputs)
    for word in words:
        assert word in str(refused.value), str(refused.value)


def test_an_output_is_not_written_to_what_is_read_only_or_the_input(affine):
    fixed = numpy.zeros(4, numpy.float32)
    fixed.flags.writeable = False
    with pytest.raises(rondo.InvalidArgument, match="(?i)read-?only"):
        affine.run({"x": X}, outputs={"y": fixed})
    x = aligned(4)
    with pytest.raises(rondo.InvalidArgument, match="overlaps"):
        affine.run({"x": x}, outputs={"y": x})
    assert fixed.tolist() == [0] * 4


def test_read_only_inputs_are_read(affine):
    x = X.copy()
    x.flags.writeable = False
    assert affine.run({"x": x})["y"].tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize("kind, dtype", [(onnx_bytes.FLOAT, "float32"), (10, "float16"), (11, "float64"), (onnx_bytes.INT64, "int64"),
                                         (6, "int32"), (BF16, "bfloat16")])
def test_element_types(runtime, kind, dtype):
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    session = rondo.Session(rondo.compile(affine_model(kind=kind)), runtime)
    y = session.run({"x": numpy.array([1, 2, 3, 4], dtype)})["y"]
    assert y.dtype == dtype and y.astype(float).tolist() == [2, 4, 6, 8]


def test_programs_are_chosen_by_name_or_by_exact_shapes(pycoder, runtime):
    session = rondo.Session(pycoder, runtime)
    inputs = {program.name: {name: numpy.zeros(port.shape, port.dtype) for name, port in program.inputs.items() if not port.is_state}
              for program in pycoder.programs.values()}
    for name, given in inputs.items():
        chosen, named = session.run(given), session.run(given, program=name)
        assert {output: array.shape for output, array in chosen.items()} == {output: array.shape for output, array in named.items()}
    with pytest.raises(rondo.InvalidArgument, match="prefill takes .*decode takes"):
        session.run({name: numpy.zeros((3, 3), numpy.int64) for name in inputs["decode"]})
    with pytest.raises(rondo.NotFound, match="decode"):
        session.run(inputs["decode"], program="nothing")
    with pytest.raises(rondo.NotFound, match='"z"'):
        session.run({"z": X})


def test_arrays_of_any_size_take_the_least_bucket(runtime):
    graph = onnx_bytes.Graph()
    graph.input("x", ["batch", "sequence", 2])
    graph.ints("axes", [1])
    graph.node("ReduceMean", ["x", "axes"], ["mean"], name="mean", keepdims=0)
    graph.node("Relu", ["x"], ["y"], name="relu")
    graph.output("y")
    graph.output("mean")
    plan = rondo.compile(onnx_bytes.model(graph), shapes={"batch": [1, 4], "sequence": [4, 16]})
    assert sorted(plan.programs) == [f"main[batch={b},sequence={s}]" for b in (1, 4) for s in (16, 4)]
    session = rondo.Session(plan, runtime)
    for batch, sequence in ((1, 1), (3, 5), (4, 16), (2, 4)):
        x = numpy.random.default_rng(batch).standard_normal((batch, sequence, 2)).astype(numpy.float32)
        outputs = session.run({"x": x}, program="main" if batch == 4 else None)
        assert numpy.array_equal(outputs["y"], numpy.maximum(x, 0))
        assert numpy.allclose(outputs["mean"], x.mean(axis=1), atol=1e-6)
    y = numpy.empty((3, 5, 2), numpy.float32)
    assert session.run({"x": numpy.ones((3, 5, 2), numpy.float32)}, outputs={"y": y})["y"] is y
    x = numpy.ones((2, 3, 2), numpy.float32)
    assert numpy.array_equal(asyncio.run(session.run_async({"x": x}))["y"], x)
    with pytest.raises(rondo.InvalidArgument, match='"batch" is 5; the buckets of "main" are for 1 to 4'):
        session.run({"x": numpy.ones((5, 5, 2), numpy.float32)})


def test_two_programs_that_take_the_same_are_not_guessed(runtime):
    session = rondo.Session(rondo.compile({"a": affine_model(), "b": affine_model()}), runtime)
    with pytest.raises(rondo.InvalidArgument, match='"a" and "b".*program='):
        session.run({"x": X})
    assert session.run({"x": X}, program="b")["y"].tolist() == [2] * 4


def test_states_are_carried_read_written_and_copied(summing, sum_plan, runtime):
    x = numpy.ones((2, 3), numpy.float32)
    summing.run({"x": x})
    assert summing.run({"x": x})["y"].tolist() == [[4] * 3] * 2
    assert list(sum_plan.states) == ["total", "total_out"]
    assert summing.read_state("total").tolist() == [[2] * 3] * 2
    summing.write_state("total", x * 10)
    assert summing.run({"x": x})["y"].tolist() == [[22] * 3] * 2
    with rondo.Session(sum_plan, runtime) as other:
        other.copy_states(summing)
        assert other.read_state("total").tolist() == [[11] * 3] * 2
    summing.reset_state()
    assert summing.run({"x": x})["y"].tolist() == [[2] * 3] * 2
    assert summing.run({"x": x, "total": x * 5})["y"].tolist() == [[12] * 3] * 2
    with pytest.raises(rondo.NotFound, match="total"):
        summing.read_state("cache")
    with pytest.raises(rondo.InvalidArgument, match="float64"):
        summing.write_state("total", numpy.ones((2, 3)))
    with pytest.raises(rondo.InvalidArgument, match=r"\[3, 2\]"):
        summing.write_state("total", x.reshape(3, 2))


def test_a_run_ends_at_its_time_limit(slow, slow_inputs):
    with pytest.raises(rondo.DeadlineExceeded) as ended:
        slow.run(slow_inputs, timeout=0.02)
    assert isinstance(ended.value, TimeoutError)
    for nonsense in (0, -1, float("nan"), "soon"):
        with pytest.raises(rondo.InvalidArgument, match="timeout"):
            slow.run(slow_inputs, timeout=nonsense)


def test_metrics_count(affine_plan):
    runtime = rondo.Runtime("host", threads=1)
    session = rondo.Session(affine_plan, runtime)
    session.run({"x": X})
    with pytest.raises(rondo.InvalidArgument):
        session.run({})
    metrics = runtime.metrics()
    assert (metrics["runs"], metrics["errors"]["invalid_argument"], metrics["sessions"]) == (1, 1, 1)
    assert metrics["run_time"]["count"] == sum(count for _, count in metrics["run_time"]["buckets"]) == 1
    assert "rondo_" in runtime.prometheus() and 'program="main"' in runtime.prometheus()
