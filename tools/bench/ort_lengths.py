#!/usr/bin/env python3
"""What models make of how much is cached (length_models.py), with a cache of a fixed length, against ONNX Runtime, whose
caches grow. Each is either the same at every number of cached positions or refused, with a sentence: a third thing is an
error of rondo's. A prompt, --steps tokens, and another text in the same session.

  tools/setup --venv
  build/venv/bin/python tools/bench/ort_lengths.py            # or some: 'mask: a branch', 'shapes:'
"""
import argparse
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime as ort

import length_models
from decoder_models import WORDS
from ort_decoders import Growing, compile_model
from ort_peer import ROOT
from rondo_session import Session, run_fitted


def text(arguments, path, session, random):
    """One text through both: how far the logits are apart at most, of the greatest."""
    growing = Growing(path, arguments.batch)
    tokens, done, apart, size = random.integers(0, WORDS, (arguments.batch, arguments.prompt)), 0, 0.0, 0.0
    for step in range(arguments.steps + 1):
        rows = tokens.shape[1]
        total = done + rows
        # What lies behind the real positions is anything.
        bias = random.standard_normal((arguments.batch, 1, rows, arguments.length)).astype(np.float32)
        mask = np.zeros((arguments.batch, arguments.length), np.int64)
        mask[:, :total] = 1
        fixed = {"input_ids": tokens, "attention_mask": mask, "attention_bias": bias,
                 "past_sequence_length": np.array([done], np.int64),
                 "seqlens_k": np.full(arguments.batch, total - 1, np.int32), "total_sequence_length": np.array(total, np.int32)}
        grown = fixed | {"attention_mask": mask[:, :total], "attention_bias": bias[..., :total]}
        expected = growing.run({name: array for name, array in grown.items() if name in growing.names})
        results = run_fitted(session, "prefill" if step == 0 else "decode", fixed)
        got = [results["logits"]]
        wanted = [expected]
        if "shown" in growing.results:  # 0 behind the last real position
            shown = np.where(np.isfinite(growing.results["shown"]), growing.results["shown"], 0)
            wanted.append(np.pad(shown, [(0, 0)] * (shown.ndim - 1) + [(0, arguments.length - shown.shape[-1])]))
            got.append(np.where(np.isfinite(results["shown"]), results["shown"], 0))
        for one, other in zip(got, wanted):
            apart = max(apart, float(np.nan_to_num(np.abs(one.astype(np.float64) - other), nan=np.inf).max()))
        size = max(size, float(np.abs(expected).max()))
        tokens, done = expected[:, -1:].argmax(-1), total
    return apart / size


def compare(arguments, name):
    folder = ROOT / "build/lengths"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ("".join(c if c.isalnum() else "_" for c in name) + ".onnx")
    onnx.save(length_models.ALL[name](), path)
    growing = Growing(path, arguments.batch)  # first, for what ONNX Runtime refuses
    compile_model(arguments, path, path.with_suffix(".rondo"), arguments.prompt)
    session, random = Session(arguments.binaries.parent / "lib", path.with_suffix(".rondo")), np.random.default_rng(1)
    worst = max(text(arguments, path, session, random) for _ in range(2))
    session.close()
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="what names begin with: " + ", ".join(length_models.FORMS))
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--prompt", type=int, default=5)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--tolerance", type=float, default=1e-4)
    arguments = parser.parse_args()
    print(f"ONNX Runtime {ort.__version__}; batch {arguments.batch}, a prompt of {arguments.prompt}, {arguments.steps} "
          f"steps, two texts, a cache of {arguments.length}\n\n| model | |\n|---|---|")
    bad, counts = [], {"the same": 0, "refused": 0}
    for name in length_models.ALL:
        if not any(name.startswith(start) for start in arguments.models or [""]):
            continue
        try:
            worst = compare(arguments, name)
        except RuntimeError as error:
            said = str(error).strip().splitlines()
            refused = len(said) == 1 and ("--cache-length" in said[0] or "only a run knows" in said[0])
            counts["refused"] += refused
            print(f"| {name} | {'refused' if refused else 'failed'}: {' '.join(said)} |", flush=True)
            if not refused:
                bad.append(f"{name}: {error}")
            continue
        print(f"| {name} | {worst:.1e} |", flush=True)
        if worst <= arguments.tolerance:
            counts["the same"] += 1
        else:
            bad.append(f"{name}: logits are {worst:.1e} apart, more than {arguments.tolerance:g}")
    print("\n" + ", ".join(f"{count} {what}" for what, count in counts.items()) + f", {len(bad)} neither")
    return "\n".join(bad) or None


if __name__ == "__main__":
    sys.exit(main())
