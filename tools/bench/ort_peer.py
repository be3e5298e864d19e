"""What the benchmarks against ONNX Runtime's CPU provider share."""
import os
import pathlib
import platform
import subprocess
import sys

import onnxruntime as ort

ROOT = pathlib.Path(__file__).resolve().parents[2]


def cpu_session(model, threads, entries=None, optimised=True):
    """`model` on the CPU provider, with `threads` threads in an operator and one operator at a time. `entries`: more of ONNX
    Runtime's configuration. Not `optimised`: each operator by itself, as its definition says."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    level = ort.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimised else level.ORT_DISABLE_ALL
    options.log_severity_level = 3
    for key, value in (entries or {}).items():
        options.add_session_config_entry(key, value)
    return ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def compare_tokens(names, compare):
    """A row of a table for each model: what compare(name) gives, of which the first is how many tokens are not ONNX Runtime's.
    What went wrong, a line each; None if nothing did."""
    bad = []
    for name in names:
        try:
            cells = compare(name)
        except RuntimeError as error:
            bad.append(f"{name}: {error}")
            cells = ("failed",)
        else:
            if cells[0] > 0:
                bad.append(f"{name}: {cells[0]} tokens are not ONNX Runtime's")
        print(f"| {name} | {' | '.join(map(str, cells))} |", flush=True)
    return "\n".join(bad) or None


class Program:
    """A program that answers each line that it is told with a line of whole numbers."""

    def __init__(self, *command):
        self.name = pathlib.Path(command[0]).name
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask(self, line, count):
        self.tell(line)
        numbers = [int(word) for word in self.process.stdout.readline().split()]
        if len(numbers) != count:
            sys.exit(f"{self.name} ended early")
        return numbers

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def compile_plan(binaries, model, plan):
    """`model` (FILE, or PROGRAM=FILE) as `plan`, by the rondo command of `binaries`."""
    plan.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([str(binaries / "rondo"), "compile", str(model), "-o", str(plan)], check=True,
                   stdout=subprocess.DEVNULL)


def describe(threads):
    """The machine, ONNX Runtime's version and `threads`, in words."""
    model = platform.processor()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    except OSError:
        pass
    return f"{model}, {os.cpu_count()} logical cores; ONNX Runtime {ort.__version__}; {threads} thread(s) each"
