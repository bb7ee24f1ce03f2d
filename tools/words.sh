#!/usr/bin/env bash
# Checks the English of docs, comments, messages and manifests with Vale (.vale.ini): words.sh [FILE...]. Without files,
# it checks all.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ $# = 0 ]; then set -- '*.md' '*.go' '*.yaml' '*.tpl' '*.html' '*.js' '*.sh'; fi
make -s bin/vale
git ls-files --cached --others --exclude-standard -- "$@" | while read -r file; do
	if [ -e "$file" ]; then printf '%s\n' "$file"; fi # not deleted
done | xargs -r bin/vale --output=line
