#!/usr/bin/env bash
# Lints the packages that have changed since BASE, committed or not: changed.sh [BASE].
# BASE is where this branch left origin/main, or main where there is no origin/main.
set -euo pipefail
cd "$(git -C "$(dirname "${BASH_SOURCE[0]}")" rev-parse --show-toplevel)"

base=${1:-$(git rev-parse --verify --quiet origin/main || git rev-parse --verify --quiet main || echo HEAD)}
base=$(git merge-base "$base" HEAD)

# The folders with changed Go files that are still there, as "module package".
changed() {
	{
		git diff --name-only --diff-filter=d "$base" -- '*.go'
		git ls-files --others --exclude-standard -- '*.go'
	} | xargs -r dirname | sort -u | sed '/testdata/d' | while read -r folder; do
		module=$folder
		until [ -e "$module/go.mod" ]; do module=$(dirname "$module"); done
		printf '%s ./%s\n' "$module" "$(realpath --relative-to="$module" "$folder")"
	done
}

changed | sort | awk '{ list[$1] = list[$1] " " $2 } END { for (module in list) print module list[module] }' |
	while read -r module packages; do
		echo "lint $module: $packages"
		# shellcheck disable=SC2086 # a list of folders
		(cd "$module" && "$OLDPWD/bin/golangci-lint" run --concurrency 2 --timeout 30m -c "$OLDPWD/.golangci.yml" $packages)
	done
