#!/usr/bin/env bash
# tools/bench/rondo_session.py: values that do not fit a program's inputs are errors, and none is cast silently.
# rondo_session_test.sh RONDO LIBRARIES MODEL; skipped (77) where Python has no numpy.
set -euo pipefail
rondo=$1 libraries=$2 model=$3
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=
for candidate in python3 "$top/build/venv/bin/python"; do
  if "$candidate" -c 'import numpy' 2>/dev/null; then python=$candidate; break; fi
done
[ -n "$python" ] || { echo "Python's numpy is not here (tools/setup --venv)"; exit 77; }
"$rondo" compile "$model" -o "$work/plan" >/dev/null
PYTHONPATH=$top/tools/bench PYTHONDONTWRITEBYTECODE=1 "$python" - "$libraries" "$work/plan" <<'END'
import pathlib
import sys
import numpy as np
from rondo_session import Session, run_fitted

session = Session(pathlib.Path(sys.argv[1]), sys.argv[2])
good = {"tokens": np.array([[5]], np.int64), "positions": np.array([0], np.int64)}
shapes = {name: (dtype, shape) for name, dtype, shape, is_state in session.ports(0, 0) if not is_state}
good = {name: np.zeros(shape, np.int64) for name, (_, shape) in shapes.items()}
assert set(good) == {"tokens", "positions"}, good
logits = session.run("main", good)["logits"]


def refused(call, *words):
    try:
        call()
    except ValueError as error:
        assert all(word in str(error) for word in words), error
        return
    raise AssertionError(f"not refused: {words}")


refused(lambda: session.run("main", good | {"token": good["tokens"]}), "no input 'token'", "tokens, positions")
refused(lambda: session.run("main", good | {"tokens": good["tokens"].astype(np.float32)}), "'tokens'", "int64", "float32")
refused(lambda: session.run("main", good | {"tokens": good["tokens"].astype(np.int32)}), "'tokens'", "int64", "int32")
refused(lambda: session.run("main", good | {"tokens": np.zeros((3, 5), np.int64)}), "'tokens'", "[3, 5]")
refused(lambda: run_fitted(session, "main", good | {"tokens": good["tokens"] + 0.5}), "'tokens'", "float64")
session.reset()
fitted = run_fitted(session, "main", good | {"tokens": good["tokens"].astype(np.int32), "other": np.zeros(3)})
assert np.array_equal(fitted["logits"], logits)
session.close()
END
echo "sessions from Python: strict"
