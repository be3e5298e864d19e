#!/usr/bin/env python3
"""Decoders exported from transformers by both of PyTorch's exporters and by transformers' own (exported_decoders.py),
with a cache of a fixed length, against ONNX Runtime, whose caches grow: two texts at once, the second padded on the left; a prompt and --steps
tokens; then other texts in the same session. Prints how far logits ever are apart.

  tools/setup --venv && build/venv/bin/pip install torch transformers onnxscript
  build/venv/bin/python tools/bench/ort_exported.py
"""
import argparse
import os
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime as ort

import exported_decoders
from ort_peer import ROOT, cpu_session
from rondo_session import Session, run_fitted

BATCH = 2


class ExportError(Exception):
    pass


def exported(name, exporter):
    folder = ROOT / "build/exported"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name.replace(' ', '_')}.{exporter}.onnx"
    if not path.exists():
        # In a process of its own, since exporters print much.
        words = f"import exported_decoders as e; e.export({name!r}, {exporter!r}, {str(path)!r})"
        said = subprocess.run([sys.executable, "-c", words], cwd=ROOT / "tools/bench", capture_output=True, text=True,
                              check=False)
        if said.returncode != 0:
            lines = [line for line in said.stderr.splitlines() if "Error" in line] or ["Error"]
            raise ExportError(lines[-1].split(":")[0].split(".")[-1])
    return path


def encoded_positions(path):
    return exported_decoders.ENCODED.get(path.stem.split(".")[0], 7)


def present_of(past):
    """What comes out of a cache that goes in by this name."""
    return past.replace("input.", "output.") if past.startswith("input.") else past.replace("past_key_values", "present")


def is_cache(port):
    return port.name.startswith(("past", "input.past")) and len(port.shape) >= 3


def is_state(port):
    """Of one size, whatever is cached: it begins with zeros."""
    return is_cache(port) and all(str(d).isdigit() for d in port.shape[1:])


def compile_plan(arguments, path):
    plan = path.with_suffix(".rondo")
    dims = {port.name: [d.dim_param for d in port.type.tensor_type.shape.dim] for port in onnx.load(path).graph.input}
    batch, rows = dims["input_ids"]
    given = {names[0]: BATCH for name, names in dims.items() if names and (name == "attention_mask" or names[0] == batch)}
    given |= {f"prefill:{rows}": arguments.prompt, f"decode:{rows}": 1}
    if any("encoder_sequence_length" in names for names in dims.values()):
        given["encoder_sequence_length"] = encoded_positions(path)
    command = [arguments.binaries / "rondo", "compile", f"prefill={path}", f"decode={path}", "-o", plan,
               "--cache-length", arguments.length]
    for name, value in given.items():
        command += ["--shape", f"{name}={value}"]
    said = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if said.returncode != 0:
        raise RuntimeError(said.stderr.strip())
    return plan


def text(arguments, peer, session, encoded, random):
    """One pair of texts: how far logits are apart at most, of the greatest."""
    names = [port.name for port in peer.get_inputs()]
    past = {}
    if any(map(is_state, peer.get_inputs())):
        session.reset()  # what a text has left there is read, unlike rows of caches
    for port in peer.get_inputs():
        if is_cache(port) or port.name == "encoder_hidden_states":
            known = {0: BATCH, len(port.shape) - 2: encoded if "encoder" in port.name else 0}
            shape = [int(d) if str(d).isdigit() else known[i] for i, d in enumerate(port.shape)]
            past[port.name] = random.standard_normal(shape).astype(np.float32) * (not is_state(port))
        elif not port.shape:  # a cache's own number of positions, which comes out as it goes in
            past[port.name] = np.array(8, np.int64)
    tokens, done, apart, size = random.integers(0, exported_decoders.WORDS, (BATCH, arguments.prompt)), 0, 0.0, 0.0
    for step in range(arguments.steps + 1):
        total = done + tokens.shape[1]
        mask = np.zeros((BATCH, arguments.length), np.int64)
        mask[:, :total] = 1
        mask[1, :2] = "attention_mask" not in names
        positions = np.maximum(mask.cumsum(1) - 1, 0)[:, done:total]
        inputs = {"input_ids": tokens, "position_ids": positions, "attention_mask": mask[:, :total]}
        given = {name: array for name, array in (inputs | past).items() if name in names}
        results = dict(zip([port.name for port in peer.get_outputs()], peer.run(None, given)))
        fixed = inputs | {name: array for name, array in past.items() if "encoder" in name or array.ndim == 0}
        fixed |= {"attention_mask": mask, "past_sequence_length": np.array([done], np.int64)}
        got = run_fitted(session, "prefill" if step == 0 else "decode", fixed)["logits"]
        seen = slice(2, None) if step == 0 else slice(None)  # what stands for padding sees nothing
        expected = results["logits"]
        apart = max(apart, float(np.abs(got - expected)[:, seen].max()))
        size = max(size, float(np.abs(expected).max()))
        past |= {name: results[present_of(name)] for name in past if present_of(name) in results}
        tokens, done = expected[:, -1:].argmax(-1), total
    return apart / size


def compare(arguments, name, exporter):
    path = exported(name, exporter)
    session = Session(arguments.binaries.parent / "lib", compile_plan(arguments, path))
    peer, random = cpu_session(path, 1), np.random.default_rng(arguments.seed)
    worst = max(text(arguments, peer, session, encoded_positions(path), random) for _ in range(2))
    session.close()
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help=", ".join(exported_decoders.ALL))
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--exporters", default="script,dynamo,transformers")
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--prompt", type=int, default=5)
    parser.add_argument("--length", type=int, default=80)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tolerance", type=float, default=1e-4)
    arguments = parser.parse_args()
    print(f"ONNX Runtime {ort.__version__}, torch {exported_decoders.torch.__version__}, transformers "
          f"{exported_decoders.t.__version__}; two texts, one padded on the left, a prompt of {arguments.prompt}, "
          f"{arguments.steps} steps, a cache of {arguments.length}; logits apart at most, of the greatest\n")
    print("| model | torch.onnx.export | with dynamo | transformers.exporters |\n|---|---|---|---|")
    bad = []
    for name in arguments.models or exported_decoders.ALL:
        cells = []
        for exporter in arguments.exporters.split(","):
            try:
                exported(name, exporter)
            except ExportError as error:
                cells.append(f"not exported ({error})")
                continue
            try:
                worst = compare(arguments, name, exporter)
                cells.append(f"{worst:.1e}")
                if not worst <= arguments.tolerance:
                    bad.append(f"{name}, {exporter}: logits are {worst:.1e} apart, more than {arguments.tolerance:g}")
            except RuntimeError as error:
                cells.append("failed")
                bad.append(f"{name}, {exporter}: {error}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    return "\n".join(bad) or None


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
