#!/usr/bin/env python3
"""Compares the compiler's estimates with measured times, by family. Needs no GPU.

Times come from reports with the rows that run_grid.py prints (tools/bench/results/operator-grid.md), from its --json files, or
from lines `NAME MICROSECONDS`. Estimates come from plans with the same names, of this or an older compiler.

  python3 tools/bench/operator_grid/estimates.py build/grid/*.rondo --times tools/bench/results/operator-grid.md
"""
import argparse
import json
import math
import pathlib
import re
import statistics
import subprocess

ROW = re.compile(r"(\S+)(?:\s+[\d.]+){2}\s+(?:[\d.]+|-)\s+([\d.]+)\s+(?:[\d.]+|-)\s+\S+\s*$")  # a row of run_grid.py
PAIR = re.compile(r"(\S+)\s+([\d.]+)\s*$")


def measured(paths):
    """{name: microseconds}, the median if a name has several times."""
    times = {}
    for path in paths:
        text = path.read_text()
        if path.suffix == ".json":
            found = [(row["name"], row["rondo"]) for row in json.loads(text)]
        else:
            found = [match.groups() for match in map(lambda line: ROW.match(line) or PAIR.match(line), text.splitlines()) if match]
        for name, time in found:
            times.setdefault(name, []).append(float(time))
    return {name: statistics.median(all_of) for name, all_of in times.items()}


def estimated(rondo, plan):
    """{program: estimate}. The program of a plan with one program gets the file's name."""
    text = subprocess.run([rondo, "inspect", plan, "--json"], stdout=subprocess.PIPE, check=True).stdout
    programs = json.loads(text)["programs"]
    return {plan.stem if len(programs) == 1 else p["name"]: p["estimated_us"] for p in programs}


def share_within(ratios, factor):
    return sum(1 / factor <= ratio <= factor for ratio in ratios) / len(ratios)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plans", nargs="+", type=pathlib.Path, help="a family each")
    parser.add_argument("--times", nargs="+", type=pathlib.Path, required=True)
    parser.add_argument("--rondo", default="build/release/bin/rondo")
    parser.add_argument("--worst", type=int, default=5, help="rows to print, of each family")
    arguments = parser.parse_args()
    times = measured(arguments.times)
    families = {plan.stem: estimated(arguments.rondo, plan) for plan in arguments.plans}
    single = {name for name, found in families.items() if list(found) == [name]}
    if single:  # whole models are one family
        families = {name: found for name, found in families.items() if name not in single} | {
            "models": {name: families[name][name] for name in single}}
    print("estimate / measured    rows  median  within 1.15  within 1.6  worst")
    everything = []
    for family, found in families.items():
        rows = [(found[name] / times[name], name) for name in found if name in times]
        if not rows:
            continue
        ratios = [ratio for ratio, _ in rows]
        everything += ratios
        rows.sort(key=lambda row: -abs(math.log(row[0])))
        worst = ", ".join(f"{name} {ratio:.2f}" for ratio, name in rows[:arguments.worst])
        print(f"{family:20} {len(rows):6} {statistics.median(ratios):7.2f} {share_within(ratios, 1.15):12.0%} "
              f"{share_within(ratios, 1.6):11.0%}  {worst}")
    if not everything:
        parser.error("no program of the plans has a time")
    print(f"{'all':20} {len(everything):6} {statistics.median(everything):7.2f} {share_within(everything, 1.15):12.0%} "
          f"{share_within(everything, 1.6):11.0%}")


main()
