# Functions of the scripts beside it, which write each file whole or not at all: a server takes an empty file of
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

new=
trap 'rm -f "$new"' EXIT
trap 'exit 1' HUP INT TERM
