"""Quantised models beside the f32 models that they were made of, on Rondo's host driver and ONNX Runtime, timed run by run, in turns.

Cases are files that tools/bench/quantised_models.py has written. Each quantised model, its f32 model, and both on ONNX Runtime's CPU
provider take turns. Prints for each the median milliseconds of the processor; the median of the ratios of
neighbouring runs of the quantised plan and the f32 plan; the plan's weights over the model's file; and, in per mille of
the greatest output, how far (root mean square) the outputs are from ONNX Runtime's as the model is written, how far
ONNX Runtime's own are from those when it fuses, and how far those are from f32. With --before, the quantised model as
another build compiles and runs it takes turns with them: the last column is its ratio to f32, and says so if its outputs
are not the same bits.

  build/venv/bin/python tools/bench/quantised_models.py build/quantised
  build/venv/bin/python tests/ort/run quantised_networks build/quantised
  build/venv/bin/python tests/ort/run quantised_networks build/kinds --only 'unet*' --instructions avx2 --before build/before
"""
import argparse
import json
import pathlib
import statistics

import numpy as np

from peer import ROOT, cpu_session, rondo
from suites.networks import OnnxRuntime, Rondo

TIMES = True


def declare(parser):
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--before", type=pathlib.Path, nargs=1, default=[], help="another build, such as of an older commit")
    parser.add_argument("--only", nargs="+", default=["*"], help="models whose names are like one of these")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--instructions", help="of Rondo: avx512, avx2 or baseline; by default the best there are")
    parser.add_argument("--wall", action="store_true", help="times of the wall")
    parser.add_argument("--no-ort", dest="ort", action="store_false", help="leave out ONNX Runtime's times")


def cases(arguments):
    """The given files and the contents of folders. f32 models are the reference for the others."""
    global HEADS
    HEADS = ["Rondo f32, ms", "Rondo, ms"] + ["ORT f32, ms", "ORT, ms"] * arguments.ort + [
        "Rondo over its f32", "weights over file", "from ORT, ‰", "ORT from itself, ‰", "ORT from f32, ‰"] + ["before"] * len(arguments.before)
    paths = [pathlib.Path(name) for name in arguments.cases]
    files = sorted(file for path in paths for file in (path.glob("*.onnx") if path.is_dir() else [path]))
    files = [file for file in files if any(file.match(f"{like}.onnx") for like in arguments.only)]
    return [file for file in files if not file.name.endswith(".f32.onnx")] or arguments.parser.error("name a folder of quantised_models.py")


def per_mille(a, b, scale):
    return 1000 * float(np.sqrt(np.mean((a - b) ** 2))) / scale


def compare(arguments, model):
    f32 = model.parent / f"{model.name.split('.')[0]}.f32.onnx"
    session = cpu_session(f32)
    x, y = session.get_inputs()[0], session.get_outputs()[0]
    inputs = {x.name: np.random.default_rng(7).standard_normal(x.shape).astype(np.float32)}
    real, written, fused = (cpu_session(m, optimised=o).run(None, inputs)[0] for m, o in ((f32, False), (model, False), (model, True)))
    threads = f"{arguments.threads}:{arguments.instructions}" if arguments.instructions else arguments.threads
    sources = [(f32, arguments.binaries), (model, arguments.binaries)] + [(model, build / "bin") for build in arguments.before]
    runners, plans = [], []
    for number, (source, binaries) in enumerate(sources):
        folder = ROOT / "build/bench" / f"{source.stem}{'.before' * (number > 1)}"
        folder.mkdir(parents=True, exist_ok=True)
        plans.append(folder / "plan.rondo")
        rondo(argparse.Namespace(binaries=binaries), "compile", source, "-o", plans[-1])
        runners.append(Rondo(binaries, plans[-1], threads, folder, inputs))
    runners += [OnnxRuntime(source, arguments.threads, inputs, np.empty_like(real)) for source in (f32, model) if arguments.ort]
    times = [[] for _ in runners]
    for number in range(arguments.runs + 2):
        for runner, of_it in zip(runners, times):
            milliseconds = runner.run()[arguments.wall]
            of_it += [milliseconds] if number >= 2 else []
    results, scale = [runner.result(y.name) for runner in runners[1:len(sources)]], float(np.max(np.abs(real)))
    for runner in runners[:len(sources)]:
        runner.close()
    weights = json.loads(rondo(arguments, "inspect", plans[1], "--json"))["requirements"]["devices"][0]["weights"]

    def ratio(quantised):
        return f"{statistics.median(q / f for f, q in zip(times[0], quantised)):.2f}"

    cells = [f"{statistics.median(t):.2f}" for t in times[:2] + times[len(sources):]] + [ratio(times[1]), f"{weights / model.stat().st_size:.2f}"]
    cells += [f"{per_mille(a, b, scale):.1f}" for a, b in ((results[0], written), (fused, written), (written, real))]
    cells += [ratio(t) + ("" if np.array_equal(results[0], r) else f" ({per_mille(results[0], r, scale):.1f} ‰ apart)")
              for t, r in zip(times[2:len(sources)], results[1:])]
    return cells, None
