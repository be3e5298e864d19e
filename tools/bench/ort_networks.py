#!/usr/bin/env python3
"""Networks on Rondo's host driver against ONNX Runtime's CPU provider, one thread each.

Both run the same model on the same numbers, taking turns run by run on one machine, so that whatever else the
machine does meets both. Prints a row for each network: the median milliseconds of both, the median of the ratios of
neighbouring runs, and how far the outputs are apart (the greatest difference over the greatest value).
Times are of the processor (the thread's own, whoever shares the machine); --wall prints those of the wall.

  tools/setup --venv
  build/venv/bin/python tools/bench/ort_networks.py build/networks/*.onnx      # export_networks.py writes them
"""
import argparse
import pathlib
import statistics
import sys
import time

import numpy as np
import onnxruntime as ort

from ort_peer import ROOT, Program, compile_plan, cpu_session, describe


class Rondo:
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
        return [x * 1e-6 for x in self.program.ask("run 1", 2)]

    def result(self, name):
        return np.load(f"{self.output}.{name}.npy")

    def close(self):
        self.program.close()


class OnnxRuntime:
    def __init__(self, model, threads, inputs, output):
        self.session = cpu_session(model, threads)
        self.binding = self.session.io_binding()
        self.held = inputs
        for name, array in inputs.items():
            self.binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
        self.value = output
        self.binding.bind_output(self.session.get_outputs()[0].name, "cpu", 0, output.dtype, output.shape,
                                 output.ctypes.data)

    def run(self):
        start, used = time.perf_counter_ns(), time.process_time_ns()
        self.session.run_with_iobinding(self.binding)
        return [(time.process_time_ns() - used) * 1e-6, (time.perf_counter_ns() - start) * 1e-6]


NUMPY = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16,
         "tensor(int64)": np.int64, "tensor(int32)": np.int32}


def inputs_of(session, seed):
    generator = np.random.default_rng(seed)
    inputs = {}
    for port in session.get_inputs():
        if not all(isinstance(d, int) for d in port.shape):
            sys.exit(f"input {port.name} has no fixed shape: {port.shape}")
        dtype = NUMPY[port.type]
        values = generator.standard_normal(port.shape) if np.issubdtype(dtype, np.floating) else np.zeros(port.shape)
        inputs[port.name] = values.astype(dtype)
    return inputs


def measure(model, arguments):
    name = model.stem
    folder = ROOT / "build/bench" / name
    plan = folder / "plan.rondo"
    compile_plan(arguments.binaries, model, plan)
    whole = ort.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    inputs = inputs_of(whole, arguments.seed)
    output = whole.get_outputs()[0].name
    expected = whole.run([output], inputs)[0]
    del whole
    other = OnnxRuntime(model, arguments.threads, inputs, np.zeros_like(expected))
    rondo = Rondo(arguments.binaries, plan, arguments.threads, folder, inputs)
    column = 1 if arguments.wall else 0
    times = []
    begun = time.perf_counter()
    for number in range(arguments.most):
        pair = (rondo.run()[column], other.run()[column])
        if number >= arguments.warm:
            times.append(pair)
        if len(times) >= arguments.pairs and time.perf_counter() - begun > arguments.seconds:
            break
    found = rondo.result(output)
    rondo.close()
    apart = float(np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-30))
    ours, theirs = (statistics.median(side) for side in zip(*times))
    return name, ours, theirs, statistics.median(a / b for a, b in times), apart, len(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=9, help="at least so many runs of each")
    parser.add_argument("--seconds", type=float, default=3, help="and so long for a network")
    parser.add_argument("--most", type=int, default=500, help="but no more runs than that")
    parser.add_argument("--warm", type=int, default=2, help="runs before the first that counts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--wall", action="store_true")
    parser.add_argument("--limit", type=float, help="exit 1 when a ratio is greater")
    parser.add_argument("--tolerance", type=float, default=1e-4, help="exit 1 when outputs are further apart")
    arguments = parser.parse_args()

    print(f"{describe(arguments.threads)}; "
          f"{'wall' if arguments.wall else 'processor'} time, medians\n")
    print("| network | rondo ms | ORT ms | ratio | apart | pairs |")
    print("|---|---|---|---|---|---|")
    bad = []
    for model in arguments.models:
        name, ours, theirs, ratio, apart, pairs = measure(model, arguments)
        print(f"| {name} | {ours:.2f} | {theirs:.2f} | {ratio:.2f} | {apart:.1e} | {pairs} |", flush=True)
        if not apart <= arguments.tolerance:
            bad.append(f"{name}: outputs are {apart:.1e} apart, more than {arguments.tolerance:g}")
        if arguments.limit is not None and ratio > arguments.limit:
            bad.append(f"{name}: the ratio {ratio:.2f} exceeds {arguments.limit:g}")
    if bad:
        sys.exit("\n".join(bad))


if __name__ == "__main__":
    main()
