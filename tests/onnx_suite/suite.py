#!/usr/bin/env python3
"""Runs the test suite of the `onnx` package (node, simple and converted cases) with `rondo test` and compares with a table.

The table (failing.txt) names each case that fails, under its reason. A case fails the run if it fails and is not listed,
or passes and is listed. Exit status: 0, 1 (it differs from the table), 77 (the `onnx` package is not there, or is of
another version than the table).

    suite.py RONDO                    all cases
    suite.py RONDO --only softmax     cases whose names contain "softmax"
    suite.py RONDO --keep DIR         cases are written to DIR and stay there
    suite.py RONDO --driver cuda      anything behind the known options goes to `rondo test`
"""
import argparse
import collections
import concurrent.futures
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
A_PROCESS = 25  # cases in one process


def read_table(path):
    """Reads ({case: reason}, version of the onnx package). A line without indentation is the reason for the cases after it."""
    reasons, version, reason = {}, "", ""
    for line in path.read_text().splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if line.startswith("onnx "):
            version = line.split()[1]
        elif line[0] != " ":
            reason = line.strip().rstrip(":")
        else:
            for case in line.split():
                if case in reasons:
                    sys.exit(f"{path}: {case} is listed twice")
                reasons[case] = reason
    return reasons, version


def write_case(case, folder):
    """Writes a case as files, like the package's own generator."""
    from onnx import TensorProto, numpy_helper

    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    graph = case.model.graph
    for number, data in enumerate(case.data_sets):
        at = folder / f"test_data_set_{number}"
        at.mkdir()
        for kind, ports, values in (("input", graph.input, data[0]), ("output", graph.output, data[1])):
            for i, value in enumerate(values):
                kind_of_type = ports[i].type.WhichOneof("value")
                if kind_of_type == "map_type":
                    proto = numpy_helper.from_dict(value, ports[i].name)
                elif kind_of_type == "sequence_type":
                    proto = numpy_helper.from_list(value, ports[i].name)
                elif kind_of_type == "optional_type":
                    proto = numpy_helper.from_optional(value, ports[i].name)
                elif isinstance(value, TensorProto):
                    proto = value
                else:
                    proto = numpy_helper.from_array(value, ports[i].name)
                (at / f"{kind}_{i}.pb").write_bytes(proto.SerializeToString())


def write_cases(folder, only):
    """Names of the cases. Their folders have the same names, under `folder` or under the package's data."""
    import onnx.backend.test
    from onnx.backend.test.case import node
    from onnx.backend.test.case.model import collect_testcases

    cases = {}
    for case in [*node.collect_testcases(None), *collect_testcases()]:
        if case.model is None or only not in case.name:
            continue
        if not (folder / case.name).exists():
            write_case(case, folder / case.name)
        cases[case.name] = folder / case.name
    data = pathlib.Path(onnx.backend.test.__file__).parent / "data"
    for kind in ("pytorch-converted", "pytorch-operator"):
        for case in sorted((data / kind).iterdir()):
            if only in case.name:
                cases[case.name] = case
    return cases


def run(rondo, options, seconds, folders):
    """Runs a few cases and returns {folder: (passed, message)}. If one ends the process or takes too long, each runs alone."""
    command = [rondo, "test", "--json", "--threads", "1", *options, *folders]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
        said = {}
        for case in json.loads(done.stdout).get("cases", []):
            folder = next(f for f in folders if case["case"] == f or case["case"].startswith(f + "/"))
            before = said.get(folder, (True, ""))
            passed = case["verdict"] == "PASS"
            said[folder] = (before[0] and passed, before[1] if passed else case["detail"])
        if len(said) == len(folders):
            return said
        problem = done.stderr.strip()
    except subprocess.TimeoutExpired:
        problem = f"no end after {seconds} s"
    except json.JSONDecodeError:
        problem = f"the command ended with status {done.returncode}: {done.stderr.strip()[-300:]}"
    if len(folders) == 1:
        return {folders[0]: (False, problem)}
    return {folder: run(rondo, options, seconds, [folder])[folder] for folder in folders}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rondo", help="the command")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--keep", help="folder for the cases")
    parser.add_argument("--said", help="file for what each failing case says, as JSON")
    parser.add_argument("--seconds", type=int, default=300, help=f"for one process, which has {A_PROCESS} cases")
    arguments, options = parser.parse_known_args()
    if importlib.util.find_spec("onnx") is None:
        print("skipped: the onnx package is not installed (tools/setup --venv)")
        return 77
    import onnx

    listed, version = read_table(HERE / "failing.txt")
    if onnx.__version__ != version:
        print(f"skipped: onnx {onnx.__version__} is installed and failing.txt is for {version}")
        return 77

    with tempfile.TemporaryDirectory() as temporary:
        cases = write_cases(pathlib.Path(arguments.keep or temporary), arguments.only)
        folders = [str(folder) for folder in cases.values()]
        parts = [folders[i:i + A_PROCESS] for i in range(0, len(folders), A_PROCESS)]
        said = {}
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for part in pool.map(lambda part: run(arguments.rondo, options, arguments.seconds, part), parts):
                said.update(part)

    failing = {name: said[str(folder)][1] for name, folder in cases.items() if not said[str(folder)][0]}
    if arguments.said:
        pathlib.Path(arguments.said).write_text(json.dumps(failing, indent=1))
    for reason, count in collections.Counter(listed[name] for name in failing if name in listed).most_common():
        print(f"{count:5} fail: {reason}")
    broken = {name: what for name, what in failing.items() if name not in listed}
    better = [name for name in listed if arguments.only in name and name not in failing]
    for name, what in broken.items():
        print(f"FAIL {name}: {what}")
    for name in better:
        print(f"LISTED {name}: " + ("it passes: take it out of failing.txt" if name in cases else "there is no such case"))
    print(f"{len(cases) - len(failing)} of {len(cases)} cases passed; {len(broken)} failed that are not listed, "
          f"{len(better)} are listed and did not fail")
    return 1 if broken or better else 0


if __name__ == "__main__":
    sys.exit(main())
