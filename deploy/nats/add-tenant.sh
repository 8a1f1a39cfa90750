#!/bin/sh
# Makes a tenant: an inner account, where nodes work and everything is stored, and
# an outer one, TENANT-clients, for clients; with one user of each role, and no plugin.
# Prints the line that accounts.conf needs.
#
#   ./add-tenant.sh TENANT
set -eu
cd "$(dirname "$0")"
. ./whole.sh
[ $# -eq 1 ] || { echo "usage: ./add-tenant.sh TENANT" >&2 && exit 2; }
tenant=$1
case $tenant in
  '' | *[!A-Za-z0-9_-]*) echo "$tenant: only A-Z a-z 0-9 _ - are allowed" >&2 && exit 2 ;;
  *-clients | *-plugin | *-plugin-*) echo "$tenant: is the name of another tenant's account" >&2 && exit 2 ;;
esac
[ ! -e "tenants/$tenant.conf" ] || { echo "tenants/$tenant.conf exists" >&2 && exit 1; }
mkdir -p "tenants/$tenant"
for list in exports imports; do
  begin "tenants/$tenant/$list.conf"
  sed "s/%TENANT%/$tenant/g" "roles/$list.conf" >"$new"
  finish "tenants/$tenant/$list.conf"
done
./add-plugin.sh "$tenant"
begin "tenants/$tenant.conf"
{
  echo "# Tenant $tenant. Its limits are here, so that it cannot use the capacity of others."
  echo "$tenant {"
  echo "  jetstream { max_memory: 512MB, max_file: 20GB, max_streams: 2000, max_consumers: 1000 }"
  echo "  limits { max_connections: 1000, max_payload: 1048576 }"
  echo "  include ./$tenant/exports.conf"
  echo "  include ./$tenant/of-plugins.conf"
  echo "  users: ["
  ./add-user.sh "$tenant" node node
  ./add-user.sh "$tenant" backup backup
  echo "  ]"
  echo "}"
  echo "# Its clients have no store: they request, read and receive what they import, and nothing else exists for them."
  echo "$tenant-clients {"
  echo "  limits { max_connections: 1000, max_payload: 1048576 }"
  echo "  include ./$tenant/imports.conf"
  echo "  users: ["
  ./add-user.sh "$tenant" host host
  ./add-user.sh "$tenant" auditor auditor
  echo "  ]"
  echo "}"
  echo "include ./$tenant/plugins.conf"
} >"$new"
finish "tenants/$tenant.conf"
echo "  include ./tenants/$tenant.conf"
