#!/bin/sh
# Writes the permissions of a tenant anew, from the files of roles/: its exports, its imports,
# its users and its plugins. Run it after an upgrade replaced roles/ and these scripts, compare,
# copy tenants/ to the servers and reload them. tenants/TENANT.conf stays as it is.
#
#   ./update-tenant.sh TENANT
set -eu
cd "$(dirname "$0")"
. ./whole.sh
[ $# -eq 1 ] || { echo "usage: ./update-tenant.sh TENANT" >&2 && exit 2; }
tenant=$1
case $tenant in
  '' | *[!A-Za-z0-9_-]*) echo "$tenant: only A-Z a-z 0-9 _ - are allowed" >&2 && exit 2 ;;
esac
[ -e "tenants/$tenant.conf" ] || { echo "$tenant: is no tenant: want one that add-tenant.sh makes" >&2 && exit 2; }
for list in imports audits; do
  begin "tenants/$tenant/$list.conf"
  sed "s/%TENANT%/$tenant/g" "roles/$list.conf" >"$new"
  finish "tenants/$tenant/$list.conf"
done
for file in "tenants/$tenant"/*.conf; do
  name=$(basename "$file" .conf)
  case $name in
    exports | imports | audits | of-plugins | plugins) continue ;;
    plugin-*) ./add-plugin.sh "$tenant" "${name#plugin-}" && continue ;;
  esac
  role=$(sed -n '1s/^# Role \([a-z]*\):.*/\1/p' "$file")
  [ -n "$role" ] || { echo "$file: its first line names no role" >&2 && exit 1; }
  ./add-user.sh "$tenant" "$role" "$name" >/dev/null
done
./add-plugin.sh "$tenant"
