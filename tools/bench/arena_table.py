#!/usr/bin/env python3
"""Prints a markdown table: arenas of plans, two lower bounds, and the memory that ONNX Runtime and PyTorch take for the same models.

    tools/setup --venv
    build/venv/bin/python tools/bench/arena_table.py --models FOLDER [--targets host,cuda:sm_90a] [--torch F.json] [MODEL.onnx ...]

FOLDER is searched for models, including its subfolders; the given models are added. Each is compiled (missing weights are synthetic) for each
target. The table shows, for each plan: the arena; the plan's own bound (the largest sum of bytes alive at a step); the bound that
`lower_bounds.py` computes from the ONNX graph and the order alone; and the time for ordering the steps and packing the arena. Exit status 1 if
an arena, or a bound from ONNX, is above the plan's bound. If the two bounds differ, the values that the plan holds at its fullest step and that
the ONNX graph does not have follow. --torch: the file that torch_peak.py wrote on a GPU. --save F.json keeps the measurements, and --read F.json
prints them again, also with another --torch.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import onnx

import lower_bounds
from ort_arena import arena_of
from ort_peer import ROOT

SOURCE = re.compile(r'(\S+) "([^"]*)"')


def told(*command):
    environment = dict(os.environ)
    nvrtc = subprocess.run([str(ROOT / "tools/setup"), "--nvrtc"], capture_output=True, text=True, check=False).stdout.strip()
    if nvrtc:
        environment["LD_LIBRARY_PATH"] = nvrtc + ":" + environment.get("LD_LIBRARY_PATH", "")
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout)


def name_of(model):
    """The model's name, or its folder's if the file is called model.onnx."""
    return model.parent.name if model.stem == "model" else model.stem


def besides(plan, graph, live):
    """Names the largest buffers at the plan's fullest step that the ONNX graph does not have."""
    buffers = [b for b in plan["buffers"] if b["kind"] not in ("constant", "state") and b.get("last_step", -1) >= 0]
    at = {step: [b for b in buffers if b["first_step"] <= step <= b["last_step"]] for step in range(len(graph.steps))}
    fullest = max(at, key=lambda step: sum(lower_bounds.rounded(b["bytes"]) for b in at[step]))
    known = lower_bounds.live_at(graph.lives(), fullest)
    rest = [b for b in at[fullest] if known.get(b["name"], 0) < b["bytes"]]
    rest.sort(key=lambda b: -b["bytes"])
    words = []
    for buffer in rest[:3]:
        name = f"`{buffer['name']}`" if buffer["name"] else f"unnamed {buffer['dtype']} {buffer['shape']}"
        words.append(f"{name} {buffer['bytes']}" + (f" (graph: {known[buffer['name']]})" if buffer["name"] in known else ""))
    return f"step {fullest}: " + (", ".join(words) or "in-place writes that no kernel does")


def why_not(failure):
    """The reason of a failure in a few words."""
    missing = re.search(r"Could not find an implementation for (\S+)", failure)
    return f"no kernel for {missing[1]}" if missing else failure[:80]


def measure(model, target, rondo, folder):
    plan = folder / "plan.rondo"
    made = told(rondo, "compile", model, "-o", plan, "--target", target, "--synthetic-weights", 1, "--json")
    shown = told(rondo, "inspect", plan, "--json", "--steps", "--buffers")
    program, = shown["programs"]
    steps = [[name for _, name in SOURCE.findall(step["source"])] for step in program["steps"]]
    states = [port["name"] for port in program["inputs"] + program["outputs"] if port["state"]]
    graph = lower_bounds.Graph(onnx.load(str(model), load_external_data=False), steps, states)
    bound, _, live, _ = lower_bounds.lower_bound(graph)
    planning = sum(p["seconds"] for p in made["passes"] if p["pass"] in ("schedule", "memory"))
    report, = made["programs"]
    row = {"steps": len(steps), "given": report["peak_before"], "arena": program["arena_bytes"],
           "bound": program["arena_lower_bound"], "proven": report["peak_after"] <= report["peak_least"],
           "graph": bound, "planning": planning}
    if row["bound"] > bound:
        row["why"] = besides(shown, graph, live)
    return row


def print_plans(rows, target):
    print(f"\n## {target}\n")
    print("| model | steps | peak, model's order | arena | plan's bound | arena / bound | order | bound from ONNX | plan's / ONNX's | planning ms |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, row in rows.items():
        print(f"| {name} | {row['steps']} | {row['given']:,} | {row['arena']:,} | {row['bound']:,} | "
              f"{row['arena'] / max(row['bound'], 1):.2f} | {'proven least' if row['proven'] else 'best found'} | {row['graph']:,} | "
              f"{row['bound'] / max(row['graph'], 1):.3f} | {row['planning'] * 1e3:.1f} |")
    differing = {name: row["why"] for name, row in rows.items() if "why" in row}
    if differing:
        print("\nWhere the plan needs more than the ONNX graph says, the largest that it holds at its fullest step:\n")
        for name, why in differing.items():
            print(f"- {name}: {why}")


def print_peers(rows, peers, torch):
    print("\n## Beside others: bytes of one run, without weights\n")
    print(f"PyTorch: {torch['torch']}, {torch['device']}.\n" if torch else "PyTorch: not measured.\n")
    print("| model | Rondo, host | ONNX Runtime, CPU: arena | its inputs | together / Rondo | Rondo, GPU | PyTorch eager: peak | its inputs | together / Rondo |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, by_target in rows.items():
        host = by_target.get("host", {}).get("arena")
        gpu = next((row["arena"] for target, row in by_target.items() if target != "host"), None)
        cells = []
        for mine, other in ((host, peers.get(name, {})), (gpu, torch.get("models", {}).get(name, {}))):
            taken = other.get("run", other.get("eager", {}).get("run"))
            cells.append(f"{mine:,}" if mine else "-")
            if taken is None:
                cells += [why_not(other.get("failed", "-")), "-", "-"]
            else:
                total = taken + other["inputs"]
                cells += [f"{taken:,}", f"{other['inputs']:,}", f"{total / mine:.1f}" if mine else "-"]
        print(f"| {name} | " + " | ".join(cells) + " |")


def arguments_given():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("more", nargs="*", type=pathlib.Path, metavar="MODEL.onnx")
    parser.add_argument("--models", type=pathlib.Path, help="a folder with models")
    parser.add_argument("--targets", default="host,cuda:sm_90a")
    parser.add_argument("--rondo", type=pathlib.Path, default=ROOT / "build/release/bin/rondo")
    parser.add_argument("--torch", type=pathlib.Path)
    parser.add_argument("--no-ort", action="store_true", help="leave ONNX Runtime out")
    parser.add_argument("--save", type=pathlib.Path)
    parser.add_argument("--read", type=pathlib.Path)
    return parser.parse_args()


def measure_all(arguments):
    """{"targets", "rows": {model: {target: row}}, "peers": {model: the result of arena_of}}"""
    models = [*(sorted(arguments.models.rglob("*.onnx")) if arguments.models else []), *arguments.more]
    rows, peers, targets = {}, {}, arguments.targets.split(",")
    with tempfile.TemporaryDirectory() as folder:
        for model in models:
            name = name_of(model)
            rows[name] = {}
            for target in targets:
                print(f"{name} for {target} ...", file=sys.stderr)
                rows[name][target] = measure(model, target, arguments.rondo, pathlib.Path(folder))
            if not arguments.no_ort:
                print(f"{name} in ONNX Runtime ...", file=sys.stderr)
                peers[name] = arena_of(model, folder)
    return {"targets": targets, "rows": rows, "peers": peers}


def main():
    arguments = arguments_given()
    measured = json.loads(arguments.read.read_text()) if arguments.read else measure_all(arguments)
    if arguments.save:
        arguments.save.write_text(json.dumps(measured, indent=1) + "\n")
    rows, peers = measured["rows"], measured["peers"]
    for target in measured["targets"]:
        print_plans({name: row[target] for name, row in rows.items()}, target)
    torch = json.loads(arguments.torch.read_text()) if arguments.torch else {}
    print_peers(rows, peers, torch)
    wrong = [name for name, row in rows.items() if any(r["arena"] != r["bound"] or r["bound"] < r["graph"] for r in row.values())]
    if wrong:
        sys.exit("above the plan's bound, or a bound from ONNX above the plan's: " + ", ".join(wrong))


if __name__ == "__main__":
    main()
