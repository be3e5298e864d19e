#!/usr/bin/env python3
"""Compiles single operators over a grid of shapes. run_grid.py measures the plans on a machine with a GPU.

  build/venv/bin/python tools/bench/operator_grid/compile_grid.py --out build/grid --library-path /usr/local/cuda/lib64
"""
import argparse
import fnmatch
import pathlib
import subprocess
import sys

import families
import grid_case


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", default=list(families.FAMILIES), help=", ".join(families.FAMILIES))
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder of the plans, one a family")
    parser.add_argument("--rondo", default="build/release/bin/rondo")
    parser.add_argument("--target", default="cuda:sm_90a")
    parser.add_argument("--library-path", help="where libnvrtc is")
    parser.add_argument("--only", nargs="+", default=["*"], help="patterns of names of operators")
    parser.add_argument("--alternatives", type=int, default=0, help="configurations of each kernel to keep, for kernel_times")
    families.add_options(parser)
    arguments = parser.parse_args()
    import onnx
    models = arguments.out / "models"
    models.mkdir(parents=True, exist_ok=True)
    failed = []
    for family in arguments.families:
        named = []
        for case in families.cases(family, arguments):
            if not any(fnmatch.fnmatch(case.name, pattern) for pattern in arguments.only):
                continue
            path = models / f"{case.name}.onnx"
            onnx.save(grid_case.model_of(case), path)
            named.append(f"{case.name}={path}")
        command = [arguments.rondo, "compile", *named, "-o", arguments.out / f"{family}.rondo", "--target",
                   arguments.target, "--synthetic-weights", "1", "--alternatives", str(arguments.alternatives)]
        if arguments.library_path:
            command += ["--library-path", arguments.library_path]
        print(f"{family}: {len(named)} operators", flush=True)
        if subprocess.run(command, stdout=subprocess.DEVNULL).returncode != 0:
            failed.append(family)
    if failed:
        sys.exit(f"compile_grid.py: {', '.join(failed)}: the plan was not compiled")


main()
