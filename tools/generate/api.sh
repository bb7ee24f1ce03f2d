#!/usr/bin/env bash
# Generates what follows from the types in api/: the deep copies and the CRDs. api.sh -w writes them. Without -w, files
# that are out of date are an error.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT

bin/controller-gen paths=./api/v1alpha1 object:headerFile=tools/generate/header.txt crd \
	output:object:dir="$new/api/v1alpha1" output:crd:dir="$new/crds"
files=charts/taintkeeper/files
mkdir -p "$new/config" "$new/$files"
for crd in nodetaintrules evictionpolicies; do
	sed 1d "$new/crds/taintkeeper.dev_$crd.yaml" >"$new/$files/$crd.yaml"
done
{
	cat tools/generate/crd-header.txt "$new/$files/nodetaintrules.yaml"
	echo ---
	cat "$new/$files/evictionpolicies.yaml"
} >"$new/config/crd.yaml"
rm -r "$new/crds"

if [ "${1:-}" = -w ]; then
	cp -r "$new/." .
	exit
fi
status=0
while read -r file; do
	diff -u --label "$file" --label "$file, generated" "$file" "$new/$file" || status=1
done < <(cd "$new" && find . -type f | sed 's|^\./||' | sort)
if [ $status != 0 ]; then echo "api/ has changed: run make generate" >&2; fi
exit $status
