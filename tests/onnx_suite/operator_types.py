#!/usr/bin/env python3
"""The element types in which ai.onnx's operators compile and run: the standard's own cases of an operator, in each type that it allows.

  operator_types.py RONDO                     compares with the table that `rondo ops` prints (tools/rondo/operator_types.inc)
  operator_types.py RONDO --write             writes the table
  operator_types.py RONDO --only Add Conv     those operators alone
  operator_types.py RONDO --column cuda --driver cuda
                                     the column for GPUs; anything behind the known options goes to `rondo test`

In a case of one node, other types replace that of its first input. It must compile and run, and give the results of ONNX's reference
evaluator, if that has the type. Exit status: 0, 1 (it differs from the table, or a result is wrong), 77 (no `onnx` package).
"""
import argparse
import concurrent.futures
import importlib.util
import multiprocessing
import os
import pathlib
import re
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TABLE = HERE.parents[1] / "tools/rondo/operator_types.inc"
# {ONNX's name: Rondo's}, in Rondo's order.
TYPES = {"FLOAT": "f32", "FLOAT16": "f16", "BFLOAT16": "bf16", "DOUBLE": "f64", "INT64": "i64", "INT32": "i32", "INT16": "i16", "INT8": "i8",
         "UINT8": "u8", "UINT16": "u16", "UINT32": "u32", "UINT64": "u64", "BOOL": "bool", "FLOAT8E4M3FN": "e4m3", "FLOAT8E5M2": "e5m2"}
A_PROCESS = 10
ROUGHLY = ["--rtol", "0.02", "--atol", "0.02"]  # loose: this tests types; suite.py tests rounding


def kinds(schema, node, names, formal):
    """The schema's type name for each input or output of a node."""
    found = {}
    for i, name in enumerate(names):
        port = formal[min(i, len(formal) - 1)] if formal else None
        if name and port is not None:
            found[name] = port.type_str
    return found


def convert(array, to):
    """Numbers of the type, close to those of `array`."""
    import numpy as np
    if array.dtype == to:
        return array
    if to == np.bool_:
        return array > 0
    wide = array.astype(np.float64)
    if np.issubdtype(to, np.integer):
        wide = np.clip(np.nan_to_num(np.round(wide if np.issubdtype(array.dtype, np.integer) else wide * 4)), np.iinfo(to).min, 100)
    return wide.astype(to)


def variants(case, schema):
    """Yields (type, model, inputs, outputs, whether the outputs are right) for a case of one node in each type that the schema allows for its first input."""
    import numpy as np
    import onnx
    from onnx import helper, numpy_helper
    node = case.model.graph.node[0]
    if not schema.inputs or not case.data_sets or not node.input:
        return
    kind = {**kinds(schema, node, node.output, schema.outputs), **kinds(schema, node, node.input, schema.inputs)}
    chosen = kind.get(node.input[0])
    allowed = {f"tensor({name.lower()})": name for name in TYPES}
    constraint = next((c.allowed_type_strs for c in schema.type_constraints if c.type_param_str == chosen), [chosen])
    for text in constraint:
        if text not in allowed:
            continue
        name = allowed[text]
        number = onnx.TensorProto.DataType.Value(name)
        to = helper.tensor_dtype_to_np_dtype(number)
        model = onnx.ModelProto()
        model.CopyFrom(case.model)
        changed = False
        for port in [*model.graph.input, *model.graph.output]:
            if kind.get(port.name) == chosen and port.type.HasField("tensor_type"):
                changed |= port.type.tensor_type.elem_type != number
                port.type.tensor_type.elem_type = number
        (given, expected), right = case.data_sets[0], True
        if not all(isinstance(x, np.ndarray) and x.dtype.kind not in "OSU" for x in [*given, *expected]):
            return
        if changed:
            given = [convert(x, to) if kind.get(port.name) == chosen else x for x, port in zip(given, model.graph.input)]
            try:
                onnx.checker.check_model(model, full_check=True)
                from onnx.reference import ReferenceEvaluator
                expected = ReferenceEvaluator(model).run(None, {port.name: x for x, port in zip(given, model.graph.input)})
                expected = [np.asarray(x) for x in expected]
            except Exception:  # the evaluator lacks the type, or the node is not valid in it
                right = False
            wanted = [helper.tensor_dtype_to_np_dtype(port.type.tensor_type.elem_type) for port in model.graph.output]
            right = right and all(x.dtype == to for x, to in zip(expected, wanted))
            expected = [convert(x, to) for x, to in zip(expected, wanted)]
        yield TYPES[name], model, given, expected, right


def write(folder, model, given, expected):
    from onnx import numpy_helper
    at = folder / "test_data_set_0"
    at.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    for kind, ports, values in (("input", model.graph.input, given), ("output", model.graph.output, expected)):
        for i, value in enumerate(values):
            (at / f"{kind}_{i}.pb").write_bytes(numpy_helper.from_array(value, ports[i].name).SerializeToString())


def write_operator(folder, domain, operator, own, most):
    """{(domain, operator, type): {folder of a case: whether its outputs are right}}, smallest cases first."""
    import onnx
    cases = {}
    for case in sorted(own, key=lambda c: sum(getattr(x, "nbytes", 0) for x in c.data_sets[0][0]) if c.data_sets else 0):
        version = next((o.version for o in case.model.opset_import if o.domain == domain), 1)
        try:
            schema = onnx.defs.get_schema(operator, version, domain)
        except onnx.defs.SchemaError:
            continue
        if schema.deprecated:
            continue
        for kind, model, given, expected, right in variants(case, schema):
            folders = cases.setdefault((domain, operator, kind), {})
            if len(folders) == most:
                continue
            at = folder / f"{operator}-{kind}-{len(folders)}"
            write(at, model, given, expected)
            folders[str(at)] = right
    return cases


def write_all(folder, only, most, jobs):
    """The same for all operators, in `jobs` processes, because ONNX's reference evaluator is slow."""
    from onnx.backend.test.case.node import collect_testcases
    by_operator = {}
    for case in collect_testcases(None):
        if case.model is None or len(case.model.graph.node) != 1:
            continue
        node = case.model.graph.node[0]
        if not only or node.op_type in only:
            by_operator.setdefault((node.domain, node.op_type), []).append(case)
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        parts = pool.starmap(write_operator, [(folder, *key, own, most) for key, own in sorted(by_operator.items())], chunksize=1)
    return {key: folders for part in parts for key, folders in part.items()}


def read_table():
    """{(domain, operator): {column: types}}"""
    rows = {}
    for line in TABLE.read_text().splitlines() if TABLE.exists() else []:
        found = re.fullmatch(r'\{"(.*)", "(.*)", "(.*)", "(.*)"\},', line)
        if found:
            rows[found[1], found[2]] = {"host": found[3].split(), "cuda": found[4].split()}
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rondo", help="the command")
    parser.add_argument("--only", nargs="*", default=[], help="operators")
    parser.add_argument("--write", action="store_true", help="write the table")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--cases", type=int, default=3, help="of an operator in each type; one that passes is enough")
    parser.add_argument("--seconds", type=int, default=900, help=f"for one process, which has {A_PROCESS} cases")
    parser.add_argument("--column", choices=("host", "cuda"), default="host", help="of the table")
    arguments, options = parser.parse_known_args()
    if importlib.util.find_spec("onnx") is None:
        print("skipped: the onnx package is not installed (tools/setup --venv)")
        return 77
    sys.path.insert(0, str(HERE))
    from suite import run
    with tempfile.TemporaryDirectory() as temporary:
        cases = write_all(pathlib.Path(temporary), arguments.only, arguments.cases, arguments.jobs)
        folders = [folder for own in cases.values() for folder in own]
        said = {}
        parts = [folders[i:i + A_PROCESS] for i in range(0, len(folders), A_PROCESS)]
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            for part in pool.map(lambda part: run(arguments.rondo, ROUGHLY + options, arguments.seconds, part), parts):
                said.update(part)
    found, wrong = {}, []
    for (domain, operator, kind), own in cases.items():
        runs = [folder for folder, right in own.items() if said[folder][0] or (not right and " differ, most at " in said[folder][1])]
        if runs:
            found.setdefault((domain, operator), []).append(kind)
        wrong += [(operator, kind, said[folder][1]) for folder in own if folder not in runs]
    for one in wrong:
        print("  ".join(one))
    rows, order = read_table(), list(TYPES.values())
    differ = 0
    for key in sorted({key[:2] for key in cases}):
        types = sorted(found.get(key, []), key=order.index)
        row = rows.setdefault(key, {"host": [], "cuda": []})
        if row[arguments.column] != types:
            differ += 1
            print(f"{key[1]}: {' '.join(types)}; the table says {' '.join(row[arguments.column])}")
        row[arguments.column] = types
    if arguments.write:
        lines = [f'{{"{d}", "{o}", "{" ".join(row["host"])}", "{" ".join(row["cuda"])}"}},' for (d, o), row in sorted(rows.items())]
        TABLE.write_text("// Written by tests/onnx_suite/operator_types.py: domain, operator, types on the host, types on GPUs.\n" + "\n".join(lines) + "\n")
        return 0
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
