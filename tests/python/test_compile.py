"""Compiling: every form of a model, options, progress, files."""
import json
import pathlib
import threading
import typing

import numpy
import pytest

import rondo
from conftest import DATA, affine_model, onnx_bytes, rows_model, slow_model


def open_model():
    """y = x + x for any number of rows."""
    graph = onnx_bytes.Graph()
    graph.inputs.append(onnx_bytes.field(1, "x") + onnx_bytes.field(2, onnx_bytes.field(1, onnx_bytes.number(1, 1) + onnx_bytes.field(
        2, onnx_bytes.field(1, onnx_bytes.field(2, "rows")) + onnx_bytes.field(1, onnx_bytes.number(1, 3))))))
    graph.node("Add", ["x", "x"], ["y"])
    graph.output("y")
    return onnx_bytes.model(graph)


def test_a_path_bytes_and_a_proto_give_the_same_plan(tmp_path):
    path = tmp_path / "affine.onnx"
    path.write_bytes(affine_model())
    plans = [rondo.compile(path), rondo.compile(str(path)), rondo.compile(affine_model())]
    onnx = pytest.importorskip("onnx")
    plans.append(rondo.compile(onnx.load_model_from_string(affine_model())))
    for number, plan in enumerate(plans):
        plan.save(tmp_path / f"{number}.rondo")
    assert len({(tmp_path / f"{number}.rondo").read_bytes() for number in range(4)}) == 1


def test_a_plan_is_saved_loaded_and_inspected(tmp_path, affine_plan, runtime):
    affine_plan.save(tmp_path / "a.rondo")
    loaded = rondo.Plan.load(tmp_path / "a.rondo")
    loaded.save(tmp_path / "b.rondo")
    content = (tmp_path / "b.rondo").read_bytes()
    assert content == (tmp_path / "a.rondo").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.rondo", "b.rondo"]
    for plan in (loaded, rondo.Plan.from_bytes(content)):
        assert rondo.Session(plan, runtime).run({"x": numpy.ones(4, numpy.float32)})["y"].tolist() == [2] * 4
        assert plan.inspect() == affine_plan.inspect()
    described = json.loads(json.dumps(affine_plan.inspect()))
    assert described["programs"]["main"]["inputs"]["x"] == {
        "dtype": "float32", "shape": [4], "bytes": 16, "is_state": False, "device": 0}
    assert described["target"] == "host" and described["memory"][0]["arena"] <= described["peak_bytes"]
    port = affine_plan.programs["main"].outputs["y"]
    assert (port.name, port.dtype, port.shape, port.bytes) == ("y", "float32", (4,), 16)
    assert "x float32[4]" in repr(affine_plan)


def test_output_writes_the_file(tmp_path):
    plan = rondo.compile(affine_model(), output=tmp_path / "plan.rondo")
    assert (tmp_path / "plan.rondo").stat().st_size > 0 and plan.target == "host"


def test_files_that_are_no_plans_or_not_there(tmp_path):
    (tmp_path / "text").write_text("no plan")
    with pytest.raises(rondo.Error) as refused:
        rondo.Plan.load(tmp_path / "text")
    assert refused.value.code in (rondo.Code.CORRUPT, rondo.Code.INVALID_ARGUMENT)
    with pytest.raises(rondo.NotFound, match="nowhere"):
        rondo.Plan.load(tmp_path / "nowhere")
    with pytest.raises(rondo.Error):
        rondo.Plan.from_bytes(b"")
    with pytest.raises(rondo.NotFound, match="nowhere"):
        rondo.compile(tmp_path / "nowhere.onnx")
    with pytest.raises(rondo.Io, match="cannot be written: No such file or directory"):
        rondo.compile(affine_model()).save(tmp_path / "no" / "folder")


def test_shapes_of_all_models_and_of_one():
    assert rondo.compile(open_model(), shapes={"x": (5, 3)}).programs["main"].inputs["x"].shape == (5, 3)
    assert rondo.compile(open_model(), shapes={"rows": numpy.int64(2)}).programs["main"].inputs["x"].shape == (2, 3)
    plan = rondo.compile({"one": open_model(), "four": open_model()}, shapes={"one": {"rows": 1}, "four": {"rows": 4}})
    session = rondo.Session(plan)
    for rows in (1, 4):
        assert session.run({"x": numpy.ones((rows, 3), numpy.float32)})["y"].shape == (rows, 3)
    with pytest.raises(rondo.InvalidArgument, match="two.*none of the programs"):
        rondo.compile(open_model(), shapes={"two": {"rows": 1}})


@pytest.mark.parametrize("options, words", [
    ({"target": "tpu"}, ["tpu", "cuda:sm_90a"]),
    ({"precision": "f8"}, ['precision "f8"', "bf16"]),
    ({"quantize_weights": "int3"}, ["int3", "int4"]),
    ({"weights": "both"}, ["both", "gather"]),
    ({"cache_length": "long"}, ["cache_length", "'long'"]),
    ({"shapes": {"z": (1,)}}, ["z"]),
    ({"shapes": {"x": "four"}}, ["'x'", "'four'"]),
    ({"shapes": {"x": [2.5]}}, ["'x'", "[2.5]"]),
    ({"annotations": ["double"]}, ["double"]),
])
def test_options_that_make_no_sense_are_refused(options, words):
    with pytest.raises(rondo.Error) as refused:
        rondo.compile(affine_model(), **options)
    for word in words:
        assert word in str(refused.value), str(refused.value)


def test_models_that_make_no_sense_are_refused():
    for model in (b"no model", 7, None, {"main": [1]}):
        with pytest.raises(rondo.Error):
            rondo.compile(model)
    with pytest.raises(TypeError):
        rondo.compile(affine_model(), no_option=1)
    graph = onnx_bytes.Graph()
    graph.input("x", [4])
    graph.node("NoSuchOperator", ["x"], ["y"], name="culprit")
    graph.output("y")
    with pytest.raises(rondo.Unsupported, match="NoSuchOperator"):
        rondo.compile(onnx_bytes.model(graph))


def test_progress_names_programs_and_passes():
    seen = []
    rondo.compile({"a": affine_model(), "b": rows_model()}, progress=lambda program, name: seen.append((program, name)))
    assert ("a", "import") in seen and ("b", "import") in seen
    assert len(seen) > 20 and any(program == "" for program, _ in seen)


def test_what_progress_raises_ends_the_compilation():
    class Enough(Exception):
        pass

    seen = []

    def progress(program, name):
        seen.append(name)
        if len(seen) == 5:
            raise Enough()
    with pytest.raises(Enough):
        rondo.compile(affine_model(), progress=progress)
    assert len(seen) == 5
    with pytest.raises(TypeError):
        rondo.compile(affine_model(), progress=7)


def test_compilations_run_at_once():
    plans = [None] * 4

    def compile_one(number):
        plans[number] = rondo.compile(slow_model(8 + number))
    threads = [threading.Thread(target=compile_one, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(plan is not None for plan in plans)


def test_a_plan_for_a_gpu_says_what_is_missing_here():
    try:
        plan = rondo.compile(affine_model(), target="cuda:sm_90a", library_path="/usr/local/cuda/lib64")
    except rondo.Unsupported as error:
        pytest.skip(f"no NVRTC: {error}")
    assert plan.target == "cuda:sm_90a"
    try:
        rondo.Runtime("cuda")
    except rondo.Error:
        with pytest.raises(rondo.Error, match="(?i)cuda|nvidia"):
            rondo.Session(plan)


def test_a_model_with_external_data_by_its_path():
    plan = rondo.compile(DATA / "pycoder/decode.onnx")
    assert plan.memory[0]["weights"] > 100000
    with pytest.raises(rondo.Error, match="weights"):
        rondo.compile((DATA / "pycoder/decode.onnx").read_bytes())


def test_stubs_name_only_what_they_import():
    folder = pathlib.Path(rondo.__file__).parent
    assert (folder / "py.typed").exists()
    stub = (folder / "_rondo.pyi").read_text()
    names = {}
    exec("from __future__ import annotations\n" + stub, names)
    for kind in ("Plan", "Port", "Program", "Runtime", "Session"):
        for member in vars(names[kind]).values():
            function = getattr(member, "fget", member)
            if callable(function):
                typing.get_type_hints(function, names)
