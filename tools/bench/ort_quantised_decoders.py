#!/usr/bin/env python3
"""Decoders of decoder_models.py, quantised statically by ONNX Runtime's own tool (quantised_statically.py), with a cache of a fixed length,
against ONNX Runtime, whose caches grow and whose operators are each what its definition says (without fusion).

Prompt and --steps tokens, which ONNX Runtime's logits choose, of two texts in one session. Each cell: how far logits are apart at most, of
the greatest; and how many steps are the same (to 1e-5). Where results differ, a float fell next to a half, and was rounded to the next
number of 8 or 16 bits; what is cached keeps that. That nothing else tells the two apart is compared to the bit: the second text in a
session with a longer cache that holds nothing yet gives the same logits as behind the first text.

  tools/setup --venv
  build/venv/bin/python tools/bench/ort_quantised_decoders.py
  build/venv/bin/python tools/bench/ort_quantised_decoders.py gpt2 opt --kinds 'QDQ, u8 s8' --batch 2 --prompt 7 --pads 2
"""
import argparse
import logging
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime as ort

import decoder_models
import quantised_statically
from ort_decoders import compile_model
from ort_peer import ROOT, cpu_session
from rondo_session import Session, run_fitted

ALL = decoder_models.ALL | {f"{name}, masks of {least:g}": lambda f=f, least=least: f(least=least) for least in (-1e4, -30) for name, f in
                            (("optimum", decoder_models.optimum), ("opt", decoder_models.opt), ("neox", decoder_models.neox))}
MODELS = ["optimum", "optimum, masks of -30", "gpt2", "opt", "opt, masks of -30", "neox", "neox, masks of -10000", "gpt2, MultiHeadAttention",
          "gpt2, Attention", "Attention of opset 23", "whisper"]
TOLERANCE = 0.1  # a few steps of 8 bits, through two layers of random weights


class ToolSays(Exception):
    pass


def slug(name):
    return "".join(c if c.isalnum() else "_" for c in name)


def arrays_of(ports, sizes, random):
    """Arrays for ports by their names; what is not random is tokens, positions and masks of ones."""
    given = {}
    for name, dims in ports:
        shape = [sizes[d] if isinstance(d, str) else d for d in dims]
        if name == "input_ids":
            given[name] = random.integers(0, decoder_models.WORDS, shape)
        elif name == "attention_mask":
            given[name] = np.ones(shape, np.int64)
        elif name == "position_ids":
            given[name] = np.broadcast_to(np.arange(sizes["past_sequence_length"], sizes["past_sequence_length"] + shape[-1]), shape).copy()
        else:
            given[name] = random.standard_normal(shape).astype(np.float32)
    return given


def feeds_of(model):
    """Inputs to calibrate with: prompts and steps, with few and many cached positions."""
    ports = [(p.name, [d.dim_param or d.dim_value for d in p.type.tensor_type.shape.dim]) for p in model.graph.input]

    def feeds():
        random = np.random.default_rng(9)
        return [arrays_of(ports, {"batch_size": 1, "past_sequence_length": past, "sequence_length": rows,
                                  "past_sequence_length + sequence_length": past + rows}, random)
                for past, rows in ((0, 5), (1, 1), (20, 1), (8, 7))]

    return feeds


class Growing:
    """ONNX Runtime: what came out as `present` goes in as `past`."""

    def __init__(self, session, batch):
        self.session = session
        self.names = [port.name for port in session.get_inputs()]
        self.outputs = [port.name for port in session.get_outputs()]
        sizes = {"batch_size": batch, "past_sequence_length": 0}
        ports = [(p.name, p.shape) for p in session.get_inputs() if p.name.startswith("past")]
        arrays = arrays_of(ports, sizes, np.random.default_rng(3))
        self.encoded = {name: array for name, array in arrays.items() if ".encoder." in name}
        self.past = {name: array for name, array in arrays.items() if name not in self.encoded}

    def run(self, inputs):
        given = {name: array for name, array in inputs.items() if name in self.names}
        results = dict(zip(self.outputs, self.session.run(None, given | self.encoded | self.past)))
        self.past = {name: results[name.replace("past_key_values", "present").replace("past", "present")] for name in self.past}
        return results["logits"]


def inputs_of(arguments, tokens, done, length):
    """A run's inputs, of which a mask has `length` positions."""
    total = done + tokens.shape[1]
    mask = np.zeros((arguments.batch, length), np.int64)
    mask[:, :total] = 1
    mask[0, :arguments.pads] = 0
    return {"input_ids": tokens, "position_ids": np.broadcast_to(np.arange(done, total), tokens.shape), "attention_mask": mask,
            "past_sequence_length": np.array([done], np.int64)}


def text(arguments, peer, session, length, random):
    """One text through both: how far each step's logits are apart, the greatest logit, the tokens of each run and what the plan gave."""
    growing = Growing(peer, arguments.batch)
    tokens = random.integers(0, decoder_models.WORDS, (arguments.batch, arguments.prompt))
    apart, size, runs, given, done = [], 0.0, [], [], 0
    for step in range(arguments.steps + 1):
        total = done + tokens.shape[1]
        expected = growing.run(inputs_of(arguments, tokens, done, total))
        got = run_fitted(session, "decode" if step else "prefill", inputs_of(arguments, tokens, done, length) | growing.encoded)["logits"]
        off = np.abs(got - expected)
        if step == 0:  # of what is padding, no position is attended to
            off[0, :arguments.pads] = 0
        apart.append(float(np.nan_to_num(off, nan=np.inf).max()))
        size = max(size, float(np.nanmax(np.abs(expected))))
        runs.append(tokens)
        given.append(got)
        tokens, done = expected[:, -1:].argmax(-1), total
    return apart, size, runs, given


def again(arguments, session, length, encoded, runs):
    """What a plan gives for those tokens, run by run."""
    given, done = [], 0
    for step, tokens in enumerate(runs):
        given.append(run_fitted(session, "decode" if step else "prefill", inputs_of(arguments, tokens, done, length) | encoded)["logits"])
        done += tokens.shape[1]
    return given


def compare(arguments, name, kind):
    """How far logits are apart at most, of the greatest; how many steps are the same."""
    folder = ROOT / "build/quantised_decoders" / slug(name)
    folder.mkdir(parents=True, exist_ok=True)
    path, out = folder / "model.onnx", folder / f"{slug(kind)}.onnx"
    model = ALL[name]()
    onnx.save(model, path)
    try:
        quantised_statically.ALL[kind](path, out, feeds_of(model))
    except Exception as error:  # whatever the tool says
        raise ToolSays(f"{type(error).__name__}: {str(error)[:80]}") from error
    peer = cpu_session(out, 1, optimised=False)
    random, steps, libraries = np.random.default_rng(arguments.seed), [], arguments.binaries.parent / "lib"
    plans = []
    for length in (arguments.length, arguments.length + 31):
        plans.append(out.with_suffix(f".{length}.rondo"))
        longer = argparse.Namespace(**(vars(arguments) | {"length": length}))
        compile_model(longer, out, plans[-1], arguments.prompt, arguments.compile.split())
    session = Session(libraries, plans[0])
    for _ in range(2):
        apart, size, runs, given = text(arguments, peer, session, arguments.length, random)
        steps += [step / size for step in apart]
    session.close()
    session = Session(libraries, plans[1])
    fresh = again(arguments, session, arguments.length + 31, Growing(peer, arguments.batch).encoded, runs)
    session.close()
    if not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(given, fresh)):
        raise RuntimeError("what a text gives depends on what is behind it in the cache")
    return max(steps), float(np.mean(np.array(steps) <= 1e-5))


def main():
    logging.disable(logging.WARNING)
    ort.set_default_logger_severity(3)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=MODELS, help="; ".join(ALL))
    parser.add_argument("--kinds", nargs="*", default=[kind for kind in quantised_statically.ALL if "percentiles" not in kind])
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--prompt", type=int, default=5)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--pads", type=int, default=0, help="how many tokens of the first text are padding, on the left")
    parser.add_argument("--length", type=int, default=80)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compile", default="", help="more options of rondo compile: '--tp 2'")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.models if name not in ALL]
    if unknown:
        parser.error(f"no model is called {', '.join(map(repr, unknown))}; there are: {'; '.join(ALL)}")
    print(f"ONNX Runtime {ort.__version__}; batch {arguments.batch}, a prompt of {arguments.prompt}, {arguments.steps} steps, two texts, "
          f"a cache of {arguments.length}\n")
    print(f"| | {' | '.join(arguments.models)} |\n|---|{'---|' * len(arguments.models)}")
    bad = []
    for kind in arguments.kinds:
        cells = []
        for name in arguments.models:
            try:
                worst, same = compare(arguments, name, kind)
                cells.append(f"{worst:.1e}, {same:.0%}")
                if not worst <= TOLERANCE:
                    bad.append(f"{name}, {kind}: {worst:.1e} apart")
            except ToolSays as error:
                cells.append("not made")
                print(f"{name}, {kind}: {error}", file=sys.stderr)
            except RuntimeError as error:
                cells.append("failed")
                bad.append(f"{name}, {kind}: {error}")
        print(f"| {kind} | {' | '.join(cells)} |", flush=True)
    return "\n".join(bad) or None


if __name__ == "__main__":
    sys.exit(main())
