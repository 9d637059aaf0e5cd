#!/usr/bin/env bash
# Builds each fuzz test into OUT, in the container of OSS-Fuzz, which calls it in the directory of the repository.
set -euo pipefail
go build -C internal/tools -o "$WORK/ossfuzz" ./ossfuzz
internal/tools/fuzztests | while read -r dir name; do
	target=${dir//\//_}_$name
	"$WORK/ossfuzz" -o "$WORK/$target.a" "$dir" "$name"
	$CXX ${CXXFLAGS:-} $LIB_FUZZING_ENGINE "$WORK/$target.a" -o "$OUT/$target"
	rm -f "$WORK/$target".*
done
