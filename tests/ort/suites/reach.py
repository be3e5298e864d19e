"""The promises of plans with buckets and of models with data-dependent sizes, a line each: one command for all of them.

Buckets: random true shapes against plans of just that shape (tests/e2e/buckets_test.cc; a thousand shapes of an encoder for batches to 32 and lengths to
512 take some minutes), the time that a choice takes, and what is refused. Sizes: suites/data_sizes.py, beside ONNX Runtime, over --draws inputs.

  build/venv/bin/python tests/ort/run reach
"""
import json
import subprocess
import tempfile

import data_size_models
from peer import named
from suites import data_sizes

HEADS = ("compared", "agree")
GTESTS = {
    "buckets: encoder, batch 1, 8, 32, length 16 to 512, shapes of random size": ("buckets_test", "BucketsTest.DISABLED_AnEncoderOfManySizesRunsAnyOfThem"),
    "buckets: convolutions, any batch": ("buckets_test", "BucketsTest.AConvolutionNetworkRunsAnyBatch"),
    "buckets: convolutions and pools, any picture": ("buckets_test", "BucketsTest.ConvolutionsAndPoolsRunAnyPictureSize"),
    "buckets: transposed convolutions and Resize, any length": ("buckets_test", "BucketsTest.WhatMakesSignalsLongerRunsAnyLength"),
    "buckets: prefill of a decoder, any length": ("buckets_test", "BucketsTest.APrefillRunsAnyLength"),
    "buckets: what mixes along a padded dimension is refused": ("buckets_test", "BucketsTest.WhatMixesAlongAPaddedDimensionIsRefusedWithItsNode"),
    "buckets: a choice takes 1 µs at most, runs allocate nothing": ("buckets_api_test", "BucketsApiTest.ChoosingTakesAtMostAMicrosecondAndRunsAllocateNothing"),
}
SIZES = {f"sizes: {name}": name for name in data_size_models.ALL}


def declare(parser):
    data_sizes.declare(parser)


def cases(arguments):
    return named(arguments, GTESTS | SIZES)


def compare(arguments, name):
    if name in SIZES:
        (draws, _, agree), problem = data_sizes.compare(arguments, SIZES[name])
        return [f"{draws} inputs", agree], problem
    binary, test = GTESTS[name]
    if not (arguments.binaries / binary).is_file():
        return ["", "no"], f"{binary} is not there: build it first"
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        done = subprocess.run([arguments.binaries / binary, f"--gtest_filter={test}", "--gtest_also_run_disabled_tests", f"--gtest_output=json:{out.name}"],
                              capture_output=True, text=True, check=False)
        said = json.load(open(out.name, encoding="utf-8")) if done.returncode in (0, 1) else {}
    runs = [test for suite in said.get("testsuites", []) for test in suite["testsuite"]]
    if done.returncode == 0 and len(runs) == 1:
        return [f"{runs[0]['runs']} shapes" if "runs" in runs[0] else f"{runs[0]['choose_ns']} ns" if "choose_ns" in runs[0] else "1", "yes"], None
    return ["", "no"], "\n".join(line for line in done.stdout.splitlines() if "[" not in line)[-600:] or f"{binary} has no {test}"
