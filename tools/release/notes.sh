#!/usr/bin/env bash
# Prints the section of CHANGELOG.md that belongs to a tag, as the notes of its release: notes.sh v0.1.0 [FILE].
# A version without a section is not released.
set -euo pipefail

version=${1#v}
file=${2:-$(dirname "${BASH_SOURCE[0]}")/../../CHANGELOG.md}

notes=$(awk -v heading="## [$version]" '
	index($0, "## ") == 1 { inside = index($0, heading) == 1; next }
	/^\[[^]]*\]: / { next }
	inside' "$file")
if [ -z "${notes//[[:space:]]/}" ]; then
	echo "$file has no section \"## [$version]\": write one, and tag again" >&2
	exit 1
fi
printf '%s\n' "$notes"
