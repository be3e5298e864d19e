#!/usr/bin/env python3
"""pycoder's decode step, Rondo on its host driver against ONNX Runtime's CPU provider, one thread each.

Both decode the same text greedily, taking turns of a few tokens in one run on one machine, so that whatever else
the machine does meets both. Prints the median time per token of each and their ratio.

  tools/setup --venv
  build/venv/bin/python tools/bench/ort_decode.py
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
    def __init__(self, binaries, plan, threads):
        self.program = Program(binaries / "decode_steps", plan, "decode", threads)

    def restart(self, token):
        self.program.tell(f"restart {token}")

    def run(self, count):
        numbers = self.program.ask(f"run {count}", 2 * count)
        return numbers[0::2], [x * 1e-9 for x in numbers[1::2]]


class OnnxRuntime:
    """The cache stays in two pairs of buffers that swap roles: ONNX Runtime copies nothing to or from numpy."""

    def __init__(self, model, threads):
        self.session = cpu_session(model, threads)
        self.token = np.zeros((1, 1), np.int64)
        self.position = np.zeros((1,), np.int64)
        self.logits = np.zeros((1, 256), np.float32)
        shape = (6, 1, 2, 256, 32)
        caches = [[np.zeros(shape, np.float32) for _ in range(2)] for _ in range(2)]
        self.caches = [[ort.OrtValue.ortvalue_from_numpy(c) for c in pair] for pair in caches]
        self.held = caches
        self.bindings = [self.bind(self.caches[i], self.caches[1 - i]) for i in range(2)]

    def bind(self, source, target):
        binding = self.session.io_binding()
        for name, array in (("tokens", self.token), ("positions", self.position)):
            binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
        for name, value in zip(("k_cache", "v_cache"), source):
            binding.bind_ortvalue_input(name, value)
        for name, value in zip(("k_cache_out", "v_cache_out"), target):
            binding.bind_ortvalue_output(name, value)
        binding.bind_output("logits", "cpu", 0, np.float32, self.logits.shape, self.logits.ctypes.data)
        return binding

    def restart(self, token):
        for pair in self.caches:
            for value in pair:
                value.update_inplace(np.zeros(value.shape(), np.float32))
        self.token[0, 0] = token
        self.position[0] = 0

    def run(self, count):
        tokens, times = [], []
        for _ in range(count):
            binding = self.bindings[int(self.position[0]) % 2]
            start = time.perf_counter()
            self.session.run_with_iobinding(binding)
            times.append(time.perf_counter() - start)
            self.token[0, 0] = int(np.argmax(self.logits))
            self.position[0] += 1
            tokens.append(int(self.token[0, 0]))
        return tokens, times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "tests/data/pycoder")
    parser.add_argument("--plan", type=pathlib.Path, help="compiled from the model when not given")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=6, help="texts of --tokens tokens that each decodes")
    parser.add_argument("--tokens", type=int, default=240)
    parser.add_argument("--turn", type=int, default=16, help="tokens that one decodes before the other's turn")
    parser.add_argument("--limit", type=float, help="exit 1 when the ratio is greater")
    arguments = parser.parse_args()

    plan = arguments.plan
    if plan is None:
        plan = ROOT / "build/bench/pycoder.rondo"
        compile_plan(arguments.binaries, f"decode={arguments.model / 'decode.onnx'}", plan)
    sides = {"rondo": Rondo(arguments.binaries, plan, arguments.threads),
             "onnxruntime": OnnxRuntime(arguments.model / "decode.onnx", arguments.threads)}
    times = {name: [] for name in sides}
    same = total = 0
    for number in range(arguments.rounds + 1):  # the first round warms both up
        texts = {name: [] for name in sides}
        for side in sides.values():
            side.restart(ord("d"))
        for done in range(0, arguments.tokens, arguments.turn):
            for name, side in sides.items():
                tokens, taken = side.run(min(arguments.turn, arguments.tokens - done))
                texts[name] += tokens
                if number > 0:
                    times[name] += taken
        total += arguments.tokens
        same += sum(a == b for a, b in zip(*texts.values()))

    print(f"machine: {describe(arguments.threads)}")
    for name, values in times.items():
        ordered = sorted(values)
        print(f"{name:12s} median {statistics.median(values) * 1e6:8.1f} us a token, "
              f"10 % below {ordered[len(ordered) // 10] * 1e6:8.1f}, 90 % below {ordered[len(ordered) * 9 // 10] * 1e6:8.1f} "
              f"({len(values)} tokens)")
    ratio = statistics.median(times["rondo"]) / statistics.median(times["onnxruntime"])
    print(f"ratio rondo / onnxruntime: {ratio:.3f}; {same} of {total} tokens are the same")
    if same != total:
        sys.exit("the texts differ")
    if arguments.limit is not None and ratio > arguments.limit:
        sys.exit(f"the ratio exceeds {arguments.limit}")


if __name__ == "__main__":
    main()
