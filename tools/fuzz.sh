#!/usr/bin/env bash
# Gives random input to the parsers and to the rule that decides when a pod leaves: fuzz.sh [TIME], by default 1m for
# each target. Inputs that fail are kept as cases of the target's test.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for target in taints:FuzzParse taints:FuzzApply verdict:FuzzDecide internal/cluster/podwire:FuzzPods internal/cluster/podwire:FuzzWire; do
	"${GO:-go}" test -run '^$' -fuzz "^${target#*:}$" -fuzztime "${1:-1m}" "./${target%:*}"
done
