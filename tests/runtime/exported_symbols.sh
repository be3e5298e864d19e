#!/bin/sh
# exported_symbols.sh LIBRARY HEADER LIST PREFIX: the library exports, and the header declares (with the macro
# PREFIX), exactly the functions of the committed list. A name that has been in a release stays in the list.
library=$1
header=$2
list=$3
prefix=$4
listed=$(LC_ALL=C sort "$list")
exported=$(nm -D --defined-only "$library" | awk '{ print $3 }' | LC_ALL=C sort)
declared=$(grep "^$prefix" "$header" | grep -o "$prefix [^(]*(" | sed 's/($//; s/.*[ *]//' | LC_ALL=C sort)
[ -n "$listed" ] || { echo "no functions found in $list"; exit 1; }
status=0
for pair in exported declared; do
  eval "names=\$$pair"
  [ "$names" = "$listed" ] && continue
  status=1
  for name in $names; do
    echo "$listed" | grep -qx "$name" || echo "$pair, but not in $(basename "$list"): $name"
  done
  for name in $listed; do
    echo "$names" | grep -qx "$name" || echo "in $(basename "$list"), but not $pair: $name"
  done
done
[ $status = 0 ] && echo "$(echo "$listed" | wc -l) functions listed, exported and declared"
exit $status
