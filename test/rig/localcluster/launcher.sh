#!/bin/sh
# Runs one component of a local cluster. Beside this script, .pid holds the component's process id while it runs,
# and .exit its exit status afterwards.
self=@SELF@
run=@RUN@
# envtest asks for the flags of a release that it does not know. These are pinned, and to print its help takes the API
# server as long as half its start.
if [ "$*" = --help ]; then
	exit 0
fi

HOME=$run # no component shall find its user's settings
export HOME

# The component gets its signals through the process group; this shell stays to see how it ends.
trap : INT TERM
rm -f "$self.exit"
# The id is noted before the mark is looked for, and the watchdog sets the mark before it reads the ids: one of the
# two sees the other.
/bin/sh -c 'echo $$ >"$0.pid"; [ ! -e "$1/gone" ] || exit 1; shift; exec "$@"' "$self" "$run" @BINARY@ "$@"
status=$?
rm -f "$self.pid"
echo "$status" >"$self.exit"
exit "$status"
