#!/bin/sh
# precompile.sh COMPILER ARGUMENT...: compiles a precompiled header FILE.o, and gives it the name
# FILE.pch, too; FILE.pch.sum is the sum of the text that it holds, with that of the one before it.
set -e
"$@"
file=
previous=
for argument in "$@"; do
  shift
  if [ "$previous" = -o ]; then file=$argument; fi
  if [ "$argument" != -include-pch ] && [ "$previous" != -include-pch ]; then
    set -- "$@" "$argument"
  fi
  previous=$argument
done
name=${file%.o}
ln -f "$file" "$name.pch"
"$@" -E -P -o "$name.text"
sha256sum <"$name.text" >"$name.pch.sum"
rm "$name.text"
