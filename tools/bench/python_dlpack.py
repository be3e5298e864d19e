"""Tests the Python package on a GPU: PyTorch's CUDA tensors in and out through DLPack, without copies. Needs an NVIDIA GPU, torch and the package.

    pip install . && python3 tools/bench/python_dlpack.py [--target cuda:sm_90a] [--library-path DIRS]

Compares addresses and the runtime's count of copied bytes, orders a run after work on one of torch's streams, and times runs on device
memory beside runs on numpy arrays. The last line is `N passed, M failed`.
"""
import argparse
import asyncio
import pathlib
import sys
import time

import numpy
import torch

import rondo

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import onnx_bytes  # noqa: E402

ROWS, COLUMNS = 1024, 4096
passed, failed = 0, 0


def expect(what, holds):
    global passed, failed
    passed, failed = passed + bool(holds), failed + (not holds)
    print(f"{'passed' if holds else 'FAILED'}: {what}", flush=True)


def refused(what, call, *words):
    try:
        call()
    except rondo.Error as error:
        expect(f"{what}: {error}", all(word in str(error) for word in words))
    else:
        expect(f"{what}: is refused", False)


def plan_for(target, library_path):
    graph = onnx_bytes.Graph()
    graph.input("x", [ROWS, COLUMNS])
    graph.node("Add", ["x", "x"], ["y"], name="double")
    graph.output("y")
    return rondo.compile(onnx_bytes.model(graph), target=target, library_path=library_path)


def microseconds(call, count=200):
    for _ in range(20):
        call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    major, minor = torch.cuda.get_device_capability()
    parser.add_argument("--target", default=f"cuda:sm_{major}{minor}{'a' if major >= 9 else ''}")
    parser.add_argument("--library-path")
    options = parser.parse_args()
    plan = plan_for(options.target, options.library_path)
    runtime = rondo.Runtime("cuda", library_path=options.library_path or "")
    session = rondo.Session(plan, runtime)

    def copied():
        metrics = runtime.metrics()
        return metrics["input_bytes"] + metrics["output_bytes"]

    x, y = torch.rand(ROWS, COLUMNS, device="cuda"), torch.empty(ROWS, COLUMNS, device="cuda")
    addresses = x.data_ptr(), y.data_ptr()
    result = session.run({"x": x}, outputs={"y": y})
    expect("the output is the tensor that was given", result["y"] is y and (x.data_ptr(), y.data_ptr()) == addresses)
    expect("its values", torch.equal(y, x + x))
    expect("nothing was copied in or out", copied() == 0)

    made = session.run({"x": x})["y"]
    seen = torch.from_dlpack(made)
    again = torch.from_dlpack(made)
    expect("an output of Rondo's lies on the GPU", made.__dlpack_device__()[0] == 2 and seen.is_cuda)
    expect("torch sees it where it lies, twice", seen.data_ptr() == again.data_ptr() and seen.data_ptr() % 256 == 0)
    expect("its values", torch.equal(seen, x + x))
    expect("nothing was copied in or out", copied() == 0)
    del made, again
    kept = seen.clone()
    for _ in range(50):
        session.run({"x": torch.rand_like(x)})
    expect("it keeps its values as long as torch has it", torch.equal(seen, kept))

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        late = torch.zeros_like(x)
        for _ in range(200):
            late += 1  # these kernels still run when `run` is called
        ordered = session.run({"x": late}, outputs={"y": y})["y"]
    expect("a run begins after work on the caller's stream", bool((ordered == 400).all()))

    async def awaited():
        return await session.run_async({"x": x}, outputs={"y": y})
    expect("an awaited run", torch.equal(asyncio.run(awaited())["y"], x + x) and copied() == 0)

    host = session.run({"x": x.cpu().numpy()})["y"]
    expect("numpy in, numpy out", isinstance(host, numpy.ndarray) and numpy.array_equal(host, (x + x).cpu().numpy()))
    expect("which is counted as copied", copied() == 2 * x.nbytes)
    refused("a transposed tensor", lambda: session.run({"x": torch.rand(COLUMNS, ROWS, device="cuda").T}), "not contiguous")
    refused("another type", lambda: session.run({"x": x.double()}), "f32", "f64")
    on_host = rondo.Session(rondo.compile(_host_model()), rondo.Runtime("host"))
    refused("a GPU's tensor on the host", lambda: on_host.run({"x": x[:1, :4].contiguous()}), "cuda:0", "host")
    if torch.cuda.device_count() > 1:
        refused("a tensor of another GPU", lambda: session.run({"x": x.to("cuda:1")}), "cuda:1", "cuda:0")

    free = torch.cuda.mem_get_info()[0]
    for _ in range(1000):
        session.run({"x": x})
    expect("memory is flat over 1,000 runs", abs(torch.cuda.mem_get_info()[0] - free) < 64 << 20)
    array = x.cpu().numpy()
    print(f"one run of {x.nbytes >> 20} MiB: {microseconds(lambda: session.run({'x': x}, outputs={'y': y})):.1f} us on given tensors, "
          f"{microseconds(lambda: session.run({'x': x})):.1f} us with a new output on the GPU, "
          f"{microseconds(lambda: session.run({'x': array}), 20):.1f} us on numpy arrays")
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed != 0)


def _host_model():
    graph = onnx_bytes.Graph()
    graph.input("x", [1, 4])
    graph.node("Add", ["x", "x"], ["y"])
    graph.output("y")
    return onnx_bytes.model(graph)


if __name__ == "__main__":
    main()
