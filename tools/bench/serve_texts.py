#!/usr/bin/env python3
"""Measures tokens a second of `rondo serve` and the time to the first token: a table for tools/bench/results/serve.md.

  tools/bench/serve_texts.py --tokens 100       # nothing else should run
  tools/bench/serve_texts.py --only slots --target cuda:sm_90a
  tools/bench/serve_texts.py --grammar          # every text follows a regular expression

It serves pycoder in sessions of one text, and the small decoder of tests/data/open_shapes in one session of 16 slots. Clients (Python
threads) and server share the machine.
"""
import argparse
import http.client
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DATA = ROOT / "tests/data"


def complete(port, model, prompt, tokens, more):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.request("POST", "/v1/completions", json.dumps({"model": model, "prompt": prompt, "max_tokens": tokens, "temperature": 0.8, "ignore_eos": True, **more}))
    response = connection.getresponse()
    answer = json.loads(response.read())
    assert response.status == 200, answer
    connection.close()
    return answer["usage"]["completion_tokens"]


def ask(port, model, prompt, tokens, streams, more):
    """Returns tokens a second of all texts, and milliseconds to the first token of one more text beside them."""
    counts, first = [], []
    threads = [threading.Thread(target=lambda: counts.append(complete(port, model, prompt, tokens, more))) for _ in range(streams)]
    complete(port, model, prompt, 1, more)  # warm-up: starts what the first text would start
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.monotonic() - start
    for _ in range(5):
        begun = time.monotonic()
        complete(port, model, prompt, 1, more)
        first.append(time.monotonic() - begun)
    return sum(counts) / took, sorted(first)[2] * 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rondo", default=ROOT / "build/release/bin/rondo")
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--only", choices=("pycoder", "slots"))
    parser.add_argument("--target", default="host", help="host, or a GPU of this machine")
    parser.add_argument("--library-path", default="", help="where libnvrtc, NCCL and cuBLASLt lie")
    parser.add_argument("--grammar", action="store_true", help="texts follow a regular expression, of bytes that both models have")
    options = parser.parse_args()
    more = {"structured_outputs": {"regex": "[01]{1000}"}} if options.grammar else {}
    libraries = ["--library-path", options.library_path] if options.library_path else []
    work = pathlib.Path(tempfile.mkdtemp())
    model = DATA / "open_shapes/builder_decode/model.onnx"
    plans = {
        "pycoder": [f"{name}={DATA}/pycoder/{file}.onnx" for name, file in (("prefill", "prefill64"), ("decode", "decode"))],
        "slots": [f"prefill={model}", f"decode={model}", "--cache-length", "128", "--shape", "batch_size=16", "--shape", "prefill:sequence_length=16", "--shape",
                  "decode:sequence_length=1"],
    }
    try:
        print("| model | sessions | texts at once | tokens/s | first token alone, ms |\n|---|---|---|---|---|", flush=True)
        for name, line in plans.items():
            if options.only not in (None, name):
                continue
            folder = work / name
            folder.mkdir()
            subprocess.run([options.rondo, "compile", *line, "-o", folder / f"{name}.rondo", "-q", "--target", options.target, *libraries], check=True)
            sessions = "2" if name == "pycoder" else "1"
            with subprocess.Popen([options.rondo, "serve", folder, "--port", "0", "--sessions", sessions, "--threads", "1", "--python", sys.executable, *libraries], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True) as server:
                port = int(re.search(r":(\d+)$", server.stdout.readline().strip())[1])
                prompt = "import os" if name == "pycoder" else [1, 2, 3, 4]
                for streams in (1, 4, 16):
                    rate, first = ask(port, name, prompt, options.tokens, streams, more)
                    print(f"| {name} | {sessions} | {streams} | {rate:.0f} | {first:.1f} |", flush=True)
                server.terminate()
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
