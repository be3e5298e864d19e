"""Compares a package's list of its parts (sbom.cdx.json) with the libraries that its binaries link and the code compiled into them.

    sbom_test.py ROOT PACKAGE CONTENTS BUILD     CONTENTS: a file with the package's files, a line each
"""
import json
import pathlib
import re
import subprocess
import sys

root, package, contents, build = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3]), pathlib.Path(sys.argv[4])
# Packages of the language's and the system's headers.
SYSTEM = re.compile(r"(libc6-dev|libstdc\+\+-\d+-dev|libgcc-\d+-dev|linux-libc-dev)$")
# Sources of the command. Other targets use a part of these.
COMMAND = re.compile(r"(core|formats|runtime|drivers|compiler|tools/(rondo|serve|trust))/")


def output(*line):
    return subprocess.run(line, capture_output=True, text=True, check=False).stdout


def linked(binary):
    return {line.split()[0] for line in output("ldd", str(binary)).replace("/lib64/", "").splitlines()} - {"linux-vdso.so.1"}


def compiled_in():
    """Debian packages with the headers that the compiler read for the command."""
    headers, ours = set(), False
    for line in output("ninja", "-C", str(build), "-t", "deps").splitlines():
        if not line.startswith(" "):
            ours = bool(COMMAND.match(line))
        elif ours and line.strip().startswith("/usr/include/"):
            headers.add(line.strip())
    found = output("dpkg", "-S", *headers)
    return {line.split(":")[0] for line in found.splitlines() if not SYSTEM.match(line.split(":")[0])}


binaries = [root / line for line in contents.read_text().split() if re.search(r"\.so\.\d+\.\d+\.\d+$|/bin/rondo$", line)]
path = root / "usr/share/doc" / package / "sbom.cdx.json"
if not binaries:
    sys.exit(f"{path} says what nothing is made of" if path.exists() else 0)
bom = json.loads(path.read_text())
listed = {part["bom-ref"]: part for part in bom["components"]}
assert (bom["bomFormat"], bom["metadata"]["component"]["name"]) == ("CycloneDX", package)
assert bom["dependencies"] == [{"ref": package, "dependsOn": list(listed)}]
shared = {name: part for name, part in listed.items() if "hashes" in part}
expected = {name for binary in binaries for name in linked(binary) if not name.startswith("librondo")}
assert set(shared) == expected, f"lists {sorted(shared)}, linked are {sorted(expected)}"
for name, part in shared.items():
    version = output("dpkg-query", "-W", "-f", "${Version}", part["name"])
    assert part["version"] == version and part["purl"].startswith(f"pkg:deb/debian/{part['name']}@{version}"), part
if package == "rondo" and (compiled := compiled_in()):
    headers = {name for name, part in listed.items() if "hashes" not in part and part["scope"] == "required"}
    # A shared library is listed as a library, not by its headers. The package of Boost's headers has the version in its name.
    compiled = {re.sub(r"^(libboost)[\d.]+-dev$", r"\1-dev", name) for name in compiled} - {"libsodium-dev"}
    assert headers == compiled, f"lists {sorted(headers)} as compiled in, read were {sorted(compiled)}"
