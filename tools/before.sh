#!/usr/bin/env bash
# Shows a defect of ours: before.sh COMMIT PACKAGE TEST. It runs the test as it is in COMMIT, which fixed the defect, over
# the product of the commit before, in a temporary git worktree. It changes nothing in the working tree.
# It succeeds if the test fails, as then the defect shows; not if the test passes, does not exist or does not compile.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ $# != 3 ]; then echo "usage: tools/before.sh COMMIT PACKAGE TEST" >&2 && exit 2; fi
commit=$1 package=$2 test=$3 dir=$(mktemp -d)
trap 'git worktree remove --force "$dir/before" 2>/dev/null || true; rm -rf "$dir"' EXIT
git worktree add --quiet --detach "$dir/before" "$commit^"
cd "$dir/before"

git diff --name-only --diff-filter=d "$commit^" "$commit" -- '*_test.go' '*/testdata/*' test/rig test/explore |
	xargs -r git checkout --quiet "$commit" --

if go test "$package" -run "^$test\$" -count=1 2>&1 | tee "$dir/output"; then
	echo "The defect did not show: before $commit, $test passes or does not exist."
	exit 1
elif ! grep -q -- '--- FAIL: ' "$dir/output"; then
	echo "The defect did not show: before $commit, the test does not compile or cannot run."
	exit 1
fi
echo "The defect showed: before $commit, $test fails."
