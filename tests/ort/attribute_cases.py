#!/usr/bin/env python3
"""Writes tests/data/attributes: small models that set every attribute which a handler of compiler/import reads to a value other
than its default. The expected values are those of ONNX's reference evaluator (ai.onnx: operator_cases/reference.py, older.py and rarer.py) or, for operators
that it does not know, of ONNX Runtime (drawn by the other modules of operator_cases/: as few cases as read all attributes).

A case is one file: inputs have initializers of their names, and the initializers expect/NAME hold the expected outputs. The
property "refused" is part of the sentence with which Rondo refuses the model.

  build/venv/bin/python tests/ort/attribute_cases.py              # needs build/release/bin/evaluate_cases
"""
import argparse
import collections
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

sys.path.append(str(pathlib.Path(__file__).resolve().parent / "cases"))
import operator_cases
from operator_cases import older, rarer, reference, remaining
from peer import ROOT, cpu_session
from suites.operators import run


def model_of(case, outputs=None):
    """The case's model with its inputs as initializers and, if given, the expected outputs."""
    ports = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
             for name, array in case.inputs.items()]
    kinds = dict(case.outputs)
    data = list(case.constants)
    if outputs is not None:
        kinds.update({name: helper.np_dtype_to_tensor_dtype(np.asarray(array).dtype) for name, array in outputs.items()})
        data += [numpy_helper.from_array(array, name) for name, array in case.inputs.items()]
        data += [numpy_helper.from_array(np.asarray(array), f"expect/{name}") for name, array in outputs.items()]
    made = [helper.make_tensor_value_info(name, kind, None) if kind else onnx.ValueInfoProto(name=name) for name, kind in kinds.items()]
    rarer_domains = sorted({node.domain for node in case.nodes} & {"ai.onnx.ml", "ai.onnx.preview"})
    model = helper.make_model(helper.make_graph(case.nodes, "case", ports, made, data), ir_version=10,
                              opset_imports=[helper.make_opsetid("", case.opset), helper.make_opsetid("com.microsoft", 1), helper.make_opsetid("trt", 1),
                                             *(helper.make_opsetid(domain, 4 if domain == "ai.onnx.ml" else 1) for domain in rarer_domains)])
    refused = {"refused": case.refused} if getattr(case, "refused", None) else {}
    helper.set_model_props(model, {"rtol": f"{case.tolerance[0]:g}", "atol": f"{case.tolerance[1]:g}", **refused})
    return model


def by_reference(name, case):
    """The reference evaluator's values; ONNX Runtime's if the evaluator lacks the operator or deviates from the specification (clip,
    activations and layout of recurrent operators; axis in opset 11)."""
    said, asked = {}, case.oracle or case
    for runtime, make in (("the reference evaluator", lambda: ReferenceEvaluator(model_of(asked)).run(None, asked.inputs)),
                          ("ONNX Runtime", lambda: cpu_session(model_of(asked).SerializeToString(), optimised=False).run(None, asked.inputs))):
        try:
            said[runtime] = dict(zip(case.outputs, make()))
        except Exception as error:  # pylint: disable=broad-except
            print(f"{name}: {runtime}: {type(error).__name__}: {str(error)[:160]}", file=sys.stderr)
    if len(said) == 2:
        ours, theirs = said.values()
        for output, array in ours.items():
            if np.shape(array) != np.shape(theirs[output]) or not np.allclose(array, theirs[output], 1e-3, 1e-5, equal_nan=True):
                print(f"{name}: {output}: they differ, ONNX Runtime's is taken", file=sys.stderr)
                ours[output] = theirs[output]
    return next(iter(said.values()), None)


def reads_of(files):
    """{file: what its handlers read}, as (domain, operator, attribute, kind, is_other, line)."""
    said = subprocess.run([ROOT / "build/release/bin/evaluate_cases", "--attributes", *files], capture_output=True, text=True, check=False)
    reads = collections.defaultdict(set)
    for line in said.stdout.splitlines():
        parts = line.split("\t")
        if len(parts) == 7:
            reads[parts[0]].add(tuple(parts[1:]))
        elif line.startswith(("REFUSED", "FAILED")):
            print(line, file=sys.stderr)
    return reads


def drawn(name, count, folder):
    """Draws `count` cases of an operator. Returns the files of cases that together read everything that any case reads, small ones first."""
    paths = []
    for number in range(count):
        case = operator_cases.ALL[name](operator_cases.Draw(1, number, name))
        try:
            outputs = dict(zip(case.outputs, run(case.oracle or case)))
        except Exception:  # pylint: disable=broad-except
            continue
        path = folder / f"{name}_{number}.onnx"
        onnx.save(model_of(case, outputs), path)
        paths.append(str(path))
    reads, seen, kept = reads_of(paths), set(), []
    for path in sorted(paths, key=lambda p: pathlib.Path(p).stat().st_size):
        if reads[path] - seen:
            seen |= reads[path]
            kept.append(path)
    for path in reversed(list(kept)):
        if reads[path] <= set().union(*(reads[other] for other in kept if other != path)):
            kept.remove(path)
    return kept


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operators", nargs="*", help="all, if none is named; ms_NAME: drawn")
    parser.add_argument("--cases", type=int, default=60, help="to draw of each operator of com.microsoft")
    arguments = parser.parse_args()
    out, scratch = ROOT / "tests/data/attributes", ROOT / "build/attributes"
    out.mkdir(parents=True, exist_ok=True)
    made = {**reference.CASES, **remaining.CASES, **older.CASES, **rarer.CASES}
    for name in arguments.operators or [*made, *(f"ms_{name}" for name in operator_cases.ALL)]:
        if name in made:
            case = made[name]()
            outputs = {} if getattr(case, "refused", None) else by_reference(name, case)
            if outputs is None:
                sys.exit(f"{name}: nobody knows what it is")
            onnx.save(model_of(case, outputs), out / f"{name}.onnx")
            continue
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        for number, path in enumerate(drawn(name.removeprefix("ms_"), arguments.cases, scratch)):
            shutil.copy(path, out / f"{re.sub('[ ,]+', '_', name)}_{number}.onnx")


if __name__ == "__main__":
    main()
