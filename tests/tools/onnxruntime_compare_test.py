"""rondo compare --onnxruntime: plans agree with their models, and a changed weight is traced to its node.

    onnxruntime_compare_test.py RONDO FIXTURES
"""
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy
    import onnx
    import onnxruntime  # noqa: F401
except ImportError as missing:
    sys.exit(f"skipped: {sys.executable} has no {missing.name}")

RONDO, FIXTURES = sys.argv[1], pathlib.Path(sys.argv[2])


def run(*words):
    return subprocess.run([RONDO, *map(str, words)], capture_output=True, text=True, check=False)


def compare(model, plan, *words):
    done = run("compare", model, plan, "--onnxruntime", "--json", *words)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def changed(path, to):
    """Returns the model with one weight of a node in the middle doubled, and the values that depend on that node."""
    model = onnx.load(path)
    weights = {weight.name: weight for weight in model.graph.initializer}
    nodes = [node for node in model.graph.node if node.op_type in ("MatMul", "Gemm", "Conv") and set(node.input) & set(weights)]
    node = nodes[len(nodes) // 2]
    name = next(name for name in node.input if name in weights)
    array = onnx.numpy_helper.to_array(weights[name])
    weights[name].CopyFrom(onnx.numpy_helper.from_array(array * numpy.float32(2), name))
    onnx.save(model, to)
    after = set(node.output)
    for other in model.graph.node:  # in topological order
        if set(other.input) & after:
            after |= set(other.output)
    return after


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    plan, other = folder / "model.rondo", folder / "changed.onnx"
    python = ("--python", sys.executable)
    for name in ("bert_ts17", "resnet", "llama_decode_op23"):
        model = FIXTURES / name / "model.onnx"
        compiled = run("compile", model, "-o", plan)
        assert compiled.returncode == 0, compiled.stderr
        status, said = compare(model, plan, *python)
        assert status == 0 and said["agrees"] and said["compared"] >= 15, said
        if name == "bert_ts17":  # a process for each value
            status, bounded = compare(model, plan, *python, "--held", 0)
            assert (status, bounded["compared"]) == (0, said["compared"]) and bounded["runs"] > said["runs"], bounded
        after = changed(model, other)
        status, said = compare(other, plan, *python)
        assert status == 1 and not said["agrees"], said
        assert said["first"]["value"] in after, said["first"]
        wrong = {value["name"] for value in said["values"] if value["differs"]}
        assert wrong and wrong <= after, wrong - after
    # Errors of ONNX Runtime about a model, and of a Python without it.
    (folder / "broken.onnx").write_bytes(b"no model")
    done = run("compare", folder / "broken.onnx", plan, "--onnxruntime", *python)
    assert done.returncode == 1 and "ONNX Runtime does not run" in done.stderr and "Error parsing" in done.stderr, done.stderr
    done = run("compare", model, plan, "--onnxruntime", "--python", "/no/python")
    assert done.returncode == 1 and "/no/python cannot be started" in done.stderr, done.stderr
    done = run("compare", model, plan, "--onnxruntime", "--bisect")
    assert done.returncode == 2, done.stderr
