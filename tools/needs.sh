#!/usr/bin/env bash
# Checks, within a second, that this machine has what a make target needs: needs.sh go git cc chromium ip runc cni. For
# root on Debian it names the missing packages and installs them with apt-get, unless INSTALL is 0; otherwise it says how
# to install them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# test/web/browser.go looks for the same browsers.
browser() {
	if [ -n "${CHROMIUM:-}" ]; then
		command -v "$CHROMIUM" >/dev/null
		return
	fi
	local name
	for name in chromium chromium-browser google-chrome google-chrome-stable chrome; do
		command -v "$name" >/dev/null && return
	done
	return 1
}

has() {
	case $1 in
	go) [[ $("${GO:-go}" env GOVERSION 2>/dev/null) =~ ^go1\.(2[6-9]|[3-9][0-9]) ]] ;;
	cc) command -v "${CC:-$("${GO:-go}" env CC 2>/dev/null || echo gcc)}" >/dev/null ;;
	chromium) browser ;;
	# test/rig/kubelets/missing.go looks in the same folders.
	cni) [ -e /usr/lib/cni/ptp ] || [ -e /opt/cni/bin/ptp ] || [ -e /usr/libexec/cni/ptp ] ;;
	*) command -v "$1" >/dev/null ;;
	esac
}

declare -A packages=([git]=git [cc]="gcc libc6-dev" [chromium]=chromium
	[ip]=iproute2 [runc]=runc [cni]=containernetworking-plugins)
declare -A sentences=(
	[go]="Go 1.26 or later is missing: https://go.dev/doc/install"
	[git]="git is missing: install the package git"
	[cc]="a C compiler is missing, which the race detector needs: install gcc or clang, or name one in \$CC"
	[chromium]="Chromium is missing, which the tests of pages open: install chromium or Chrome, or name one in \$CHROMIUM"
	[ip]="ip is missing, which real nodes need: install the package iproute2"
	[runc]="runc is missing, which real nodes need: install the package runc"
	[cni]="the CNI plugins are missing, which real nodes need: install the package containernetworking-plugins"
)

missing=() install=()
for name in "$@"; do
	if has "$name"; then continue; fi
	missing+=("$name")
	install+=(${packages[$name]:-}) # unquoted: two words are two packages
done
if [ ${#missing[@]} = 0 ]; then exit; fi

if [ ${#install[@]} -gt 0 ] && [ "${INSTALL:-1}" != 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	echo "==> apt-get install ${install[*]} (INSTALL=0 forbids it)"
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${install[@]}" >/dev/null
fi

failed=0
for name in "${missing[@]}"; do
	if has "$name"; then continue; fi
	failed=1
	echo "${sentences[$name]}" >&2
done
exit "$failed"
