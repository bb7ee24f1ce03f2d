#!/usr/bin/env bash
# Plays the commands in golden files again: replay.sh [-w] [FILE...]. A golden file has lines that begin with "#$", each a command of
# this script, and below each what it prints. Without -w what has changed is an error, with Helm 4 and with Helm 3.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export LC_ALL=C
chart=charts/taintkeeper values=test/chart/values
helm=bin/helm

# template renders the chart for Kubernetes 1.37 that serves one kind more than Helm knows. Errors about values lose
# their frame and are sorted, and blank lines in which Helm 4 and Helm 3 differ are left out.
template() {
	local errors=$scratch/$BASHPID # several may run at once
	"$helm" template taintkeeper "$chart" --kube-version 1.36.3 --namespace kube-system \
		--api-versions "$serves" "$@" 2>"$errors" |
		awk '/^$/ { blank++; next } /^---$/ { blank = 0 } { for (; blank > 0; blank--) print ""; print }' ||
		sed -E '/^$|^Use --debug|^values don|^Error: values don|^taintkeeper:$|^level=|^coalesce/d
			s/^Error: //; s/^execution error at \([^)]*\): //; s/^ *- //' "$errors" | sort
}

# without leaves out the documents of some templates.
without() { awk -v names=" $* " '
	/^---$/ { next }
	/^# Source: / { name = $3; gsub(/.*\/|\.yaml$/, "", name); out = index(names, " " name " ") == 0; if (out) print "---" }
	out'; }

# plain is what those apply who install without Helm: no labels of a release, and no names of templates.
plain() { sed -E '/^ *(app\.kubernetes\.io\/(instance|version|managed-by)|helm\.sh\/chart): /d; /^# Source: /d' | sed 1d; }

# changes prints what values make of the release in enforce mode: objects that go, by name, and all else that is different.
changes() {
	template -f $values/enforce.yaml | without crd | apart "$scratch/enforce"
	template -f $values/enforce.yaml "$@" | without crd dashboard prometheusrule | apart "$scratch/other"
	diff -rPU0 "$scratch/enforce" "$scratch/other" | sed -E 's/^Only in .*: /gone: /; /^---|^diff/d; s/^\+\+\+ [^\t]*\/([^\t"]*).*/\1/; s/^@@.*/@@/' || true
}

# apart makes a file of each object.
apart() {
	rm -rf "$1" && mkdir "$1"
	awk -v folder="$1" '
		function done() { if (kind != "") printf "%s", text > (folder "/" kind " " name space); text = kind = name = space = "" }
		/^---$/ { done(); next }
		/^kind: / { kind = $2 } /^  name: / && name == "" { name = $2 } /^  namespace: / && space == "" { space = " in " $2 }
		{ text = text $0 "\n" }
		END { done() }'
}

# rights prints the rules of all roles, and objects the name of each object.
rights() { template -f $values/enforce.yaml --show-only templates/rbac.yaml "$@" | awk '
	/^kind: / { kind = $2 } /^  name: / { name = $2 } /^  namespace: / { name = $2 "/" name } kind !~ /Role$/ { next }
	/resources: / { sub(/.*resources: /, ""); resources = $0 }
	/resourceNames: / { sub(/.*resourceNames: /, ""); resources = resources " " $0 }
	/verbs: / { sub(/.*verbs: /, ""); print kind, name, resources, $0 }' | tr -d ',[]'; }
objects() { template "$@" | awk '
	function done() { if (kind != "") print kind, space "/" name; kind = space = name = "" }
	/^---$/ { done() } /^kind: / { kind = $2 } /^  name: / && name == "" { name = $2 } /^  namespace: / && space == "" { space = $2 }
	END { done() }' | sort; }

# labeled counts the objects with a label, and names the others.
labeled() { awk -v label="    $1" '
	function done() { if (kind != "") { if (found) count++; else print "without it:", kind, name }; kind = name = ""; found = 0 }
	/^---$/ { done() } /^kind: / { kind = $2 } /^  name: / && name == "" { name = $2 } $0 == label { found = 1 }
	END { done(); print "with it:", count + 0 }'; }

# notes prints what Helm says after an installation.
notes() { bin/helm install taintkeeper "$chart" --dry-run=client --namespace kube-system "$@" | sed '1,/^NOTES:/d; s/ *$//'; }

# flags prints what the chart says to extraFlags in enforce mode, with other values in $with, and what the program says to
# the same flags.
flags() {
	local flag sets=() arguments=()
	for flag in "$@"; do
		sets+=(--set-json "extraFlags.$flag")
		arguments+=("--${flag//\"/}")
	done
	printf 'chart:   %s\n' "$(template --set mode=enforce $with "${sets[@]}" --show-only templates/deployment.yaml | says)"
	printf 'program: %s\n' "$(program "${arguments[@]}" | says)"
}

# program runs Taintkeeper as the Deployment does. Without a cluster it ends.
program() {
	local arguments
	mapfile -t arguments < <(template --set mode=enforce $with --show-only templates/deployment.yaml | sed -n 's/^        - \(--.*\)/\1/p')
	bin/taintkeeper "${arguments[@]}" "$@" --kubeconfig=/nowhere 2>&1 || true
}

# says is "yes" for a Deployment, or a program that looks for its cluster.
says() { awk '/^kind: Deployment|\/nowhere/ { yes = 1 } NR == 1 { sub(/^taintkeeper: /, ""); first = $0 } END { print yes ? "yes" : first }'; }

# governed prints for each flag of the program whether extraFlags may set it.
governed() {
	local name value answer
	for name in $(bin/taintkeeper --help 2>&1 | sed -nE 's/^ +(-[a-z], )?--([a-z0-9-]+).*/\2/p'); do
		for value in true 1 '"1s"'; do
			answer=$(template --set-json "extraFlags.$name=$value" --show-only templates/deployment.yaml)
			if [[ $answer != *"at '/extraFlags/$name': got"* ]]; then break; fi
		done
		[[ $answer == *"this flag is set by"* || $answer == *"this flag cannot be set"* ]] && echo "$answer" || echo "extraFlags.$name"
	done
}

# play prints a golden file with what its commands print now.
play() {
	local line output=no
	while IFS= read -r line; do
		case $line in
		'#$ '*)
			output=yes
			printf '%s\n' "$line"
			with='' serves=admissionregistration.k8s.io/v1/MutatingAdmissionPolicy
			eval "${line#'#$ '}" 2>&1 || true # what fails says so
			;;
		*) [ $output = yes ] || printf '%s\n' "$line" ;;
		esac
	done <"$1"
	if [ $output = no ]; then
		echo "$1 has no line that begins with '#$ ', so nothing checks it" >&2
		exit 1
	fi
}

scratch=$(mktemp -d) now=$scratch/now
trap 'rm -rf "$scratch"' EXIT
write=no
if [ "${1:-}" = -w ]; then
	write=yes
	shift
fi
golden=("$@")
if [ $# = 0 ]; then golden=(config/{coexistence,deployment,policies,rbac,viewer}.yaml test/chart/golden/*); fi

if [ $write = yes ]; then
	for file in "${golden[@]}"; do
		play "$file" >"$now"
		cp "$now" "$file"
	done
	exit
fi
status=0
check() {
	play "$1" >"$now"
	diff -u --label "$1" --label "$helm now" "$1" "$now" || status=1
}
for file in "${golden[@]}"; do check "$file"; done
helm=bin/helm3
for file in test/chart/golden/{{rest,servicemonitor}.yaml,{changes,files,refused}.txt}; do check "$file"; done
if [ $status != 0 ]; then echo "the chart renders something else: look at it, then make generate" >&2; fi
exit $status
