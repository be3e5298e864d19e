#!/bin/sh
# code_size.sh BUILD_TYPE SANITIZERS LIBRARY ARCHIVE...: sums .text and .rodata of librondo.so, which holds all of core, plan
# reader, verifier, checker and runtime that the C API can reach, and fails above the design's limit. It also prints the
# size of each object of the archives.
set -e
limit=$((150 * 1024))
type=$1
sanitizers=$2
library=$3
shift 3
if [ "$type" != Release ] || [ -n "$sanitizers" ]; then
  echo "skipped: the limit is about release builds, this is '$type' with sanitizers '$sanitizers'"
  exit 77
fi
code_bytes() { size -A "$1" | awk '$1 ~ /^\.(text|rodata)(\.|$)/ { sum += $2 } END { print sum + 0 }'; }
for archive in "$@"; do
  bytes=$(code_bytes "$archive")
  [ "$bytes" -gt 0 ] || { echo "no code found in $archive"; exit 1; }
  echo "$bytes bytes  objects of $(basename "$archive")"
done
total=$(code_bytes "$library")
echo "$total bytes of .text and .rodata in $(basename "$library"), limit $limit"
[ "$total" -gt 0 ] && [ "$total" -le "$limit" ]
