#!/usr/bin/env bash
# Changes the packages that only decide, one place at a time, and lists the changes that no test notices. Arguments are the
# packages; the default is those in gremlins.yaml. gremlins copies the whole folder in which it runs, so it runs in a copy
# without binaries. Vet is off, because what vet finds was not found by a test.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
packages=("$@")
if [ "$#" -eq 0 ]; then
	mapfile -t packages < <(sed -n 's/^  - //p' tools/mutation/gremlins.yaml)
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
for package in "${packages[@]}"; do
	echo "== $package"
	GOFLAGS="${GOFLAGS:-} -vet=off -ldflags=-w" nice -n 19 "$root/bin/gremlins" unleash --config tools/mutation/gremlins.yaml "./$package"
done
