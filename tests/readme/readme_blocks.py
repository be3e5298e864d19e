"""Runs every code block of the READMEs and the documentation as printed; see README.md here."""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

# The prepared folder (write_models.cc) in which the blocks of a page, or of a section of it, run.
FOLDERS = {
    ("tools/docs/many-gpus.md", "Models with their own collectives"): "collective",
    ("tools/docs/custom-operators.md", None): "ops",
    ("tools/examples/custom_ops/README.md", None): "ops",
}

# Commands that this test must not run, and what runs them. Matched from the beginning of the command.
ELSEWHERE = {
    r"\./tools/quickstart": "minutes of building; tools/quickstart builds what it runs",
    r"\./tools/test": "runs this test",
    r"tools/fuzz ": "builds with sanitizers for minutes; fuzz_test runs its targets",
    r"tests/mutation/mutate.py (?!.*--list)": "builds and tests for minutes; mutation_self_test runs its parts",
    r"cmake --build ": "the build that this test is part of",
    r"python3 tools/examples/custom_ops/make_model.py": "needs Python's onnx; write_models.cc writes the same model",
    r"\S*python3? (tools/bench|tests/ort|tests/onnx_suite)/": "needs a GPU, PyTorch or ONNX Runtime",
    r"(mpirun|torchrun|srun) ": "tests/processes/command_test.sh starts processes as these do",
    r"\S*rondo compile first=decoder_model_merged.onnx": "needs Optimum's export; tests/ort/run merged makes and compares such",
    r"\S*rondo compile encoder.onnx": "needs a model with symbolic dimensions; tests/e2e/buckets_test.cc makes and runs such",
    r"\S*rondo compile encode=encoder_model.onnx": "needs the three exports of a model; tests/ort/run encoders makes and compares them",
    r"\S*rondo generate t5.rondo": "the same",
    r"tools/generate t5.rondo": "the same; tests/tools/tokenizer_test.sh has a source tokenized",
    r"pip (install|wheel) \.": "builds all of Rondo; tests/python installs a wheel of this build",
    r"tritonserver ": "needs Triton; tests/triton/triton_test.py starts one where it is installed",
    r"apt install ": "needs root; tests/embed/package_test.sh unpacks the packages and uses them",
    r"docker ": "builds all of Rondo in a container",
}

# Commands that need a GPU: without one they must say so.
NEEDS_GPU = [r"\S*rondo tune ", r"\S*rondo check \S+ --kernels", r"\S*rondo run .*--driver cuda"]

# Commands that need a Python package in the source's build/venv; skipped if it is not installed.
NEEDS_PACKAGE = {r"curl .*(response_format|structured_outputs)": "llguidance"}

CPP_FRAME = """
#include <rondo/rondo_flight.h>
#include <rondo/rondo_host.h>
#include <rondo/rondo_trust.h>
#include <cstdint>
#include <vector>
#include <rondo/rondo.hpp>
#include <rondo/rondo_weights.hpp>
int Complain(const char*) { return 1; }
int main() {
  const std::vector<int64_t> token = {1};
  std::vector<float> logits(256);
%s
  return 0;
}
"""

CMAKE_FRAME = """
cmake_minimum_required(VERSION 3.25)
project(readme LANGUAGES C CXX)
find_package(GTest REQUIRED)
file(WRITE ${CMAKE_BINARY_DIR}/service.cc "#include <rondo/rondo.hpp>\\nint main() { rondo::Plan plan; }\\n")
file(WRITE ${CMAKE_BINARY_DIR}/test.cc "#include <rondo/testing.h>\\nTEST(A, Plan) { EXPECT_PLAN_OK(\\"p\\"); }\\n")
add_executable(service ${CMAKE_BINARY_DIR}/service.cc)
add_executable(service_test ${CMAKE_BINARY_DIR}/test.cc)
%s
"""


TEST_FRAME = """
cmake_minimum_required(VERSION 3.25)
project(readme LANGUAGES C CXX)
find_package(GTest REQUIRED)
find_package(rondo REQUIRED)
add_executable(block block.cc)
target_link_libraries(block PRIVATE rondo::testing rondo::host GTest::gmock GTest::gtest_main)
"""


class Block:
    def __init__(self, page, section, line, language, text):
        self.page, self.section, self.line, self.language, self.text = page, section, line, language, text

    def name(self):
        return f"{self.page}:{self.line}"


def blocks_of(page, text):
    """Yields fenced blocks, and indented ones after a blank line, with the title of their section."""
    blocks, section, lines = [], None, text.split("\n")
    i = 0
    while i < len(lines):
        line = lines[i]
        if line.startswith("#"):
            section = line.lstrip("#").strip()
        if line.startswith("```"):
            end = next(j for j in range(i + 1, len(lines)) if lines[j].startswith("```"))
            blocks.append(Block(page, section, i + 2, line[3:].strip() or "sh", "\n".join(lines[i + 1:end])))
            i = end + 1
        elif line.startswith("    ") and i > 0 and lines[i - 1] == "":
            end = i
            while end < len(lines) and (lines[end].startswith("    ") or lines[end] == ""):
                end += 1
            blocks.append(Block(page, section, i + 1, "sh", "\n".join(l[4:] for l in lines[i:end]).rstrip()))
            i = end
        else:
            i += 1
    return blocks


def statements_of(text):
    """The commands of a shell block. Each line is one, except that a loop from `for` to `done`, or lines joined by a backslash, are one."""
    statement, depth = [], 0
    for line in text.split("\n"):
        statement.append(line)
        depth += len(re.findall(r"^\s*for\b", line)) - len(re.findall(r"^\s*done\b", line))
        if depth > 0 or line.endswith("\\") or not line.strip():
            continue
        yield "\n".join(statement)
        statement = []


class Runner:
    def __init__(self, options):
        self.options = options
        self.work = pathlib.Path(options.work)
        self.failures, self.used, self.ran, self.left = [], set(), 0, 0
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        self.must([options.models, str(self.work / "models")])
        self.environment = dict(os.environ, PATH=f"{options.build}/bin:{os.environ['PATH']}",
                                XDG_CACHE_HOME=str(self.work / "cache"))

    def must(self, command):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{command}: {done.stdout}{done.stderr}")

    def folder_for(self, block):
        """A folder with the models of the block's section, and links to the checkout's files."""
        kind = "product"
        for key in ((block.page, block.section), (block.page, None)):
            if key in FOLDERS:
                self.used.add(key)
                kind = FOLDERS[key]
                break
        folder = self.work / re.sub(r"\W+", "_", f"{block.page}_{block.section}_{kind}")
        if not folder.exists():
            shutil.copytree(self.work / "models" / kind, folder)
            for name in ("tools", "tests"):
                (folder / name).symlink_to(pathlib.Path(self.options.source) / name)
            (folder / "build").mkdir()
            (folder / "build" / "release").symlink_to(self.options.build)
            (folder / "build" / "venv").symlink_to(pathlib.Path(self.options.source) / "build/venv")
            shutil.copy(self.options.ops, folder / "libmine.so")
        return folder

    def fail(self, block, what, output):
        self.failures.append(block.name())
        print(f"FAIL {block.name()}: {what}\n{output.rstrip()}")

    def shell(self, block):
        folder, assignments = self.folder_for(block), ""
        for statement in statements_of(block.text):
            command = statement.strip()
            if re.fullmatch(r"(\w+=[^\s;]+;?\s*)+", command):
                assignments += command + "\n"
                continue
            elsewhere = next((p for p in ELSEWHERE if re.match(p, command)), None)
            if elsewhere:
                self.used.add(elsewhere)
                self.left += 1
                continue
            package = next((p for p in NEEDS_PACKAGE if re.match(p, command)), None)
            if package:
                self.used.add(package)
            if package and not self.has_package(NEEDS_PACKAGE[package]):
                self.left += 1
                continue
            done = subprocess.run(["bash", "-ec", assignments + command], cwd=folder, env=self.environment,
                                  capture_output=True, text=True, errors="replace")
            output, self.ran = done.stdout + done.stderr, self.ran + 1
            gpu = next((p for p in NEEDS_GPU if re.match(p, command)), None)
            if gpu:
                self.used.add(gpu)
            if gpu and done.returncode == 1 and "NVIDIA" in output:
                self.stand_in(folder)
            elif done.returncode != 0:
                self.fail(block, f"`{command}` ended with {done.returncode}", output)

    def has_package(self, name):
        python = pathlib.Path(self.options.source) / "build/venv/bin/python"
        return python.exists() and subprocess.run([python, "-c", f"import {name}"], capture_output=True).returncode == 0

    def stand_in(self, folder):
        """Writes the file that `rondo tune` would write, so that later commands can run."""
        (folder / "h200.json").write_text(
            '{"rondo_profile": 1, "gpu": "none", "architecture": "sm_90a", "driver": 0, "kernels": []}')

    def install(self):
        """Installs the tree once."""
        prefix = self.work / "prefix"
        if not prefix.exists():
            for component in ("runtime", "trust", "weights", "development"):
                self.must(["cmake", "--install", self.options.build, "--prefix", str(prefix), "--component", component])
        return prefix

    def project(self, block, text, sources=()):
        folder = self.work / re.sub(r"\W+", "_", block.name())
        folder.mkdir()
        (folder / "CMakeLists.txt").write_text(text)
        for name, content in sources:
            (folder / name).write_text(content)
        for command in (["cmake", "-S", ".", "-B", "build", "-G", self.options.generator,
                         f"-DCMAKE_PREFIX_PATH={self.install()}", f"-DCMAKE_CXX_COMPILER={self.options.cxx}"],
                        ["cmake", "--build", "build"]):
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            if done.returncode != 0:
                return self.fail(block, " ".join(command), done.stdout + done.stderr)
        self.ran += 1

    def cpp(self, block):
        if "TEST_F(" in block.text:  # a whole test program
            return self.project(block, TEST_FRAME, [("block.cc", block.text)])
        text = CMAKE_FRAME % ("find_package(rondo REQUIRED)\nadd_executable(block block.cc)\n"
                              "target_link_libraries(block PRIVATE rondo::runtime rondo::host rondo::trust rondo::flight rondo::weights)\n"
                              "target_link_libraries(service PRIVATE rondo::runtime)\n"
                              "target_link_libraries(service_test PRIVATE rondo::testing GTest::gtest_main)")
        self.project(block, text, [("block.cc", CPP_FRAME % block.text)])

    def cmake(self, block):
        if "memory_test.cc" in block.text:  # a whole project, with the test of an earlier page
            text = "cmake_minimum_required(VERSION 3.25)\nproject(readme LANGUAGES CXX)\n" + block.text
            return self.project(block, text, [("memory_test.cc", "#include <rondo/matchers.h>\n")])
        self.project(block, CMAKE_FRAME % block.text)

    def json(self, block):
        """Runs expectations, which hold for the plan that tools/quickstart makes."""
        folder = self.work / re.sub(r"\W+", "_", block.name())
        folder.mkdir()
        (folder / "expect.json").write_text(block.text)
        model = f"{self.options.source}/tests/data/pycoder"
        self.must([f"{self.options.build}/bin/rondo", "compile", f"prefill={model}/prefill64.onnx", f"decode={model}/decode.onnx",
                   "-o", str(folder / "pycoder.rondo")])
        done = subprocess.run(["rondo", "check", "pycoder.rondo", "--expect", "expect.json"], cwd=folder,
                              env=self.environment, capture_output=True, text=True)
        if done.returncode != 0:
            return self.fail(block, "rondo check --expect", done.stdout + done.stderr)
        self.ran += 1

    def python(self, block):
        """Runs a script, if the Python package is built."""
        if not self.options.python:
            self.left += 1
            return
        environment = dict(self.environment, PYTHONPATH=f"{self.options.build}/python", PYTHONDONTWRITEBYTECODE="1")
        done = subprocess.run([self.options.python, "-c", block.text], cwd=self.folder_for(block), env=environment,
                              capture_output=True, text=True)
        if done.returncode != 0:
            return self.fail(block, f"the script ended with {done.returncode}", done.stdout + done.stderr)
        self.ran += 1

    def run(self, block):
        if block.language == "text":  # a picture, or a command's output
            return
        kind = {"sh": self.shell, "cpp": self.cpp, "cmake": self.cmake, "json": self.json, "python": self.python}.get(block.language)
        if kind is None:
            return self.fail(block, f"a block of {block.language}, which nobody runs", "")
        kind(block)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("source", "build", "models", "ops", "work", "generator", "cxx"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--python", help="a Python with numpy, where BUILD has the Python package")
    options = parser.parse_args()
    source = pathlib.Path(options.source)
    runner = Runner(options)
    pages = sorted(p for top in ("README.md", "compiler", "core", "drivers", "formats", "runtime", "tests", "tools")
                   for p in ([source / top] if top.endswith(".md") else (source / top).rglob("README.md"))
                   if "results" not in p.parts)
    pages += sorted((source / "tools/docs").glob("[a-z]*.md"))
    for page in pages:
        for block in blocks_of(str(page.relative_to(source)), page.read_text()):
            runner.run(block)
    for entry in list(FOLDERS) + list(ELSEWHERE) + NEEDS_GPU + list(NEEDS_PACKAGE):
        if entry not in runner.used:
            runner.failures.append(str(entry))
            print(f"FAIL no page has what the table says of {entry}")
    print(f"{runner.ran} commands and blocks of {len(pages)} pages were run, {runner.left} commands are run elsewhere")
    sys.exit(1 if runner.failures else 0)


main()
