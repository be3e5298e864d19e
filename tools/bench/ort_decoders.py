#!/usr/bin/env python3
"""Decoders as people export them, with a cache of a fixed length, against ONNX Runtime, whose caches grow.

Each model of decoder_models.py and builder_models.py is compiled twice into one plan (a prefill and a decode step of one token, over one
cache: --cache-length). The prompt and then --steps tokens, which ONNX Runtime's logits choose, go through both; a second
text follows in the same session, with the first one's rows still behind it. Prints how far logits ever are apart.

With --generate, `rondo generate` continues the prompt by --steps tokens, which are drawn on the device (--sample), through
a prefill of 4 tokens and decode, and the tokens are compared
with ONNX Runtime's greedy ones; models whose caller looks the embeddings up have no tokens to draw, and are left out.

  tools/setup --venv
  build/venv/bin/python tools/bench/ort_decoders.py
  build/venv/bin/python tools/bench/ort_decoders.py --generate
  build/venv/bin/python tools/bench/ort_decoders.py --drawn 60 --seed 100 --batch 3 --prompt 7
"""
import argparse
import json
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper

import builder_models
import decoder_models
from ort_peer import ROOT, cpu_session
from rondo_session import Session


class NoTokens(Exception):
    """The model's input is no tokens."""


ALL = decoder_models.ALL | builder_models.ALL
EMBEDDED = np.random.default_rng(5).standard_normal((decoder_models.WORDS, builder_models.HIDDEN)).astype(np.float32)


class Growing:
    """ONNX Runtime: what came out as `present` goes in as `past`."""

    def __init__(self, path, batch):
        self.session = cpu_session(path, 1)
        self.names = [port.name for port in self.session.get_inputs()]
        self.outputs = [port.name for port in self.session.get_outputs()]
        self.past, self.encoded = {}, {}
        for port in self.session.get_inputs():
            if ".encoder." in port.name:
                shape = [batch if isinstance(d, str) else d for d in port.shape]
                self.encoded[port.name] = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
            elif port.name.startswith("past"):
                # A cache of a window is as long from the start; ONNX Runtime moves its rows up.
                known = {"past_sequence_length": 0, "past_sliding_length": decoder_models.SLIDING}
                shape = [known.get(d, batch) if isinstance(d, str) else d for d in port.shape]
                self.past[port.name] = np.zeros(shape, np.int8 if port.type == "tensor(int8)" else np.float32)

    def run(self, inputs):
        given = {name: array for name, array in inputs.items() if name in self.names}
        results = dict(zip(self.outputs, self.session.run(None, given | self.encoded | self.past)))
        for name in self.past:
            self.past[name] = results[name.replace("past_key_values", "present").replace("past", "present")]
        return results["logits"]


def compile_model(arguments, path, plan, prompt, more=()):
    command = [arguments.binaries / "rondo", "compile", f"prefill={path}", f"decode={path}", "-o", plan,
               "--cache-length", arguments.length, "--shape", f"batch_size={arguments.batch}",
               "--shape", f"prefill:sequence_length={prompt}", "--shape", "decode:sequence_length=1", *more]
    said = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if said.returncode != 0:
        raise RuntimeError(said.stderr.strip())


def text(arguments, path, session, prompt, random):
    """One text through both: how far the logits are apart at most, and by how much they vary."""
    growing = Growing(path, arguments.batch)
    tokens = random.integers(0, decoder_models.WORDS, (arguments.batch, prompt))
    apart = size = 0.0
    done = 0
    for step in range(arguments.steps + 1):
        rows = tokens.shape[1]
        total = done + rows
        mask = np.ones((arguments.batch, total), np.int64)
        positions = np.broadcast_to(np.arange(done, total), tokens.shape)
        inputs = {"input_ids": tokens, "position_ids": positions}
        if "inputs_embeds" in growing.names:
            inputs["inputs_embeds"] = EMBEDDED[tokens]
        expected = growing.run(inputs | {"attention_mask": mask})
        whole = np.zeros((arguments.batch, arguments.length), np.int64)
        whole[:, :total] = 1
        fixed = {"attention_mask": whole, "past_sequence_length": np.array([done], np.int64)}
        got = session.run("prefill" if step == 0 else "decode", inputs | fixed | growing.encoded)["logits"]
        apart = max(apart, float(np.abs(got - expected).max()))
        size = max(size, float(np.abs(expected).max()))
        tokens, done = expected[:, -1:].argmax(-1), total
    return apart / size


def compare(arguments, name):
    folder = ROOT / "build/decoders" / "".join(c if c.isalnum() else "_" for c in name)
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(ALL[name](), folder / "model.onnx")
    random = np.random.default_rng(arguments.seed)
    worst = 0.0
    compile_model(arguments, folder / "model.onnx", folder / "plan.rondo", arguments.prompt)
    session = Session(arguments.binaries.parent / "lib", folder / "plan.rondo")
    for _ in range(2):
        worst = max(worst, text(arguments, folder / "model.onnx", session, arguments.prompt, random))
    session.close()
    return worst


def greedy(arguments, path, prompt):
    """What ONNX Runtime continues the prompt with: [batch, steps]."""
    growing = Growing(path, arguments.batch)
    if "inputs_embeds" in growing.names:
        raise NoTokens("left out: its input is embeddings, no tokens")
    tokens, done, texts = prompt, 0, []
    for _ in range(arguments.steps):
        total = done + tokens.shape[1]
        inputs = {"input_ids": tokens, "attention_mask": np.ones((arguments.batch, total), np.int64),
                  "position_ids": np.broadcast_to(np.arange(done, total), tokens.shape)}
        tokens, done = growing.run(inputs)[:, -1:].argmax(-1), total
        texts.append(tokens)
    return np.concatenate(texts, 1), growing.encoded


def generate(arguments, name):
    """How many of the tokens that `rondo generate` writes are not ONNX Runtime's."""
    folder = ROOT / "build/decoders" / "".join(c if c.isalnum() else "_" for c in name)
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(ALL[name](), folder / "model.onnx")
    prompt = np.random.default_rng(arguments.seed).integers(0, decoder_models.WORDS, (arguments.batch, arguments.prompt))
    expected, encoded = greedy(arguments, folder / "model.onnx", prompt)
    compile_model(arguments, folder / "model.onnx", folder / "drawn.rondo", 4,
                  ["--sample", "logits", *arguments.compile.split()])
    command = [arguments.binaries / "rondo", "generate", folder / "drawn.rondo", "--ids", "--json", "--max-tokens", arguments.steps]
    for row in prompt:
        command += ["--prompt", " ".join(map(str, row))]
    for port, array in encoded.items():
        np.save(folder / f"{port}.npy", array)
        command += ["--input", f"{port}={folder / port}.npy"]
    said = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if said.returncode != 0:
        raise RuntimeError(said.stderr.strip())
    got = np.array([text["tokens"] for text in json.loads(said.stdout)["texts"]])
    return int((got != expected).sum())


def write_case(folder, name, filled=9, length=16):
    """A decode step over a cache of a fixed length as a case for `rondo test` (models of the builder's form only)."""
    data = folder / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    onnx.save(ALL[name](), folder / "model.onnx")
    session = cpu_session(folder / "model.onnx", 1)
    random = np.random.default_rng(1)
    inputs = {"input_ids": np.array([[7]], np.int64),
              "attention_mask": (np.arange(length) <= filled).astype(np.int64)[None]}
    for port in session.get_inputs():
        if port.name.startswith("past"):
            inputs[port.name] = random.standard_normal((1, port.shape[1], length, port.shape[3])).astype(np.float32)
            inputs[port.name][:, :, filled:] = 0  # what is behind is unspecified: the same in both
    outputs = dict(zip([port.name for port in session.get_outputs()], session.run(None, inputs)))
    for kind, arrays in (("input", inputs), ("output", outputs)):
        for i, (port, array) in enumerate(arrays.items()):
            (data / f"{kind}_{i}.pb").write_bytes(numpy_helper.from_array(array, port).SerializeToString())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help=", ".join(ALL))
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--prompt", type=int, default=5)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--length", type=int, default=80)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--drawn", type=int, default=0, metavar="N",
                        help="instead of models named: N as the builder writes them, of sizes and options drawn from --seed on")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--generate", action="store_true", help="compare the tokens of `rondo generate`")
    parser.add_argument("--compile", default="", help="more options of rondo compile, with --generate: '--tp 2'")
    parser.add_argument("--write-case", type=pathlib.Path, metavar="FOLDER",
                        help="only write a decode step of the model named as a case for rondo test")
    arguments = parser.parse_args()
    if arguments.drawn:
        families = {f"drawn {seed}": builder_models.drawn(seed) for seed in range(arguments.seed, arguments.seed + arguments.drawn)}
        ALL.update((name, lambda f=f: builder_models.Builder(f).build()) for name, f in families.items())
        arguments.models = list(families)
    unknown = [name for name in arguments.models if name not in ALL]
    if unknown:
        parser.error(f"no model is called {', '.join(map(repr, unknown))}; there are: {'; '.join(ALL)}")
    if arguments.write_case and len(arguments.models) != 1:
        parser.error("--write-case writes one model: name it")
    libraries = [arguments.binaries.parent / "lib" / f"librondo{part}.so" for part in ("", "_host")]
    for needed in [arguments.binaries / "rondo", *([] if arguments.generate or arguments.write_case else libraries)]:
        if not needed.exists():
            parser.error(f"{needed} is missing: build everything, or say where with --binaries")
    if arguments.write_case:
        return write_case(arguments.write_case, arguments.models[0])
    print(f"ONNX Runtime {ort.__version__}; batch {arguments.batch}, a prompt of {arguments.prompt}, {arguments.steps} "
          f"steps, two texts, a cache of {arguments.length}\n")
    print(f"| model | {'tokens that differ' if arguments.generate else 'apart at most, of the greatest logit'} |")
    print("|---|---|")
    bad = []
    for name in arguments.models or ALL:
        try:
            worst = generate(arguments, name) if arguments.generate else compare(arguments, name)
        except NoTokens as error:
            print(f"| {name} | {error} |", flush=True)
            continue
        except RuntimeError as error:
            bad.append(f"{name}: {error}")
            print(f"| {name} | failed |", flush=True)
            continue
        print(f"| {name} | {worst:{'d' if arguments.generate else '.1e'}} |", flush=True)
        if arguments.generate and worst > 0:
            bad.append(f"{name}: {worst} tokens are not ONNX Runtime's")
        elif not worst <= arguments.tolerance:
            bad.append(f"{name}: logits are {worst:.1e} apart, more than {arguments.tolerance:g}")
    return "\n".join(bad) or None


if __name__ == "__main__":
    sys.exit(main())
