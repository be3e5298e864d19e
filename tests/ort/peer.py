"""Shared by the suites: ONNX Runtime's sessions, the rondo command, and distances between arrays."""
import importlib
import json
import os
import pathlib
import platform
import subprocess
import sys

import numpy as np
import onnxruntime as ort
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument as NotRun  # noqa: F401  pylint: disable=unused-import

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARIES = ROOT / "build/release/bin"
# By default ONNX Runtime also rounds activations to 8 bits if the weight comes from a DequantizeLinear.
WHOLE = {"session.qdq_matmulnbits_accuracy_level": "0"}


class LeftOut(Exception):
    """The reason why a case is not compared; its cell in the table shows it."""


# ----------------------------------------------------------------------------------------------- ONNX Runtime

def cpu_session(model, threads=1, entries=None, optimised=True):
    """A session of `model` (a file or bytes) on the CPU provider, with `threads` threads in an operator and one operator at a time.
    `entries`: further configuration of ONNX Runtime. Without `optimised`, each operator runs by itself, by its definition."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    level = ort.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimised else level.ORT_DISABLE_ALL
    options.log_severity_level = 4
    for key, value in (entries or {}).items():
        options.add_session_config_entry(key, value)
    return ort.InferenceSession(model if isinstance(model, bytes) else str(model), options, providers=["CPUExecutionProvider"])


def outputs_of(session, arrays):
    """Those of the named arrays that the session takes."""
    given = {port.name: arrays[port.name] for port in session.get_inputs() if port.name in arrays}
    return dict(zip([port.name for port in session.get_outputs()], session.run(None, given)))


# ------------------------------------------------------------------------------------------------------ rondo

def rondo(arguments, *words):
    """Runs `rondo WORDS...` and returns its output. RuntimeError has its error message."""
    said = subprocess.run([str(word) for word in (arguments.binaries / "rondo", *words)], capture_output=True, text=True, check=False)
    if said.returncode != 0:
        raise RuntimeError(said.stderr.strip() or f"rondo ended with {said.returncode}")
    return said.stdout


def shapes(sizes):
    """`--shape NAME=SIZE` for each size."""
    return [word for name, size in sizes.items() for word in ("--shape", f"{name}={size}")]


def generated(arguments, plan, *words):
    """The tokens from `rondo generate`: [texts, steps]."""
    said = rondo(arguments, "generate", plan, "--ids", "--json", "--max-tokens", arguments.steps, *words)
    return np.array([text["tokens"] for text in json.loads(said)["texts"]])


def texts_of(option, rows):
    """`--prompt '1 2 3'` for each row of tokens."""
    return [word for row in rows for word in (option, " ".join(map(str, row)))]


def arrays_of(folder, arrays):
    """`--input NAME=FILE` for each array."""
    words = []
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
        words += ["--input", f"{name}={folder / name}.npy"]
    return words


class Program:
    """A program that answers each input line with a line of integers."""

    def __init__(self, *command):
        self.name = pathlib.Path(command[0]).name
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

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


# ------------------------------------------------------------------------------------------------ the results

def numbers(array):
    """A plan's output as f32; bf16 comes as its bits."""
    return (array.astype(np.uint32) << 16).view(np.float32) if array.dtype == np.uint16 else array


def off(got, expected):
    """The largest difference; NaN counts as infinite."""
    return float(np.nan_to_num(np.abs(numbers(got).astype(np.float64) - expected), nan=np.inf).max())


def within(worst, tolerance):
    """Returns a table cell, and what is wrong with it."""
    return f"{worst:.1e}", None if worst <= tolerance else f"{worst:.1e} apart, more than {tolerance:g}"


def none_of(differ):
    """The same for tokens."""
    return str(differ), f"{differ} tokens are not ONNX Runtime's" if differ else None


def slug(name):
    return "".join(c if c.isalnum() else "_" for c in name)


def folder_for(kind, name):
    folder = ROOT / "build" / kind / slug(name)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def named(arguments, known):
    """The named cases, or all of `known`."""
    unknown = [name for name in arguments.cases if name not in known]
    if unknown:
        arguments.parser.error(f"no case is called {', '.join(map(repr, unknown))}; there are: {'; '.join(known)}")
    return arguments.cases or list(known)


def machine():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def heading(arguments, suite):
    """Versions and options in one line."""
    versions = [f"ONNX Runtime {ort.__version__}"]
    versions += [f"{name} {importlib.import_module(name).__version__}" for name in ("torch", "transformers") if name in sys.modules]
    told = [f"{name} {getattr(arguments, name)}" for name in ("batch", "prompt", "steps", "length", "threads", "seed") if hasattr(arguments, name)]
    where = f"{machine()}, {os.cpu_count()} logical cores; " if getattr(suite, "TIMES", False) else ""
    return f"{where}{', '.join(versions)}; {', '.join(told)}"
