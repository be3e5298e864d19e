#!/usr/bin/env bash
# page_test.sh RONDO DATA SCHEMA FOLDER: opens the page of `rondo inspect --html` in a headless browser and checks what its
# script shows: for a plan of two programs and for one of thousands of steps, with a search and a place in the address, and
# in print. Exit status 77 (skipped) without Chromium (tools/setup --browser).
set -euo pipefail
rondo=$1 data=$2 schema=$3 folder=$4
browser=$(command -v chromium-headless-shell || command -v chromium || command -v google-chrome) ||
  { echo "skipped: no Chromium on this machine (tools/setup --browser)"; exit 77; }
mkdir -p "$folder"
cd "$folder"

fail() { echo "page_test: $*" >&2; exit 1; }
# look PAGE#PLACE: writes the document, after its script has run, to seen.html.
look() {
  timeout 100 "$browser" --headless --no-sandbox --disable-gpu --virtual-time-budget=3000 --dump-dom "file://$folder/$1" \
    >seen.html 2>said.txt || { cat said.txt; fail "the browser failed"; }
  ! grep -E 'Uncaught|SyntaxError|ReferenceError|TypeError' said.txt || fail "the script failed on $1"
}
# has COUNT PATTERN: COUNT places of seen.html match.
has() {
  local count
  count=$({ grep -oE "$2" seen.html || true; } | wc -l)
  [ "$count" = "$1" ] || fail "$count places with $2 instead of $1"
}

"$rondo" compile prefill="$data/pycoder/prefill64.onnx" decode="$data/pycoder/decode.onnx" -o two.rondo --json >/dev/null
"$rondo" inspect two.rondo --html two.html >/dev/null
"$rondo" inspect two.rondo --json >two.json
# count PROGRAM WHAT: the number in the plan's own JSON.
count() {
  python3 - "$1" "$2" <<'PY'
import json, sys
plan = json.load(open("two.json"))
program = plan["programs"][int(sys.argv[1])]
alive = [b for b in plan["buffers"] if b.get("program") == program["name"] and "first_step" in b
         and b["first_step"] <= b["last_step"] and b["bytes"] > 0]
print({"steps": len(program["steps"]), "buffers": len(alive),
       "rotary": sum("rotary" in s.get("kernel", "") for s in program["steps"])}[sys.argv[2]])
PY
}
for program in 0 1; do
  look "two.html#program=$program&find=rotary&step=3"
  has "$(count $program buffers)" '<rect data-b="[0-9]'
  has "$(count $program steps)" '<rect data-s="[0-9]'
  has "$(count $program rotary)" '<rect data-s="[0-9]+" [^>]*class="[a-z -]*found'
  has 1 '<b>step 3: '
  has 1 '\(100\.0 %\)'
  # The live bytes reach the lower bound.
  bound=$(grep -oE 'lower bound [0-9.]+ [A-Za-z]+ \(100' seen.html | sed 's/lower bound //; s/ (100//')
  has 1 "live bytes; most, $bound, at step"
done
# A search without matches: everything fades.
look 'two.html#find=no%20such%20name'
has 1 '>0 steps, 0 buffers<'
has 0 'class="[a-z -]*found'

# Names are shown as text, whatever they contain. Thousands of steps are drawn, and the list has only the visible lines.
{
  echo 'ir_version: 8 opset_import { domain: "" version: 17 } graph { name: "long"'
  awk 'BEGIN { last = "x"
    for (i = 0; i < 3000; ++i) {
      name = i == 7 ? "</script><b>bold</b>" : "v" i
      printf "node { name: \"node <i>%d\" output: \"%s\" input: \"%s\" ", i, name, last
      print i % 2 ? "op_type: \"Softmax\" }" : "op_type: \"CumSum\" input: \"axis\" }"
      last = name
    }
    shape = "type { tensor_type { elem_type: 1 shape { dim { dim_value: 4 } dim { dim_value: 8 } } } } }"
    print "input { name: \"x\" " shape " output { name: \"" last "\" " shape
    print "initializer { name: \"axis\" data_type: 7 int64_data: 1 } }" }'
} | protoc --proto_path="$schema" --encode=rondo.onnx.ModelProto onnx.proto >long.onnx
"$rondo" compile long.onnx -o long.rondo --json >/dev/null
"$rondo" inspect long.rondo --html long.html >/dev/null
look 'long.html#find=node&step=1500'
has 0 '<b>bold</b>'
[ "$(grep -oE '<rect data-s="[0-9]' seen.html | wc -l)" -gt 2000 ] || fail "a long plan lost steps"
rows=$(grep -oE 'class="row[ "]' seen.html | wc -l)
[ "$rows" -gt 5 ] && [ "$rows" -lt 200 ] || fail "$rows lines are in the list of steps"
! grep -qE '(src|href)=|https?:|url\(|@import|fetch\(' long.html || fail "the page names another file"

# The timeline: collectives of every device. Device 0's exposed times, before and after scheduling, are the compiler's.
"$rondo" compile "$data/fixtures/llama_decode_op23/model.onnx" --tp 2 --pp 2 -o shared.rondo --json >/dev/null
"$rondo" inspect shared.rondo --html shared.html >/dev/null
"$rondo" inspect shared.rondo --json >shared.json
look 'shared.html#begin=50&end=90'
python3 - <<'PY' || fail "the timeline of shared.html"
import json, re
program = json.load(open("shared.json"))["programs"][0]
page = open("seen.html").read()
starts = [s for s in program["steps"] if s["kind"] == "collective start"]
drawn = re.findall(r'<rect class="s-collective" data-c="\d+"', page)
assert len(starts) == len(drawn) > 8, (len(starts), len(drawn))
own = [o for o in program["overlaps"] if 0 in o["devices"]]
before, after = (sum(o["exposed_us"][i] for o in own) for i in (0, 1))
# For a host plan without measured times, the page shows parts of a run instead of times.
said = re.search(r"; (\d+) collectives on device 0: exposed ([\d.]+) % of a run → ([\d.]+) % of a run", page)
assert int(said[1]) == len(own), (said[0], len(own))
percent = before / float(said[2])
assert abs(float(said[3]) * percent - after) < 0.1 * percent, (said[0], before, after)
assert re.search(r'id="time-facts">by the table of one core', page)
assert before > after, (before, after)
for lane in ("device 0, stream 0", "device 3, collectives"):
    assert lane in page, lane
waits = re.findall(r'<rect class="t-exposed" data-s="(\d+)"', page)
assert waits and all(program["steps"][int(s)]["kind"] == "collective wait" for s in waits), waits
assert re.search(r'id="timeline"><svg [^>]*viewBox="50 0 40 ', page), "what the address asks for is not shown"
PY

# Thousands of steps, some of them collectives, are drawn at once.
{
  echo 'ir_version: 8 opset_import { domain: "" version: 17 } opset_import { domain: "com.microsoft" version: 1 } graph { name: "many"'
  awk 'BEGIN { last = "x"
    for (i = 0; i < 2100; ++i) {
      printf "node { name: \"n%d\" output: \"v%d\" input: \"%s\" ", i, i, last
      if (i % 5 == 4) print "op_type: \"AllReduce\" domain: \"com.microsoft\" }"
      else print i % 2 ? "op_type: \"Softmax\" }" : "op_type: \"CumSum\" input: \"axis\" }"
      last = "v" i
    }
    shape = "type { tensor_type { elem_type: 1 shape { dim { dim_value: 4 } dim { dim_value: 8 } } } } }"
    print "input { name: \"x\" " shape " output { name: \"" last "\" " shape
    print "initializer { name: \"axis\" data_type: 7 int64_data: 1 } }" }'
} | protoc --proto_path="$schema" --encode=rondo.onnx.ModelProto onnx.proto >many.onnx
"$rondo" compile many.onnx --devices 2 -o many.rondo --json >/dev/null
"$rondo" inspect many.rondo --html many.html >/dev/null
echo '<script>{ const begin = Date.now(); showProgram(0, 0); document.body.dataset.took = Date.now() - begin; }</script>' >>many.html
timeout 100 "$browser" --headless --no-sandbox --disable-gpu --dump-dom "file://$folder/many.html" >seen.html 2>said.txt
steps=$(grep -oE '<rect data-s="[0-9]' seen.html | wc -l)
[ "$steps" -ge 5000 ] || fail "$steps steps are drawn instead of 5,000"
took=$(grep -oE 'data-took="[0-9]+' seen.html | grep -oE '[0-9]+$')
echo "$steps steps are drawn in $took ms"
[ "$took" -lt 10000 ] || fail "$steps steps take $took ms"

timeout 100 "$browser" --headless --no-sandbox --disable-gpu --virtual-time-budget=5000 --print-to-pdf="$folder/two.pdf" \
  --no-pdf-header-footer "file://$folder/two.html" >said.txt 2>&1 || { cat said.txt; fail "the page cannot be printed"; }
[ "$(grep -acE '/Type ?/Page([^s]|$)' two.pdf)" -ge 3 ] || fail "print leaves out the steps"
echo "the page of inspect: passed"
