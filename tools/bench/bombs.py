#!/usr/bin/env python3
"""Small model files that demand much work: checks that `rondo compile` compiles or refuses each within 5 s and 1 GB.

Makes ONNX models below 1 MB (without any package) that become far larger by unrolling, folding, concatenation or search.
Compiles each, and prints a table: bytes of the file, seconds (user and system) and peak memory of the compile, and its
outcome. Exit status 1 if a model exceeds the limits, crashes the compiler, or is refused with more than one line.

  tools/bench/bombs.py                           all
  tools/bench/bombs.py functions_ loops_         those whose names begin with one of these
  tools/bench/bombs.py --make FOLDER             only write the files
"""
import argparse
import os
import pathlib
import resource
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from bomb_models import BOMBS  # noqa: E402
from compile_scale import ROOT  # noqa: E402

LIMIT_SECONDS, LIMIT_MEGABYTES = 5, 1000


def compile_within(rondo, path, seconds):
    """Returns seconds, peak MiB and the outcome."""
    errors = tempfile.TemporaryFile()
    pid = os.fork()
    if pid == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 2))
        resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(errors.fileno(), 2)
        os.execv(rondo, [rondo, "compile", str(path), "-o", str(path) + ".rondo", "--shape", "N=2"]
                 if b"N" in path.name.encode() else [rondo, "compile", str(path), "-o", str(path) + ".rondo"])
    _, status, usage = os.wait4(pid, 0)
    errors.seek(0)
    said = errors.read().decode(errors="replace").strip()
    if os.WIFSIGNALED(status):
        what = f"ended by signal {os.WTERMSIG(status)}"
    elif os.WEXITSTATUS(status) == 0:
        what = "compiled"
    elif said.count("\n") > 0:
        what = f"refused in {said.count(chr(10)) + 1} lines: {said}"
    else:
        what = "refused: " + said
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, what


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="beginnings of names; none: all")
    parser.add_argument("--make", metavar="FOLDER", help="write the files there, and compile nothing")
    parser.add_argument("--rondo", default=str(ROOT / "build/release/bin/rondo"))
    parser.add_argument("--seconds", type=int, default=20, help="CPU seconds after which a compile is ended")
    arguments = parser.parse_args()
    failed = 0
    print("| bomb | file, bytes | seconds | peak MB | outcome |\n|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, make in BOMBS.items():
            if arguments.names and not name.startswith(tuple(arguments.names)):
                continue
            path = pathlib.Path(arguments.make or folder) / f"{name}.onnx"
            path.write_bytes(make())
            size = path.stat().st_size
            if arguments.make:
                continue
            seconds, megabytes, what = compile_within(arguments.rondo, path, arguments.seconds)
            within = seconds <= LIMIT_SECONDS and megabytes <= LIMIT_MEGABYTES and what.startswith(("compiled", "refused: "))
            failed += not within
            shown = what.replace(folder, "").replace("|", "\\|")
            print(f"| {name} | {size} | {seconds:.2f} | {megabytes:.0f} | {'' if within else '**'}"
                  f"{shown[:300]}{'' if within else '**'} |", flush=True)
            path.unlink()
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
