#!/bin/sh
# precompile.sh COMPILER ARGUMENT...: compiles a precompiled header, and writes FILE.sum beside it,
# the sum of the text that it holds.
set -e
"$@"
file=
previous=
for argument in "$@"; do
  if [ "$previous" = -o ]; then file=$argument; fi
  previous=$argument
done
"$@" -E -P -o "$file.text"
sha256sum <"$file.text" >"$file.sum"
rm "$file.text"
