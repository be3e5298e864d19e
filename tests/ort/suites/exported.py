"""Decoders exported from transformers by both of PyTorch's exporters and by transformers' own, with a cache of a fixed length.

Small models of the families that people export (cases/exported_decoders.py): two texts at once, the second padded on the left; a prompt and --steps
tokens; then other texts in the same session. A cell says how far logits ever are apart, of the greatest.

  tools/setup --venv && build/venv/bin/pip install torch transformers onnxscript
"""
import subprocess
import sys

import numpy as np
import onnx

import exported_decoders
from peer import ROOT, LeftOut, cpu_session, named, rondo, shapes, within
from rondo_session import Session
from walk import Growing, inputs_at, logits_apart, walk

TAKES = ("steps", "prompt", "length")
DEFAULTS = {"steps": 64}
BATCH = 2


def declare(parser):
    parser.add_argument("--exporters", default="script,dynamo,transformers")
    parser.add_argument("--tolerance", type=float, default=1e-4)


def cases(arguments):
    return named(arguments, exported_decoders.ALL)


def columns(arguments):
    return arguments.exporters.split(",")


def exported(name, exporter):
    folder = ROOT / "build/exported"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name.replace(' ', '_')}.{exporter}.onnx"
    if not path.exists():  # in a separate process, because exporters print much
        words = f"import exported_decoders as e; e.export({name!r}, {exporter!r}, {str(path)!r})"
        said = subprocess.run([sys.executable, "-c", words], cwd=ROOT / "tests/ort/cases", capture_output=True, text=True, check=False)
        if said.returncode != 0:
            lines = [line for line in said.stderr.splitlines() if "Error" in line] or ["Error"]
            raise LeftOut(f"not exported ({lines[-1].split(':')[0].split('.')[-1]})")
    return path


def compiled(arguments, path, encoded):
    plan = path.with_suffix(".rondo")
    dims = {port.name: [d.dim_param for d in port.type.tensor_type.shape.dim] for port in onnx.load(path).graph.input}
    batch, rows = dims["input_ids"]
    given = {names[0]: BATCH for name, names in dims.items() if names and (name == "attention_mask" or names[0] == batch)}
    given |= {f"prefill:{rows}": arguments.prompt, f"decode:{rows}": 1}
    if any("encoder_sequence_length" in names for names in dims.values()):
        given["encoder_sequence_length"] = encoded
    rondo(arguments, "compile", f"prefill={path}", f"decode={path}", "-o", plan, "--cache-length", arguments.length, *shapes(given),
          *arguments.compile.split())
    return plan


def compare(arguments, name, exporter):
    path = exported(name, exporter)
    encoded = exported_decoders.ENCODED.get(path.stem.split(".")[0], 7)
    session = Session(arguments.binaries.parent / "lib", compiled(arguments, path, encoded))
    peer, random, worst = cpu_session(path), np.random.default_rng(arguments.seed), 0.0
    for _ in range(2):
        growing = Growing(peer, BATCH, encoded=encoded)
        # A cache's own number of positions is passed through.
        scalars = {port.name: np.array(8, np.int64) for port in peer.get_inputs() if not port.shape}
        if any(array.size for array in growing.past.values()):  # states of fixed size: unlike cache rows, a new text would read the old content
            session.reset()

        def inputs(_, tokens, done):
            given = inputs_at(arguments, tokens, done) | scalars
            mask = given["attention_mask"]
            mask[1, :2] = "attention_mask" not in growing.ports
            return given | {"position_ids": np.maximum(mask.cumsum(1) - 1, 0)[:, done:done + tokens.shape[1]]}

        def seen():  # padding sees nothing
            for step, (tokens, expected, got) in enumerate(walk(arguments, growing, session, random.integers(
                    0, exported_decoders.WORDS, (BATCH, arguments.prompt)), inputs)):
                at = slice(0 if step else 2, None)
                yield tokens, {"logits": expected["logits"][:, at]}, {"logits": got["logits"][:, at]}

        worst = max(worst, *logits_apart(seen()))
    session.close()
    return within(worst, arguments.tolerance)
