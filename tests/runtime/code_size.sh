#!/bin/sh
# code_size.sh BUILD_TYPE SANITIZERS ARCHIVE...: sums .text and .rodata of every object of the archives, whether
# a program would link it or not, and fails above the design's limit.
limit=$((150 * 1024))
type=$1
sanitizers=$2
shift 2
if [ "$type" != Release ] || [ -n "$sanitizers" ]; then
  echo "skipped: the limit is about release builds, this is '$type' with sanitizers '$sanitizers'"
  exit 77
fi
total=0
for archive in "$@"; do
  bytes=$(size -A "$archive" | awk '$1 ~ /^\.(text|rodata)(\.|$)/ { sum += $2 } END { print sum + 0 }')
  [ "$bytes" -gt 0 ] || { echo "no code found in $archive"; exit 1; }
  echo "$bytes bytes  $(basename "$archive")"
  total=$((total + bytes))
done
echo "$total bytes of .text and .rodata, limit $limit"
[ "$total" -le "$limit" ]
