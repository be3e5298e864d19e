"""Models with sizes or round counts that depend on data (cases/data_size_models.py): all outputs, in their true shapes.

ONNX Runtime says what the outputs of --draws random inputs are; `rondo test` compiles the model once, runs it on each and compares.

  build/venv/bin/python tests/ort/run data_sizes --draws 100
  build/venv/bin/python tests/ort/run data_sizes --driver cuda        # with a GPU
"""
import json
import shutil
import subprocess

import numpy as np
import onnx
from onnx import numpy_helper

import data_size_models
from peer import ROOT, cpu_session, named

HEADS = ("inputs", "shapes of outputs", "agree")


def declare(parser):
    parser.add_argument("--driver", default="host", help="of Rondo: host, or cuda on a machine with a GPU")
    parser.add_argument("--draws", type=int, default=100)


def cases(arguments):
    return named(arguments, data_size_models.ALL)


def compare(arguments, name):
    case, root = data_size_models.ALL[name], ROOT / "build/data_sizes" / name
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    random = np.random.default_rng(arguments.seed)
    made = case.make(random)
    onnx.save(made, root / "model.onnx")
    session, shapes = cpu_session(made.SerializeToString()), set()
    for i in range(arguments.draws):
        inputs = {key: np.asarray(value) for key, value in case.draw(random).items()}
        outputs = session.run(None, inputs)
        shapes.add(tuple(array.shape for array in outputs))
        data = root / f"test_data_set_{i}"
        data.mkdir()
        arrays = [inputs[port.name] for port in made.graph.input]
        for kind, ports, values in (("input", made.graph.input, arrays), ("output", made.graph.output, outputs)):
            for k, (port, array) in enumerate(zip(ports, values)):
                (data / f"{kind}_{k}.pb").write_bytes(numpy_helper.from_array(np.asarray(array), port.name).SerializeToString())
    # Compiled separately, because `rondo test` may freeze what the compiler must know from the case's data.
    compiled = [arguments.binaries / "rondo", "compile", root / "model.onnx", "-o", root / "model.rondo", *case.options, *arguments.compile.split()]
    alone = subprocess.run(compiled, capture_output=True, text=True)
    if alone.returncode != 0:
        return [str(arguments.draws), str(len(shapes)), "0"], alone.stderr.strip()
    command = [arguments.binaries / "rondo", "test", root, "--json", "--driver", arguments.driver, "--rtol", str(case.tolerance),
               "--atol", str(case.tolerance), *case.options, *arguments.compile.split()]
    done = subprocess.run(command, capture_output=True, text=True)
    said = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    verdicts = said.get("cases", [])
    wrong = [entry for entry in verdicts if entry["verdict"] != "PASS"]
    problem = wrong[0]["case"] + ": " + wrong[0]["detail"] if wrong else done.stderr.strip() if not verdicts else None
    return [str(count) for count in (arguments.draws, len(shapes), len(verdicts) - len(wrong))], problem
