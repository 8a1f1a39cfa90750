#!/bin/sh
# Gives a tenant a user: writes tenants/TENANT/NAME.conf from roles/ROLE.conf and
# prints the line that tenants/TENANT.conf needs: host and auditor are users of the
# account TENANT-clients, node and backup of TENANT. Its certificate: make-certs.sh.
#
#   ./add-user.sh TENANT ROLE NAME      e.g. ./add-user.sh acme host alice
#
# Run again after an upgrade: it overwrites.
set -eu
cd "$(dirname "$0")"
tenant=$1 role=$2 name=$3
for word in "$tenant" "$name"; do
  case $word in
    '' | *[!A-Za-z0-9_-]*) echo "$word: only A-Z a-z 0-9 _ - are allowed" >&2 && exit 2 ;;
  esac
done
mkdir -p "tenants/$tenant"
sed "s/%NAME%/$name/g" "roles/$role.conf" >"tenants/$tenant/$name.conf"
echo "    { user: \"$name@$tenant\", permissions: { include ./$tenant/$name.conf } }"
