#!/usr/bin/env bash
# Changes the packages that only decide, one place at a time, lists the changes that no test notices, and fails if they are
# more than gremlins.yaml allows. Arguments are packages; the default is those in gremlins.yaml. gremlins copies the whole folder in which it runs, so it runs in a copy
# without binaries. Vet is off, because what vet finds was not found by a test.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
packages=("$@")
if [ "$#" -eq 0 ]; then
	mapfile -t packages < <(sed -n 's/^  - \([^ ]*\).*/\1/p' tools/mutation/gremlins.yaml)
fi
for package in "${packages[@]}"; do
	[ -d "$package" ] || {
		echo "there is no folder $package: name packages from the root of the repository, for example taints verdict"
		exit 1
	}
done
root=$PWD
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
tar -c --exclude=./.git --exclude=./bin --exclude=./dist . | tar -x -C "$dir"
cd "$dir"
failed=0
for package in "${packages[@]}"; do
	echo "== $package"
	# gremlins ignores its flag for the threshold, and wants more than the threshold: 96 becomes 95.99.
	least=$(sed -n "s|^  - $package # ||p" tools/mutation/gremlins.yaml)
	sed "s/^unleash:/&${least:+\n  threshold: {efficacy: $((least - 1)).99\}}/" tools/mutation/gremlins.yaml >one.yaml
	GOFLAGS="${GOFLAGS:-} -vet=off -ldflags=-w" nice -n 19 "$root/bin/gremlins" unleash --config one.yaml "./$package" || failed=1
done
exit "$failed"
