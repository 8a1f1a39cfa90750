#!/bin/sh
# Gives a tenant a user: writes tenants/TENANT/NAME.conf from roles/ROLE.conf and
# prints the line that tenants/TENANT.conf needs: host is a user of the account
# TENANT-clients, auditor of TENANT-auditors, node, backup and reader of TENANT. Its certificate: make-certs.sh.
#
#   ./add-user.sh TENANT ROLE NAME      e.g. ./add-user.sh acme host alice
#
# Run again after an upgrade: it overwrites.
set -eu
cd "$(dirname "$0")"
. ./whole.sh
[ $# -eq 3 ] || { echo "usage: ./add-user.sh TENANT ROLE NAME, ROLE is one of node, backup, reader, host, auditor" >&2 && exit 2; }
tenant=$1 role=$2 name=$3
case $role in
  node | backup | reader | host | auditor) ;;
  *) echo "$role: is no role: want node, backup, reader, host or auditor" >&2 && exit 2 ;;
esac
case $name in
  exports | imports | audits | of-plugins | plugins | plugin-*) echo "$name: the tenant has a file of that name" >&2 && exit 2 ;;
esac
for word in "$tenant" "$name"; do
  case $word in
    '' | *[!A-Za-z0-9_-]*) echo "$word: only A-Z a-z 0-9 _ - are allowed" >&2 && exit 2 ;;
  esac
done
# add-tenant.sh makes a tenant's exports before its users.
if [ ! -e "tenants/$tenant/exports.conf" ]; then
  tenants=$(for file in tenants/*/exports.conf; do if [ -e "$file" ]; then basename "$(dirname "$file")"; fi; done)
  echo "$tenant: is no tenant: want ${tenants:+one of $(echo $tenants), or }one that add-tenant.sh makes" >&2
  exit 2
fi
begin "tenants/$tenant/$name.conf"
sed "s/%NAME%/$name/g" "roles/$role.conf" >"$new"
finish "tenants/$tenant/$name.conf"
echo "    { user: \"$name@$tenant\", permissions: { include ./$tenant/$name.conf } }"
