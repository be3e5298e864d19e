"""Compares pycoder's decode step on Rondo's host driver and ONNX Runtime's CPU provider: the times of a token, and their ratio.

Both decode the same text greedily. They take turns of a few tokens on one machine, so that its other load meets both.
"""
import statistics
import time

import numpy as np
import onnxruntime as ort

from peer import ROOT, Program, cpu_session, rondo

TIMES = True
HEADS = ("median, us a token", "10 % below", "90 % below", "tokens")
MODEL = ROOT / "tests/data/pycoder/decode.onnx"


def declare(parser):
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=6, help="texts of --tokens tokens that each decodes")
    parser.add_argument("--tokens", type=int, default=240)
    parser.add_argument("--turn", type=int, default=16, help="tokens that one decodes before the other's turn")
    parser.add_argument("--limit", type=float, help="exit 1 when the ratio is greater")


class Rondo:
    def __init__(self, arguments):
        plan = ROOT / "build/bench/pycoder.rondo"
        plan.parent.mkdir(parents=True, exist_ok=True)
        rondo(arguments, "compile", f"decode={MODEL}", "-o", plan, *arguments.compile.split())
        self.program = Program(arguments.binaries / "decode_steps", plan, "decode", arguments.threads)

    def restart(self, token):
        self.program.tell(f"restart {token}")

    def run(self, count):
        numbers = self.program.ask(f"run {count}", 2 * count)
        return numbers[0::2], [x * 1e-9 for x in numbers[1::2]]


class OnnxRuntime:
    """Keeps the cache in two pairs of buffers that swap roles, so that ONNX Runtime copies nothing to or from numpy."""

    def __init__(self, arguments):
        self.session = cpu_session(MODEL, arguments.threads)
        self.token, self.position, self.logits = np.zeros((1, 1), np.int64), np.zeros((1,), np.int64), np.zeros((1, 256), np.float32)
        self.caches = [[ort.OrtValue.ortvalue_from_numpy(np.zeros((6, 1, 2, 256, 32), np.float32)) for _ in range(2)] for _ in range(2)]
        self.bindings = [self.bind(self.caches[i], self.caches[1 - i]) for i in range(2)]

    def bind(self, source, target):
        binding = self.session.io_binding()
        for name, array in (("tokens", self.token), ("positions", self.position)):
            binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
        for name, given, made in zip(("k_cache", "v_cache"), source, target):
            binding.bind_ortvalue_input(name, given)
            binding.bind_ortvalue_output(f"{name}_out", made)
        binding.bind_output("logits", "cpu", 0, np.float32, self.logits.shape, self.logits.ctypes.data)
        return binding

    def restart(self, token):
        for value in sum(self.caches, []):
            value.update_inplace(np.zeros(value.shape(), np.float32))
        self.token[0, 0], self.position[0] = token, 0

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


TOLD = {}


def cases(arguments):
    """Runs both; each has a row of the table."""
    sides = {"rondo": Rondo(arguments), "ONNX Runtime": OnnxRuntime(arguments)}
    times, same, total = {name: [] for name in sides}, 0, 0
    for number in range(arguments.rounds + 1):  # the first round is warm-up
        texts = {name: [] for name in sides}
        for side in sides.values():
            side.restart(ord("d"))
        for done in range(0, arguments.tokens, arguments.turn):
            for name, side in sides.items():
                tokens, taken = side.run(min(arguments.turn, arguments.tokens - done))
                texts[name] += tokens
                times[name] += taken if number > 0 else []
        total += arguments.tokens
        same += sum(a == b for a, b in zip(*texts.values()))
    ratio = statistics.median(times["rondo"]) / statistics.median(times["ONNX Runtime"])
    TOLD.update(times, ratio=ratio, text=f"\nratio rondo / ONNX Runtime: {ratio:.3f}; {same} of {total} tokens are the same")
    TOLD["wrong"] = "the texts differ" if same != total else f"the ratio exceeds {arguments.limit}" if ratio > (arguments.limit or ratio) else None
    return list(sides)


def compare(arguments, side):
    ordered = sorted(TOLD[side])
    at = [statistics.median(ordered), ordered[len(ordered) // 10], ordered[len(ordered) * 9 // 10]]
    return [*(f"{seconds * 1e6:.1f}" for seconds in at), str(len(ordered))], TOLD["wrong"] if side == "rondo" else None


def finish():
    return TOLD["text"]
