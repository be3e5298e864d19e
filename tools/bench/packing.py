#!/usr/bin/env python3
"""Measures how long `rondo pack` takes for tight problems, and whether it fits them into their capacity.

  tools/bench/packing.py A.1048576.csv ...        files whose names contain the capacity
  tools/bench/packing.py --planted 1,2,3          problems with a planted packing, made from these seeds
  tools/bench/packing.py --rondo OLD --rondo NEW  side by side

A planted problem is a box of time and memory cut into pieces, with straight cuts, or also into windmills of five pieces (which
no straight cut separates). "Loose" problems shorten or shrink some pieces a little, and drop a few.
Prints a table with user CPU seconds (not wall time: the machine may be shared) and decisions of the exact search;
`over` is how far the best packing found ends above the capacity.
"""
import argparse
import json
import pathlib
import random
import re
import resource
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIDE = 1024  # of the box: steps, and units of 1024 bytes
SIZES = [50, 100, 200, 300, 400, 500]


def straight(box, rng):
    begin, end, low, high = box
    if rng.random() < 0.5:
        if end - begin < 4:
            return None
        cut = rng.randint(begin + 1, end - 1)
        return [(begin, cut, low, high), (cut, end, low, high)]
    if high - low < 4:
        return None
    cut = rng.randint(low + 1, high - 1)
    return [(begin, end, low, cut), (begin, end, cut, high)]


def windmill(box, rng):
    begin, end, low, high = box
    if end - begin < 12 or high - low < 12:
        return None
    t1, t2 = sorted(rng.sample(range(begin + 1, end), 2))
    m1, m2 = sorted(rng.sample(range(low + 1, high), 2))
    pieces = [(begin, t2, low, m1), (t2, end, low, m2), (t1, end, m2, high), (begin, t1, m1, high), (t1, t2, m1, m2)]
    if rng.random() < 0.5:
        pieces = [(a, b, low + high - d, low + high - c) for a, b, c, d in pieces]
    return pieces


def loosened(boxes, rng):
    out = []
    for begin, end, low, high in boxes:
        if rng.random() < 0.03:
            continue
        if rng.random() < 0.15:
            begin += int((end - begin) * rng.uniform(0, 0.3))
        if rng.random() < 0.15:
            high -= int((high - low) * rng.uniform(0, 0.2))
        out.append((begin, end, low, high))
    return out


def planted(count, kind, seed):
    """Rows (lower, upper, size) that fit into SIDE * 1024 bytes."""
    rng = random.Random(f"{count} {kind} {seed}")
    boxes = [(0, SIDE, 0, SIDE)]
    while len(boxes) < count:
        # Cut the largest of three random boxes, so that pieces have similar sizes.
        i = max((rng.randrange(len(boxes)) for _ in range(3)),
                key=lambda k: (boxes[k][1] - boxes[k][0]) * (boxes[k][3] - boxes[k][2]))
        cut = windmill if "windmills" in kind and rng.random() < 0.5 else straight
        pieces = cut(boxes[i], rng)
        if pieces:
            boxes[i:i + 1] = pieces
    if "loose" in kind:
        boxes = loosened(boxes, rng)
    rng.shuffle(boxes)
    return [(b * 1024, e * 1024, (h - l) * 1024) for b, e, l, h in boxes]


def problems(arguments, folder):
    for name in arguments.files:
        found = re.search(r"\.(\d+)\.csv$", name)
        if not found:
            sys.exit(f"{name}: no capacity in its name, as in A.1048576.csv")
        yield pathlib.Path(name).name, name, int(found[1])
    for seed in arguments.planted:
        for count in arguments.sizes:
            for kind in ("straight", "windmills", "straight, loose", "windmills, loose"):
                path = pathlib.Path(folder) / "problem.csv"
                rows = planted(count, kind, seed)
                path.write_text("id,lower,upper,size\n" + "".join(f"{i},{a},{b},{c}\n" for i, (a, b, c) in enumerate(rows)))
                yield f"{kind}, seed {seed}", str(path), SIDE * 1024


def measure(rondo, path, capacity, options):
    """Returns user seconds, bytes and search nodes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run([rondo, "pack", path, "--capacity", str(capacity), "--json", *options],
                          capture_output=True, text=True)
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    if done.returncode not in (0, 1) or not done.stdout:
        sys.exit(f"{rondo} pack {path}: {done.stderr}")
    said = json.loads(done.stdout)
    return seconds, said["bytes"], said.get("nodes", ""), said["buffers"]


def numbers(text):
    return [int(word) for word in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--planted", type=numbers, default=[], metavar="SEEDS")
    parser.add_argument("--sizes", type=numbers, default=SIZES, metavar="N,N,...", help="buffers of planted problems")
    parser.add_argument("--rondo", action="append", help="the command; several are compared")
    parser.add_argument("--options", default="", help="further options of rondo pack, such as '--rounds 500'")
    arguments = parser.parse_args()
    commands = arguments.rondo or [str(ROOT / "build/release/bin/rondo")]
    print("| problem | buffers | capacity |" + " seconds | nodes | over |" * len(commands))
    print("| --- |" + " --- |" * (2 + 3 * len(commands)))
    seconds, fitted = [[] for _ in commands], [0] * len(commands)
    with tempfile.TemporaryDirectory() as folder:
        for name, path, capacity in problems(arguments, folder):
            cells, buffers = "", 0
            for c, command in enumerate(commands):
                took, high, nodes, buffers = measure(command, path, capacity, arguments.options.split())
                over = "-" if high <= capacity else f"{100 * (high / capacity - 1):.1f} %"
                cells += f" {took:.2f} | {nodes} | {over} |"
                seconds[c].append(took)
                fitted[c] += high <= capacity
            print(f"| {name} | {buffers} | {capacity} |{cells}", flush=True)
    for c, command in enumerate(commands):
        times = sorted(seconds[c])
        print(f"\n{'command ' + str(c + 1) + ': ' if len(commands) > 1 else ''}{fitted[c]} of {len(times)} fit; "
              f"user seconds: median {times[len(times) // 2]:.2f}, most {times[-1]:.2f}")


if __name__ == "__main__":
    main()
