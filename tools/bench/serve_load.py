#!/usr/bin/env python3
"""Measures requests per second and latency of `rondo serve`: a table for tools/bench/results/serve.md.

  tools/bench/serve_load.py --seconds 5        # needs ab (Debian's apache2-utils); nothing else should run

Clients (ab) and server share the machine. Each request is a KServe request with binary tensors on a kept connection. `slow clients`:
the number of further connections that send a byte a second.
"""
import argparse
import json
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DATA = ROOT / "tests/data/fixtures"
# name, model, input, shape of a request
MODELS = [("vit, 1 of 2 rows", "vit_op23", "a_0", [1, 3, 64, 64]), ("resnet, 1 of 2 rows", "resnet", "a_0", [1, 3, 64, 64]),
          ("mobilenetv2", "mobilenetv2", "a_0", [1, 3, 64, 64])]


def body_of(name, shape, folder):
    count = 1
    for dim in shape:
        count *= dim
    head = json.dumps({"inputs": [{"name": name, "datatype": "FP32", "shape": shape, "parameters": {"binary_data_size": 4 * count}}],
                       "parameters": {"binary_data_output": True}}).encode()
    path = folder / "body"
    path.write_bytes(head + bytes(4 * count))
    return path, len(head)


def ask(port, model, body, head, clients, seconds):
    """Returns requests a second, the median and the 99th percentile in milliseconds, and failures."""
    said = subprocess.run(["ab", "-q", "-k", "-c", str(clients), "-t", str(seconds), "-n", "10000000", "-p", str(body), "-T", "application/octet-stream", "-H",
                           f"Inference-Header-Content-Length: {head}", f"http://127.0.0.1:{port}/v2/models/{model}/infer"],
                          check=True, capture_output=True, text=True).stdout
    rate = float(re.search(r"Requests per second:\s+([\d.]+)", said)[1])
    half, most = (float(re.search(rf"\s{part}%\s+(\d+)", said)[1]) for part in (50, 99))
    failed = re.search(r"Non-2xx responses:\s+(\d+)", said)
    return rate, half, most, int(failed[1]) if failed else 0


class Slow:
    """Clients that send a byte per second, until the block ends."""

    def __init__(self, port, count):
        self.ended = threading.Event()
        self.clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
        for client in self.clients:
            client.send(b"POST /v2/models/vit/infer HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n")
        self.thread = threading.Thread(target=self.drip)
        self.thread.start()

    def drip(self):
        while not self.ended.wait(1):
            for client in self.clients:
                try:
                    client.send(b"x")
                except OSError:
                    pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        for client in self.clients:
            client.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rondo", default=ROOT / "build/release/bin/rondo")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--slow", type=int, default=900, help="slow clients of the last rows")
    options = parser.parse_args()
    work = pathlib.Path(tempfile.mkdtemp())
    try:
        plans = work / "plans"
        plans.mkdir()
        for _, model, _, _ in MODELS:
            subprocess.run([options.rondo, "compile", DATA / model / "model.onnx", "-o", plans / f"{model}.rondo", "-q"], check=True)
        with subprocess.Popen([options.rondo, "serve", plans, "--port", "0", "--sessions", "2", "--threads", "1"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True) as server:
            port = int(re.search(r":(\d+)$", server.stdout.readline().strip())[1])
            print("| model | clients | slow clients | requests/s | p50, ms | p99, ms | failed |\n|---|---|---|---|---|---|---|", flush=True)
            for title, model, name, shape in MODELS:
                body, head = body_of(name, shape, work)
                for clients in (1, 4, 16, 64):
                    rate, half, most, failed = ask(port, model, body, head, clients, options.seconds)
                    print(f"| {title} | {clients} | 0 | {rate:.0f} | {half:.0f} | {most:.0f} | {failed} |", flush=True)
            title, model, name, shape = MODELS[0]
            body, head = body_of(name, shape, work)
            with Slow(port, options.slow):
                rate, half, most, failed = ask(port, model, body, head, 16, options.seconds)
                print(f"| {title} | 16 | {options.slow} | {rate:.0f} | {half:.0f} | {most:.0f} | {failed} |", flush=True)
            server.terminate()
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
