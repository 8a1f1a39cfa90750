#!/bin/sh
# Makes a tenant with one user of each role. Prints the line that accounts.conf needs.
#
#   ./add-tenant.sh TENANT
set -eu
cd "$(dirname "$0")"
tenant=$1
[ ! -e "tenants/$tenant.conf" ] || { echo "tenants/$tenant.conf exists" >&2 && exit 1; }
mkdir -p tenants
{
  echo "# Tenant $tenant. What it may hold is bounded here, so that it cannot take the others' share."
  echo "$tenant {"
  echo "  jetstream { max_memory: 512MB, max_file: 20GB, max_streams: 2000, max_consumers: 20000 }"
  echo "  limits { max_connections: 2000, max_payload: 1048576 }"
  echo "  users: ["
  ./add-user.sh "$tenant" node node
  ./add-user.sh "$tenant" host host
  ./add-user.sh "$tenant" auditor auditor
  ./add-user.sh "$tenant" plugin sample
  ./add-user.sh "$tenant" backup backup
  echo "  ]"
  echo "}"
} >"tenants/$tenant.conf"
echo "  include ./tenants/$tenant.conf"
