#!/bin/sh
# Makes a tenant: an inner account, where nodes work and everything is stored, and
# two outer ones, TENANT-clients and TENANT-auditors; with one user of each role, and no plugin.
# Prints the line that accounts.conf needs. Warns if the tenants have more than server.conf,
# cluster/cluster.conf or common.conf gives: such a server does not start, or has too few connections.
#
#   ./add-tenant.sh TENANT
#   MAX_MEMORY=512MB MAX_FILE=20GB MAX_STREAMS=2000 ./add-tenant.sh TENANT
set -eu
cd "$(dirname "$0")"
. ./whole.sh
[ $# -eq 1 ] || { echo "usage: ./add-tenant.sh TENANT" >&2 && exit 2; }
tenant=$1
case $tenant in
  '' | *[!A-Za-z0-9_-]*) echo "$tenant: only A-Z a-z 0-9 _ - are allowed" >&2 && exit 2 ;;
  *-clients | *-auditors | *-plugin | *-plugin-*) echo "$tenant: is the name of another tenant's account" >&2 && exit 2 ;;
esac
: "${MAX_MEMORY:=320MB}" "${MAX_FILE:=3GB}" "${MAX_STREAMS:=1300}"
for size in "$MAX_MEMORY" "$MAX_FILE"; do
  expr "$size" : '[0-9]*[KMGT]B$' >/dev/null || { echo "$size: want a size, as 320MB or 3GB" >&2 && exit 2; }
done
expr "$MAX_STREAMS" : '[0-9]*$' >/dev/null || { echo "$MAX_STREAMS: want a number of streams" >&2 && exit 2; }
[ ! -e "tenants/$tenant.conf" ] || { echo "tenants/$tenant.conf exists" >&2 && exit 1; }
mkdir -p "tenants/$tenant"
for list in exports imports audits; do
  begin "tenants/$tenant/$list.conf"
  sed "s/%TENANT%/$tenant/g" "roles/$list.conf" >"$new"
  finish "tenants/$tenant/$list.conf"
done
./add-plugin.sh "$tenant"
begin "tenants/$tenant.conf"
{
  echo "# Tenant $tenant. Its limits are here, so that it cannot use the capacity of others."
  echo "$tenant {"
  echo "  jetstream { max_memory: $MAX_MEMORY, max_file: $MAX_FILE, max_streams: $MAX_STREAMS, max_consumers: 1000 }"
  echo "  limits { max_connections: 16, max_subscriptions: 4096, max_payload: 1048576 }"
  echo "  include ./$tenant/exports.conf"
  echo "  include ./$tenant/of-plugins.conf"
  echo "  users: ["
  ./add-user.sh "$tenant" node node
  ./add-user.sh "$tenant" backup backup
  ./add-user.sh "$tenant" reader reader
  echo "  ]"
  echo "}"
  echo "# Its clients have no store: they request, read and receive what they import, and nothing else exists for them."
  echo "$tenant-clients {"
  echo "  limits { max_connections: 32, max_subscriptions: 256, max_payload: 1048576 }"
  echo "  include ./$tenant/imports.conf"
  echo "  users: ["
  ./add-user.sh "$tenant" host host
  echo "  ]"
  echo "}"
  echo "# Its auditors trust no node, and use no capacity of clients."
  echo "$tenant-auditors {"
  echo "  limits { max_connections: 4, max_subscriptions: 64, max_payload: 4096 }"
  echo "  include ./$tenant/audits.conf"
  echo "  users: ["
  ./add-user.sh "$tenant" auditor auditor
  echo "  ]"
  echo "}"
  echo "include ./$tenant/plugins.conf"
} >"$new"
finish "tenants/$tenant.conf"
echo "  include ./tenants/$tenant.conf"

# sum KEY FILE... is the sum of a limit in bytes.
sum() {
  key=$1 && shift
  sed -n "s/^[^#]*$key: *\([0-9]*[KMGT]B\).*/\1/p" "$@" | awk '{ n = $1 + 0; u = index("KMGT", substr($1, length($1) - 1, 1)); s += n * 1024 ^ u } END { printf "%.0f\n", s }'
}
for limit in memory file; do
  need=$(sum max_$limit tenants/*.conf)
  for servers in server.conf cluster/cluster.conf; do
    has=$(sum max_${limit}_store "$servers")
    [ "$need" -le "$has" ] || echo "$servers: max_${limit}_store is $has bytes, and the tenants have $need: raise it, or lower max_$limit of tenants, or the server does not start" >&2
  done
done
enough_connections
