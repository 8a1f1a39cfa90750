#!/bin/sh
# Makes the authorities and certificates that the files here name, with openssl,
# into certs/. Use it to try things out, or if you have no authority of your own.
# A program with certs/*-ca.key can be any user. Keep those keys on no server.
#
#   ./make-certs.sh authorities                      once
#   ./make-certs.sh server s1.nats.internal [...]    once, with the names of all servers: each run
#                                                    replaces server.pem and route.pem
#   ./make-certs.sh user node@acme                   for each user; prints nothing secret
#
# A user's certificate is good for DAYS (90) days; make the next one before that.
set -eu
umask 077
cd "$(dirname "$0")"
usage() {
  echo "usage: ./make-certs.sh authorities | server NAME... | user NAME@TENANT" >&2
  exit 2
}
case ${1-} in
  authorities) [ $# -eq 1 ] || usage ;;
  server) [ $# -ge 2 ] || usage ;;
  user)
    [ $# -eq 2 ] || usage
    case $2 in
      *@*@* | @* | *@ | *-at-* | *[!A-Za-z0-9_@-]*) echo "$2: want NAME@TENANT, of A-Z a-z 0-9 _ - and without -at-" >&2 && exit 2 ;;
      *@*) ;;
      *) usage ;;
    esac
    ;;
  *) usage ;;
esac
mkdir -p certs
days=${DAYS:-90}

# One run at a time: a key of one run and a certificate of another do not belong together.
lock=certs/lock
tries=0
until mkdir "$lock" 2>/dev/null; do
  tries=$((tries + 1))
  [ "$tries" -le "${LOCK_SECONDS:-60}" ] ||
    { echo "another make-certs.sh runs in this directory; if none does, remove $PWD/$lock" >&2 && exit 1; }
  sleep 1
done
# A run that ended between the two moves of a pair has the certificate of the key that it moved: it belongs there.
finish() { # DIRECTORY of a run
  if [ -e "$1/new.pem" ] && [ ! -e "$1/new.key" ]; then
    mv "$1/new.pem" "${1%.*}.pem"
    echo "${1%.*}.pem: put beside its key, after a run that was ended between the two" >&2
  fi
  rm -rf "$1"
}
dir=
trap '[ -z "$dir" ] || finish "$dir"; rm -rf "$lock"' EXIT
trap 'exit 1' HUP INT TERM

for left in certs/*.??????; do
  [ ! -d "$left" ] || finish "$left"
done

authority() { # FILE
  [ ! -e "certs/$1-ca.key" ] || { echo "certs/$1-ca.key exists: it is not replaced" >&2 && exit 1; }
  dir=$(mktemp -d "certs/$1-ca.XXXXXX")
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 3650 \
    -subj "/CN=lash $1" -addext "basicConstraints=critical,CA:true" -addext "keyUsage=critical,keyCertSign,cRLSign" \
    -keyout "$dir/new.key" -out "$dir/new.pem" 2>/dev/null
  mv "$dir/new.key" "certs/$1-ca.key"
  mv "$dir/new.pem" "certs/$1-ca.pem"
  rm -rf "$dir"
}

issue() { # AUTHORITY FILE NAME ALTERNATIVE-NAMES USAGE
  dir=$(mktemp -d "certs/$2.XXXXXX") # a certificate and its key replace the last ones together, when both are there
  new=$dir/new
  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -subj "/CN=$3" \
    -keyout "$new.key" -out "$new.csr" 2>/dev/null
  printf 'subjectAltName=%s\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=%s\n' "$4" "$5" >"$new.ext"
  openssl x509 -req -in "$new.csr" -CA "certs/$1-ca.pem" -CAkey "certs/$1-ca.key" \
    -days "$days" -extfile "$new.ext" -out "$new.pem" 2>/dev/null ||
    { echo "certs/$1-ca.key is not the key of the first certificate of certs/$1-ca.pem" >&2 && exit 1; }
  mv "$new.key" "certs/$2.key"
  mv "$new.pem" "certs/$2.pem"
  rm -rf "$dir"
}

what=$1
shift
case $what in
  authorities)
    [ -e certs/clients-ca.key ] && [ ! -e certs/routes-ca.key ] || authority clients # else a run was killed between the two
    authority routes
    ;;
  server)
    names=
    for name in "$@"; do
      case $name in
        *[!0-9.]*) names="$names,DNS:$name" ;;
        *) names="$names,IP:$name" ;;
      esac
    done
    issue clients server "$1" "${names#,}" serverAuth
    issue routes route "$1" "${names#,}" serverAuth,clientAuth
    ;;
  user)
    issue clients "$(echo "$1" | sed 's/@/-at-/')" "$1" "email:$1" clientAuth
    ;;
esac
