# Functions of the scripts beside it, most of which write each file whole or not at all: a server takes an empty file of
# permissions as leave to do everything. They include this file, and nobody runs it.

# begin FILE makes the empty file $new in the directory of FILE. Nothing has its name yet, a link neither, and two
# scripts that run at once have two.
begin() {
  [ ! -d "$1" ] || { echo "$1: is a directory" >&2 && exit 1; }
  new=$(mktemp "$1.XXXXXX")
}

# finish FILE moves $new to FILE. It gets the mode that FILE has, or the mode of new files.
finish() {
  if [ -e "$1" ]; then
    chmod "$(stat -c %a "$1" 2>/dev/null || stat -f %Lp "$1")" "$new"
  else
    chmod "$(printf %o $((0666 & ~0$(umask))))" "$new"
  fi
  mv "$new" "$1"
}

# enough_connections warns where the accounts may have more connections together than a server takes.
enough_connections() {
  need=$(cat accounts.conf tenants/*.conf tenants/*/plugin-*.conf 2>/dev/null | sed -n 's/^[^#]*max_connections: *\([0-9]*\).*/\1/p' | awk '{ s += $1 } END { print s + 0 }')
  has=$(sed -n 's/^max_connections: *\([0-9]*\)$/\1/p' common.conf)
  [ "$need" -le "$has" ] || echo "common.conf: max_connections is $has, and the accounts have $need: raise it with the memory of the servers, or lower max_connections of accounts, or one account can take the connections of others" >&2
}

new=
trap 'rm -f "$new"' EXIT
trap 'exit 1' HUP INT TERM
