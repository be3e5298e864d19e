#!/usr/bin/env bash
# The version, the commit and the options, in `rondo --version` and in every plan.
#   version_test.sh RONDO SOURCE_DIR WORK_DIR VERSION CMAKE
set -euo pipefail
rondo=$1 source=$2 work=$3 version=$4 cmake=$5
rm -rf "$work"
mkdir -p "$work"
cd "$work"
fail() { echo "FAILED: $*" >&2; exit 1; }
model=$source/tests/data/plans/models/state.onnx

said=$("$rondo" --version)
[[ $said =~ ^"rondo $version ("("commit "[0-9a-f]{12}( and changes)?|"no git checkout")", ".*"), plan format "[0-9]+\.[0-9]+$ ]] || fail "--version says: $said"
grep -q "^## $version" "$source/CHANGELOG.md" || fail "CHANGELOG.md has no section of $version"

# The same options give the same bytes, whatever the names of the files. Other options are recorded in the plan.
"$rondo" compile "$model" -o a.rondo --state cache:cache_out >/dev/null
"$rondo" compile -v "$model" -o b.rondo --state cache:cache_out >/dev/null
cmp a.rondo b.rondo || fail "the same options gave other bytes"
"$rondo" compile "$model" -o c.rondo --no-auto-state --deterministic >/dev/null
"$rondo" inspect --wide a.rondo >shown
grep -qF "made by ${said%, plan format*} with --state cache:cache_out" shown || { head -1 shown; fail "inspect does not show who made a plan"; }
"$rondo" inspect --json c.rondo >shown  # whole: a pipe that is closed early fails now and then
grep -qE '"producer": ?"rondo [^"]* with --deterministic --no-auto-state"' shown || fail "inspect --json does not show the options"

# The commit that a build reports, in separate checkouts.
text() { "$cmake" -DSOURCE="$1" -DOUTPUT="$work/build.cc" -DVERSION=7.8.9 -DOPTIONS=Debug -P "$source/tools/cmake/WriteBuild.cmake"; grep kBuild build.cc; }
mkdir tree
if command -v git >/dev/null; then
  git -C tree init -q && echo 1 >tree/file && git -C tree add file
  git -C tree -c user.name=n -c user.email=e commit -qm m
  head=$(git -C tree rev-parse --short=12 HEAD)
  text "$work/tree" | grep -qF "\"rondo 7.8.9 (commit $head, Debug)\"" || fail "a clean checkout: $(cat build.cc)"
  touch -d '2001-01-01' build.cc
  text "$work/tree" >/dev/null
  [ "$(date -r build.cc +%Y)" = 2001 ] || fail "the same commit is written, and so compiled, again"
  echo 2 >tree/file
  text "$work/tree" | grep -qF "commit $head and changes" || fail "a changed checkout: $(cat build.cc)"
  mkdir tree/inner
  text "$work/tree/inner" | grep -qF "(no git checkout, Debug)" || fail "a folder in another's checkout: $(cat build.cc)"
fi
text / | grep -qF "(no git checkout, Debug)" || fail "no checkout: $(cat build.cc)"
