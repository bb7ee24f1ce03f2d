# $1: the folder with the launchers; $2: a folder to remove, if any. Standard input is a pipe from the program that
# started the cluster: it says a line when all has ended in good order, and is closed when that program is gone.
if read -r _; then
	exit 0
fi
: >"$1/gone"
for file in "$1"/*.pid; do
	[ -e "$file" ] && kill -KILL "$(cat "$file")"
done
[ -n "$2" ] || exit 0
# The launchers still write to the folder while they end.
for attempt in 1 2 3 4 5 6 7 8 9 10; do
	rm -rf "$2" && exit 0
	sleep 1
done
