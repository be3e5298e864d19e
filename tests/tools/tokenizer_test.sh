#!/usr/bin/env bash
# tools/generate: a prompt goes through a tokenizer.json into the model and comes back as text.
# tokenizer_test.sh RONDO PYCODER CMAKE BUILD; skipped (77) where Python has no tokenizers.
set -euo pipefail
rondo=$1 model=$2 cmake=$3 build=$4
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=
for candidate in python3 "$top/build/venv/bin/python"; do
  if "$candidate" -c 'import tokenizers' 2>/dev/null; then python=$candidate; break; fi
done
[ -n "$python" ] || { echo "Python's tokenizers is not here (tools/setup --venv)"; exit 77; }
# Pycoder's tokens are bytes. The vocabulary has the names that byte-level tokenizers give to bytes, without merges.
"$python" - "$work/tokenizer.json" <<'END'
import sys
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
rest = [byte for byte in range(256) if byte not in plain]
names = {chr(byte): byte for byte in plain} | {chr(256 + i): byte for i, byte in enumerate(rest)}
tokenizer = Tokenizer(models.BPE(vocab=names, merges=[]))
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
tokenizer.decoder = decoders.ByteLevel()
tokenizer.save(sys.argv[1])
END
"$rondo" compile prefill="$model/prefill64.onnx" decode="$model/decode.onnx" --sample logits -o "$work/plan"
head -c 32 "$model/greedy.bytes" >"$work/prompt"
generate=("$python" "$top/tools/generate" "$work/plan" --rondo "$rondo" --tokenizer "$work/tokenizer.json")
{ cat "$work/prompt"; "${generate[@]}" --prompt-file "$work/prompt" --max-tokens 120; } >"$work/out"
cmp "$work/out" <(cat "$model/greedy.bytes"; echo)
# A text ends at the stop text; a prompt from standard input; prompts by line.
stop="$(head -c 94 "$model/greedy.bytes" | tail -c 4; echo .)" stop=${stop%.}
"${generate[@]}" --prompt-file - --max-tokens 120 --stop-text "$stop" --stop-text 'never this' <"$work/prompt" >"$work/out"
cmp "$work/out" <("$python" -c 'import sys; text = open(sys.argv[1]).read(); print(text[32:text.find(sys.argv[2], 32)])' "$model/greedy.bytes" "$stop")
printf 'class\ndef' | "${generate[@]}" --prompt-lines - --max-tokens 4 >"$work/lines"
[ "$(grep -c '^== text [12]$' "$work/lines")" = 2 ]
# The encoder's source and the start token also pass through the tokenizer.
cat >"$work/says" <<'END'
#!/usr/bin/env bash
# Replaces rondo: the text of each source is the source itself; the start token goes to standard error.
while [ $# -gt 0 ]; do
  case $1 in --source-file) cat "$2"; echo ;; --start | --stop) echo "$1 $2" >&2 ;; esac
  shift
done
END
chmod +x "$work/says"
printf 'third\nfourth' >"$work/sources"
"${generate[@]}" --rondo "$work/says" --source 'first é' --source-lines "$work/sources" --start-token a --stop-token b >"$work/out" 2>"$work/error"
cmp "$work/out" <(printf '== text 1\nfirst é\n== text 2\nthird\n== text 3\nfourth\n')
cmp "$work/error" <(printf -- '--stop 98\n--start 97\n')
# If only the first byte of a character arrived, U+FFFD is shown, as by the tokenizer itself.
printf '#!/usr/bin/env bash\necho 97 195 169 195\n' >"$work/half"
chmod +x "$work/half"
"${generate[@]}" --rondo "$work/half" --prompt a >"$work/out"
cmp "$work/out" <(printf 'aé\357\277\275\n')
"${generate[@]}" --prefix-file "$work/prompt" --prompt ' "' --prompt ' é' --max-tokens 20 --seed 3 --temperature 0.5 >"$work/two"
grep -q '^== text 2$' "$work/two"
"${generate[@]}" --prompt a --max-tokens 5 --json 2>"$work/error" >"$work/json"
"$python" -c 'import json, sys; assert len(json.load(sys.stdin)["texts"][0]["tokens"]) == 5' <"$work/json"
# --json has the text beside its tokens: the same text as without --json, up to its end.
"${generate[@]}" --prompt-file "$work/prompt" --max-tokens 120 --json 2>"$work/error" >"$work/json"
"${generate[@]}" --prompt-file "$work/prompt" --max-tokens 120 --stop-text "$stop" --json 2>"$work/error" >"$work/stopped"
"$python" - "$work/json" "$work/stopped" "$model/greedy.bytes" "$stop" <<'END'
import json, sys
whole, stopped = (json.load(open(path))["texts"][0] for path in sys.argv[1:3])
greedy = open(sys.argv[3], encoding="latin-1").read()
assert whole["text"] == greedy[32:] and whole["ended_by"] == "length", whole
assert stopped["text"] == greedy[32:greedy.find(sys.argv[4], 32)] and stopped["ended_by"] == "stop", stopped
END
if "${generate[@]}" --prompt a --max-tokens 100000 --json 2>"$work/error" >"$work/json"; then exit 1; fi
"$python" -c 'import json, sys; assert json.load(sys.stdin)["error"]["exit_status"] == 1' <"$work/json"
# Installed beside the command, in a folder unknown to the sources.
"$cmake" --install "$build" --component tools --prefix "$work/installed" >/dev/null
(cd / && "$python" "$work/installed/bin/rondo-generate" "$work/plan" --tokenizer "$work/tokenizer.json" --prompt-file "$work/prompt" --max-tokens 120) >"$work/out"
cmp <(cat "$work/prompt" "$work/out") <(cat "$model/greedy.bytes"; echo)
if "$python" "$work/installed/bin/rondo-generate" "$work/plan" --tokenizer "$work/tokenizer.json" --prompt '' 2>"$work/error"; then exit 1; fi
grep -q "^rondo-generate: the text '' gives no token" "$work/error"
if "${generate[@]}" --prompt '' 2>"$work/error"; then exit 1; fi
grep -q "^tools/generate: the text '' gives no token" "$work/error"
if "${generate[@]}" --prompt a --rondo "$work/none" 2>"$work/error"; then exit 1; fi
grep -q "^tools/generate: there is no rondo command $work/none" "$work/error"
if "${generate[@]}" --prompt a --stop-token nothing 2>"$work/error"; then exit 1; fi
grep -q "the tokenizer has no token 'nothing'" "$work/error"
if "${generate[@]}" --prompt a >/dev/full 2>"$work/error"; then exit 1; fi
grep -q "^tools/generate: standard output cannot be written: No space left on device" "$work/error"
[ "$(grep -c Traceback "$work/error")" = 0 ]
# A file that can be read, but makes the library panic later: a word without a number.
"$python" - "$work/tokenizer.json" <<'END'
import json, sys
from tokenizers import Tokenizer, models, processors
tokenizer = Tokenizer(models.BPE(vocab={"a": 0, "<s>": 1}, merges=[]))
tokenizer.add_special_tokens(["<s>"])
tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
spoilt = json.loads(tokenizer.to_str())
spoilt["post_processor"]["single"][0]["SpecialToken"]["id"] = "x"
json.dump(spoilt, open(sys.argv[1], "w"))
END
if "${generate[@]}" --prompt a 2>"$work/error"; then exit 1; fi
[ "$(wc -l <"$work/error")" = 1 ]
grep -q "^tools/generate: $work/tokenizer.json: " "$work/error"
echo '{' >"$work/tokenizer.json"
if "${generate[@]}" --prompt a 2>"$work/error"; then exit 1; fi
grep -q "^tools/generate: $work/tokenizer.json: " "$work/error"
echo "tokenizer: text in, the expected text out"
