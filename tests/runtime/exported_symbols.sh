#!/bin/sh
# exported_symbols.sh LIBRARY HEADER: the library exports exactly the functions that the header declares.
library=$1
header=$2
exported=$(nm -D --defined-only "$library" | awk '{ print $3 }' | sort)
declared=$(grep '^RONDO_API' "$header" | grep -o 'RONDO_API [^(]*(' | sed 's/($//; s/.*[ *]//' | sort)
[ -n "$declared" ] || { echo "no functions found in $header"; exit 1; }
if [ "$exported" != "$declared" ]; then
  echo "exported:"; echo "$exported"
  echo "declared:"; echo "$declared"
  exit 1
fi
echo "$(echo "$exported" | wc -l) functions exported, as declared"
