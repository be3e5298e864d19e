"""Compares networks on Rondo's host driver and ONNX Runtime's CPU provider: ratios of times, and differences of outputs.

Cases are model files (tools/bench/export_networks.py and export_operators.py write some). Both run the same model on the same numbers, and runs take turns, so that
the machine's other load meets both. The table has the median milliseconds of both, the median ratio of neighbouring runs, and the largest difference of outputs over
the largest value. Times are CPU times of the thread, which other processes do not affect; --wall prints wall times.

  build/venv/bin/python tests/ort/run networks build/networks/*.onnx
"""
import pathlib
import statistics
import sys
import time

import numpy as np

from peer import ROOT, Program, cpu_session, rondo

TIMES = True
HEADS = ("rondo ms", "ORT ms", "ratio", "apart", "pairs")
NUMPY = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16, "tensor(int64)": np.int64, "tensor(int32)": np.int32}


def declare(parser):
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=9, help="at least so many runs of each")
    parser.add_argument("--seconds", type=float, default=3, help="and so long for a network")
    parser.add_argument("--most", type=int, default=500, help="but no more runs than that")
    parser.add_argument("--warm", type=int, default=2, help="runs before the first that counts")
    parser.add_argument("--wall", action="store_true")
    parser.add_argument("--limit", type=float, help="exit 1 when a ratio is greater")
    parser.add_argument("--tolerance", type=float, default=1e-4, help="exit 1 when outputs are further apart")


def cases(arguments):
    return [pathlib.Path(name) for name in arguments.cases] or arguments.parser.error("name files of models")


class Rondo:
    """Wraps `timed_runs` of a build, which times runs on request."""

    def __init__(self, binaries, plan, threads, folder, inputs):
        files = []
        for name, array in inputs.items():
            np.save(folder / f"{name}.npy", array)
            files.append(f"{name}={folder / name}.npy")
        self.output = folder / "rondo"
        for old in folder.glob("rondo.*.npy"):
            old.unlink()
        self.program = Program(binaries / "timed_runs", plan, "-", threads, self.output, *files)

    def run(self):
        """Returns milliseconds of CPU time and of wall time."""
        return [x * 1e-6 for x in self.program.ask("run 1", 2)]

    def result(self, name):
        return np.load(f"{self.output}.{name}.npy")

    def close(self):
        self.program.close()


class OnnxRuntime:
    def __init__(self, model, threads, inputs, output):
        self.session = cpu_session(model, threads)
        self.binding = self.session.io_binding()
        self.held = inputs, output
        for name, array in inputs.items():
            self.binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
        self.binding.bind_output(self.session.get_outputs()[0].name, "cpu", 0, output.dtype, output.shape, output.ctypes.data)

    def run(self):
        start, used = time.perf_counter_ns(), time.process_time_ns()
        self.session.run_with_iobinding(self.binding)
        return [(time.process_time_ns() - used) * 1e-6, (time.perf_counter_ns() - start) * 1e-6]


def inputs_of(session, seed):
    generator, inputs = np.random.default_rng(seed), {}
    for port in session.get_inputs():
        if not all(isinstance(d, int) for d in port.shape):
            sys.exit(f"input {port.name} has no fixed shape: {port.shape}")
        dtype = NUMPY[port.type]
        inputs[port.name] = (generator.standard_normal(port.shape) if np.issubdtype(dtype, np.floating) else np.zeros(port.shape)).astype(dtype)
    return inputs


def compare(arguments, model):
    folder = ROOT / "build/bench" / model.stem
    folder.mkdir(parents=True, exist_ok=True)
    rondo(arguments, "compile", model, "-o", folder / "plan.rondo", *arguments.compile.split())
    whole = cpu_session(model, arguments.threads)
    inputs, output = inputs_of(whole, arguments.seed), whole.get_outputs()[0].name
    expected = whole.run([output], inputs)[0]
    del whole
    other = OnnxRuntime(model, arguments.threads, inputs, np.zeros_like(expected))
    ours = Rondo(arguments.binaries, folder / "plan.rondo", arguments.threads, folder, inputs)
    times, begun = [], time.perf_counter()
    for number in range(arguments.most):
        pair = tuple(side.run()[arguments.wall] for side in (ours, other))
        times += [pair] if number >= arguments.warm else []
        if len(times) >= arguments.pairs and time.perf_counter() - begun > arguments.seconds:
            break
    found = ours.result(output)
    ours.close()
    apart = float(np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-30))
    medians, ratio = [statistics.median(side) for side in zip(*times)], statistics.median(a / b for a, b in times)
    wrong = None if apart <= arguments.tolerance else f"outputs are {apart:.1e} apart, more than {arguments.tolerance:g}"
    if arguments.limit is not None and ratio > arguments.limit:
        wrong = f"the ratio {ratio:.2f} exceeds {arguments.limit:g}"
    return [f"{medians[0]:.2f}", f"{medians[1]:.2f}", f"{ratio:.2f}", f"{apart:.1e}", str(len(times))], wrong
