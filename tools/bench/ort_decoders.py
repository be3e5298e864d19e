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
  build/venv/bin/python tools/bench/ort_decoders.py --type f16 --keep-io-types
"""
import argparse
import copy
import json
import pathlib
import subprocess
import sys

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.transformers import float16

import builder_models
import decoder_models
from ort_peer import ROOT, cpu_session
from rondo_session import Session, run_fitted


class LeftOut(Exception):
    """Why a model is not compared."""


ALL = decoder_models.ALL | builder_models.ALL
EMBEDDED = np.random.default_rng(5).standard_normal((decoder_models.WORDS, builder_models.HIDDEN)).astype(np.float32)


BEYOND_F16 = {"optimum, angles worked out of the length"}  # a base of angles
NARROW = {"f16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}


def rounded(array, kind):
    """An array of f32 with the numbers of a narrower type."""
    with np.errstate(over="ignore"):  # the least f32, of masks
        return array.astype({"f16": np.float16, "bf16": ml_dtypes.bfloat16}[kind]).astype(np.float32)


def narrowed(model, kind):
    """The model with every f32 of `kind`, and the one with the same numbers in f32, which says what it gives."""
    wide, narrow = copy.deepcopy(model), copy.deepcopy(model)

    def tensor(wide_one, narrow_one):
        if wide_one.data_type != TensorProto.FLOAT:
            return
        array = rounded(numpy_helper.to_array(wide_one), kind)
        wide_one.CopyFrom(numpy_helper.from_array(array, wide_one.name))
        narrow_one.CopyFrom(helper.make_tensor(wide_one.name, NARROW[kind], array.shape, array.astype(
            np.float16 if kind == "f16" else ml_dtypes.bfloat16).tobytes(), raw=True))

    def graph(wide_one, narrow_one):
        for pair in zip(wide_one.initializer, narrow_one.initializer):
            tensor(*pair)
        for port in (*narrow_one.input, *narrow_one.output, *narrow_one.value_info):
            if port.type.tensor_type.elem_type == TensorProto.FLOAT:
                port.type.tensor_type.elem_type = NARROW[kind]
        for w, n in zip(wide_one.node, narrow_one.node):
            for a, b in zip(w.attribute, n.attribute):
                if a.name in ("to", "dtype") and a.i == TensorProto.FLOAT:
                    b.i = NARROW[kind]
                if a.HasField("t"):
                    tensor(a.t, b.t)
                if a.HasField("g"):
                    graph(a.g, b.g)

    graph(wide.graph, narrow.graph)
    return narrow, wide


def converted(model, path):
    """The model as ONNX Runtime's converter to f16 leaves it, with ports of f32: casts stand between them and the rest."""
    narrow = float16.convert_float_to_float16(copy.deepcopy(model), keep_io_types=True, disable_shape_infer=True)
    onnx.save(narrow, path)
    try:
        cpu_session(path, 1)
    except Exception:  # of no common base
        raise LeftOut("left out: ONNX Runtime refuses what its converter makes") from None
    return narrow


def numbers(array):
    """What came out of a plan as f32: bf16 comes as its bits."""
    return (array.astype(np.uint32) << 16).view(np.float32) if array.dtype == np.uint16 else array.astype(np.float32)


class Growing:
    """ONNX Runtime: what came out as `present` goes in as `past`."""

    def __init__(self, path, batch):
        self.session = cpu_session(path, 1)
        self.names = [port.name for port in self.session.get_inputs()]
        self.outputs = [port.name for port in self.session.get_outputs()]
        self.past, self.encoded, self.results = {}, {}, {}
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
        self.results = results
        return results["logits"]


def compile_model(arguments, path, plan, prompt, more=()):
    command = [arguments.binaries / "rondo", "compile", f"prefill={path}", f"decode={path}", "-o", plan,
               "--cache-length", arguments.length, "--shape", f"batch_size={arguments.batch}",
               "--shape", f"prefill:sequence_length={prompt}", "--shape", "decode:sequence_length=1", *more]
    said = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if said.returncode != 0:
        raise RuntimeError(said.stderr.strip())


def text(arguments, path, session, prompt, random):
    """One text through both: how far the logits of each step are apart at most, of the greatest of any."""
    growing = Growing(path, arguments.batch)
    tokens = random.integers(0, decoder_models.WORDS, (arguments.batch, prompt))
    apart, size, done = [], 0.0, 0
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
        given = inputs | fixed | growing.encoded
        if arguments.type == "bf16":  # as its bits
            given = {name: array.astype(ml_dtypes.bfloat16).view(np.uint16) if array.dtype == np.float32 else array
                     for name, array in given.items()}
        got = run_fitted(session, "prefill" if step == 0 else "decode", given)["logits"]
        got = numbers(got)
        apart.append(float(np.nan_to_num(np.abs(got - expected), nan=np.inf).max()))
        size = max(size, float(np.abs(expected).max()))
        tokens, done = expected[:, -1:].argmax(-1), total
    return [step / size for step in apart]


def compare(arguments, name):
    folder = ROOT / "build/decoders" / "".join(c if c.isalnum() else "_" for c in name)
    folder.mkdir(parents=True, exist_ok=True)
    model = peer = ALL[name]()
    if arguments.type == "f16" and name in BEYOND_F16:
        raise LeftOut("left out: f16 does not hold its numbers")
    if arguments.type != "f32":
        model, peer = narrowed(model, arguments.type)
    if arguments.keep_io_types:
        model = converted(peer, folder / "model.onnx")
    onnx.save(model, folder / "model.onnx")
    onnx.save(peer, folder / "peer.onnx")
    random = np.random.default_rng(arguments.seed)
    steps = []
    compile_model(arguments, folder / "model.onnx", folder / "plan.rondo", arguments.prompt)
    session = Session(arguments.binaries.parent / "lib", folder / "plan.rondo")
    for _ in range(2):
        steps += text(arguments, folder / "peer.onnx", session, arguments.prompt, random)
    session.close()
    # Random weights make of some steps what no narrow type gives: ONNX Runtime's own f16 is as far from f32 there.
    return max(steps) if arguments.type == "f32" or not np.isfinite(steps).all() else float(np.quantile(steps, 0.9))


def greedy(arguments, path, prompt):
    """What ONNX Runtime continues the prompt with: [batch, steps]."""
    growing = Growing(path, arguments.batch)
    if "inputs_embeds" in growing.names:
        raise LeftOut("left out: its input is embeddings, no tokens")
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
    parser.add_argument("--type", choices=["f32", "f16", "bf16"], default="f32",
                        help="what is f32 in the models becomes this; ONNX Runtime has the same numbers in f32")
    parser.add_argument("--keep-io-types", action="store_true",
                        help="with --type f16: converted by ONNX Runtime's own converter, which leaves ports and caches f32")
    parser.add_argument("--tolerance", type=float, help="by default 1e-4; of nine steps in ten, for f16 1e-2, for bf16 6e-2")
    parser.add_argument("--generate", action="store_true", help="compare the tokens of `rondo generate`")
    parser.add_argument("--compile", default="", help="more options of rondo compile, with --generate: '--tp 2'")
    parser.add_argument("--write-case", type=pathlib.Path, metavar="FOLDER",
                        help="only write a decode step of the model named as a case for rondo test")
    arguments = parser.parse_args()
    arguments.tolerance = arguments.tolerance or {"f32": 1e-4, "f16": 1e-2, "bf16": 6e-2}[arguments.type]
    if arguments.generate and arguments.type != "f32":
        parser.error("--generate compares tokens, which in narrower types may be others: leave --type out")
    if arguments.keep_io_types and arguments.type != "f16":
        parser.error("--keep-io-types is of a converter to f16: give --type f16")
    if arguments.drawn:
        families = {f"drawn {seed}": builder_models.drawn(seed) for seed in range(arguments.seed, arguments.seed + arguments.drawn)}
        for family in families.values():
            if arguments.type != "f32" and family["experts"]:  # which of them, rounding may decide: all
                family["experts"] = (family["experts"][0], *family["experts"][0::2])
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
        except LeftOut as error:
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
