#!/usr/bin/env python3
"""Models that optimum-onnx exports (optimum_models.py), quantised, narrowed and fused by ONNX Runtime's own tools (quantised_by_tools.py), against
ONNX Runtime: how far results are apart at most, of the greatest. QuantizeLinear and DequantizeLinear are what they say, so that the
peer of models with them does not fuse them: its kernels for 8 bits limit sums of two products to 16 bits where the machine has no dot
products of bytes. Weights of s8 in quantised operators have 7 bits here (reduce_range), for the same reason.

  tools/setup --venv && build/venv/bin/pip install torch 'transformers<4.58' optimum-onnx
  build/venv/bin/python tools/bench/ort_quantised.py bert resnet
"""
import argparse
import pathlib
import sys

import numpy as np
import onnx

import optimum_models
import quantised_by_tools
from ort_builders import widened
from ort_optimum import DIMS, decoder, dims_of, example, exported, outputs
from ort_peer import ROOT

MODELS = ["bert", "distilbert", "vit", "resnet", "mobilenet_v2", "gpt2", "llama"]


def feeds_of(path, sizes):
    """Three inputs to calibrate with."""
    def feeds():
        random, given = np.random.default_rng(9), []
        cached = 5
        known = {"past_sequence_length": cached, "past_sequence_length + sequence_length": cached + DIMS["sequence_length"]} | DIMS | sizes
        for _ in range(3):
            ports = onnx.load(path, load_external_data=False).graph.input
            given.append({port.name: example(port, [known.get(d, d) for d in dims_of(port)], random) for port in ports})
        return given

    return feeds


class ToolSays(Exception):
    pass


def compare(arguments, base, kind):
    sizes = optimum_models.SIZES.get(base, {})
    path = exported(base) / "model.onnx"
    out = path.parent.parent / ("quantised_" + "".join(c if c.isalnum() else "_" for c in kind) + ".onnx")
    if not out.exists():
        try:
            quantised_by_tools.ALL[kind](path, out, feeds_of(path, sizes))
        except Exception as error:  # whatever the tool says
            raise ToolSays(f"{type(error).__name__}: {str(error)[:80]}") from error
    peer = out
    if "accuracy" in kind or "f16" in kind:
        peer = out.with_suffix(".peer.onnx")
        widened(out, peer)
    optimised = "QDQ" not in kind or "bits" in kind
    if base in optimum_models.DECODERS:
        return decoder(arguments, out, peer, optimised)
    return outputs(arguments, out, peer, sizes, optimised=optimised)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=MODELS, help="of optimum_models.py")
    parser.add_argument("--kinds", nargs="*", default=list(quantised_by_tools.ALL))
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--prompt", type=int, default=5)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--length", type=int, default=80)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compile", default="", help="more options of rondo compile: '--target cuda:sm_90a'")
    arguments = parser.parse_args()
    print(f"| | {' | '.join(arguments.models)} |\n|---|{'---|' * len(arguments.models)}")
    bad = []
    for kind in arguments.kinds:
        cells = []
        for base in arguments.models:
            try:
                worst = compare(arguments, base, kind)
                cells.append(f"{worst:.1e}")
                if not worst <= (1e-2 if "f16" in kind else 5e-3 if "16" in kind else 1e-4):
                    bad.append(f"{base}, {kind}: {worst:.1e} apart")
            except ToolSays as error:
                cells.append("not made")
                print(f"{base}, {kind}: {error}", file=sys.stderr)
            except RuntimeError as error:
                cells.append("refused")
                bad.append(f"{base}, {kind}: {error}")
        print(f"| {kind} | {' | '.join(cells)} |", flush=True)
    return "\n".join(bad) or None


if __name__ == "__main__":
    sys.exit(main())
