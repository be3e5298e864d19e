#!/bin/sh
# code_size.sh BUILD_TYPE SANITIZERS COMPILER ARCHIVE...: links every object of the archives into one library,
# whether a program would need it or not, sums its .text and .rodata (what several objects hold alike counts
# once, as in any program), and fails above the design's limit.
set -e
limit=$((150 * 1024))
type=$1
sanitizers=$2
compiler=$3
shift 3
if [ "$type" != Release ] || [ -n "$sanitizers" ]; then
  echo "skipped: the limit is about release builds, this is '$type' with sanitizers '$sanitizers'"
  exit 77
fi
code_bytes() { size -A "$1" | awk '$1 ~ /^\.(text|rodata)(\.|$)/ { sum += $2 } END { print sum + 0 }'; }
linked=$(mktemp)
trap 'rm -f "$linked"' EXIT
"$compiler" -shared -nodefaultlibs -o "$linked" -Wl,--whole-archive "$@" -Wl,--no-whole-archive
for archive in "$@"; do
  bytes=$(code_bytes "$archive")
  [ "$bytes" -gt 0 ] || { echo "no code found in $archive"; exit 1; }
  echo "$bytes bytes  objects of $(basename "$archive")"
done
total=$(code_bytes "$linked")
echo "$total bytes of .text and .rodata in one library, limit $limit"
[ "$total" -gt 0 ] && [ "$total" -le "$limit" ]
