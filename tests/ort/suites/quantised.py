"""Models of optimum-cli, quantised, narrowed and fused by ONNX Runtime's own tools (cases/quantised_by_tools.py).

A cell says how far results are apart at most, of the greatest. QuantizeLinear and DequantizeLinear are what they say, so that the
peer of models with them does not fuse them: its kernels for 8 bits limit sums of two products to 16 bits where the machine has no dot
products of bytes. Weights of s8 in quantised operators have 7 bits here (reduce_range), for the same reason.

  tools/setup --venv && build/venv/bin/pip install torch 'transformers<4.58' optimum-onnx
  build/venv/bin/python tests/ort/run quantised bert resnet --kinds '4 bits'
"""
import numpy as np

import optimum_models
import quantised_by_tools
from peer import LeftOut, slug, within
from suites.optimum import DIMS, decoder_apart, example, exported, inputs_of, outputs_apart
from widened import widened

TAKES = ("steps", "prompt", "batch", "length")
DEFAULTS = {"steps": 24}
MODELS = ["bert", "distilbert", "vit", "resnet", "mobilenet_v2", "gpt2", "llama"]


def declare(parser):
    parser.add_argument("--kinds", nargs="*", default=list(quantised_by_tools.ALL))


def columns(arguments):
    """Columns are models; rows are tools."""
    return arguments.cases or MODELS


def cases(arguments):
    return arguments.kinds


def feeds_of(path, sizes):
    """Three inputs for calibration."""
    known = {"past_sequence_length": 5, "past_sequence_length + sequence_length": 5 + DIMS["sequence_length"]} | DIMS | sizes

    def feeds():
        random = np.random.default_rng(9)
        return [{port.name: example(port, [known.get(d, d) for d in dims], random) for port, dims in inputs_of(path)} for _ in range(3)]

    return feeds


def compare(arguments, kind, base):
    sizes, path = optimum_models.SIZES.get(base, {}), exported(base) / "model.onnx"
    out = peer = path.parent.parent / f"quantised_{slug(kind)}.onnx"
    if not out.exists():
        try:
            quantised_by_tools.ALL[kind](path, out, feeds_of(path, sizes))
        except Exception as error:  # whatever the tool says
            raise LeftOut(f"not made: {type(error).__name__}: {str(error)[:80]}") from error
    if "accuracy" in kind or "f16" in kind:
        peer = out.with_suffix(".peer.onnx")
        widened(out, peer)
    optimised = "QDQ" not in kind or "bits" in kind
    if base in optimum_models.DECODERS:
        worst = decoder_apart(arguments, out, peer, optimised)
    else:
        worst = outputs_apart(arguments, out, peer, sizes, optimised)
    return within(worst, 1e-2 if "f16" in kind else 5e-3 if "16" in kind else 1e-4)
