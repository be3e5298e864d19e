"""Programs built against the last release work with this build's libraries: compares binary interfaces; see ../README.md.

    abi_test.py --abidw F --abidiff F --library LIBRARY --headers FOLDER [--keep VERSION]
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent

# Changes of an interface that this test must find: {name: a replacement in its description, first match only}.
BREAKS = {
    "a function is gone": (r"(?s)    <elf-symbol name='rondo_session_wait'[^\n]*\n(.*?)    <function-decl name='rondo_session_wait'.*?</function-decl>\n", r"\1"),
    "a parameter has another type": (r"(?s)(<function-decl name='rondo_session_run'.*?<parameter type-id=')[^']*(' name='program')",
                                     r"\g<1>type-id-2\2"),
    "a member of a struct has moved": (r"(?s)(<class-decl name='rondo_run_options'.*?layout-offset-in-bits=')64'", r"\g<1>128'"),
    "an enumerator has another value": (r"(?s)(<enum-decl name='rondo_dtype'.*?<enumerator name='\w+' value=')\d+'", r"\g<1>77'"),
}
# Changes that it must accept: new enumerators, and members at the end of a struct, because a struct begins with its size or is filled
# up to the size that the caller gives.
GROWTH = {
    "a member at the end of a struct": (
        r"(?s)(<class-decl name='rondo_run_options' size-in-bits=')192('.*?)    </class-decl>",
        r"\g<1>256\2      <data-member access='public' layout-offset-in-bits='192'>\n"
        r"        <var-decl name='newest' type-id='type-id-2' visibility='default'/>\n      </data-member>\n    </class-decl>"),
    "an enumerator": (r"(?s)(<enum-decl name='rondo_dtype'.*?)(    </enum-decl>)", r"\1      <enumerator name='RONDO_NEWEST' value='99'/>\n\2"),
}
STRUCT = re.compile(r"(?s)<class-decl name='(\w+)' size-in-bits='(\d+)'.*?</class-decl>")
MEMBER = re.compile(r"(?s)      <data-member access='public' layout-offset-in-bits='(\d+)'>.*?</data-member>\n")


def described(options):
    """abidw's description of the interface, without types that are in no public header."""
    done = subprocess.run([options.abidw, "--headers-dir", options.headers, "--drop-private-types", "--exported-interfaces-only", "--no-show-locs",
                           "--no-corpus-path", "--no-comp-dir-path", "--no-elf-needed", options.library], capture_output=True, text=True)
    if done.returncode != 0 or "<function-decl" not in done.stdout:
        sys.exit(f"abidw failed: {done.stderr}{done.stdout[:500]}")
    return done.stdout


def without_growth(released, text):
    """The description without members beyond the end of the release's structs."""
    sizes = {name: int(bits) for name, bits in (found.groups() for found in STRUCT.finditer(released))}

    def cut(found):
        size = min(sizes.get(found[1], int(found[2])), int(found[2]))
        members = MEMBER.sub(lambda member: member[0] if int(member[1]) < size else "", found[0])
        return members.replace(f"size-in-bits='{found[2]}'", f"size-in-bits='{size}'", 1)

    return STRUCT.sub(cut, text)


def differences(options, released, text):
    """abidiff's report on changes since the release; empty if programs built for it still work."""
    with tempfile.TemporaryDirectory() as folder:
        now = pathlib.Path(folder) / "now.abi"
        now.write_text(without_growth(released.read_text(), text))
        done = subprocess.run([options.abidiff, "--no-added-syms", released, now], capture_output=True, text=True)
    return done.stdout + done.stderr if done.returncode else ""


def changed(text, pattern, replacement):
    text, count = re.subn(pattern, replacement, text, count=1)
    if count != 1:
        sys.exit(f"the interface has nothing like {pattern}")
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("abidw", "abidiff", "library", "headers"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--keep", metavar="VERSION", help="keep this build's interface as that of a release")
    options = parser.parse_args()
    text = described(options)
    if options.keep:
        (HERE / f"{options.keep}.abi").write_text(text)
        return
    released = max(HERE.glob("*.abi"), key=lambda path: [int(part) for part in path.stem.split(".")])
    if said := differences(options, released, text):
        sys.exit(f"programs built against {released.stem} would not work with this build:\n{said}")
    for name, change in BREAKS.items():
        if not differences(options, released, changed(text, *change)):
            sys.exit(f"where {name}, nothing is found")
    for name, change in GROWTH.items():
        if said := differences(options, released, changed(text, *change)):
            sys.exit(f"{name} is refused:\n{said}")
    print(f"programs built against {released.stem} work with this build; {len(BREAKS)} planted breaks are found, {len(GROWTH)} additions pass")


main()
