"""Makes a wheel from a build, installs it into a fresh virtual environment, and runs this folder's tests there; see README.md.

    in_fresh_environment.py --source CHECKOUT --build BUILD --work FOLDER [pytest's arguments]

The tests use the packages (numpy, pytest, onnxruntime and so on) of the Python that runs this script. It downloads nothing.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig

NEEDED = ("numpy", "pytest", "nanobind", "scikit_build_core")


def run(*command, **options):
    command = [str(word) for word in command]
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stdout}")
    return done.stdout


def wheel_of(source, build, folder):
    run(sys.executable, "-m", "pip", "wheel", source, "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check",
        "-w", folder, "-C", "cmake.source-dir=tools/python/prebuilt", "-C", f"cmake.define.RONDO_BUILD={build}",
        "-C", f"build-dir={folder / 'build'}")
    return next(folder.glob("rondo-*.whl"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("source", "build", "work"):
        parser.add_argument("--" + name, required=True, type=pathlib.Path)
    options, pytest_arguments = parser.parse_known_args()
    missing = [name for name in NEEDED if subprocess.run([sys.executable, "-c", f"import {name}"], capture_output=True).returncode]
    if missing:
        print(f"skipped: {sys.executable} has no {', '.join(missing)}: tools/setup --python")
        return
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)
    wheel = wheel_of(options.source, options.build, options.work)
    environment = options.work / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    site = next(environment.glob("lib/python*/site-packages"))
    run(sys.executable, "-m", "pip", "install", "--ignore-installed", "--no-deps", "--no-index", "--disable-pip-version-check", "--prefix", environment, wheel)
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = environment / "bin/python"
    variables = dict(os.environ, RONDO_SOURCE=str(options.source), PYTHONDONTWRITEBYTECODE="1")
    run(environment / "bin/rondo", "--version", env=variables)
    tests = subprocess.run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", options.source / "tests/python", *pytest_arguments],
                           env=variables, cwd=options.work)
    sys.exit(tests.returncode)


main()
