#!/bin/sh
# Gives a plugin of a tenant an account of its own, TENANT-plugin-NAME, with the user
# plugin-NAME@TENANT. Writes tenants/TENANT/plugin-NAME.conf from roles/plugin.conf, and
# the lists of the tenant's plugins. Then reload the servers. Its certificate: make-certs.sh.
#
#   ./add-plugin.sh TENANT NAME      e.g. ./add-plugin.sh acme weather
#   ./add-plugin.sh TENANT           writes the lists alone: after you removed plugin-NAME.conf
#
# Run again after an upgrade: it overwrites.
set -eu
cd "$(dirname "$0")"
[ $# -eq 1 ] || [ $# -eq 2 ] || { echo "usage: ./add-plugin.sh TENANT [NAME]" >&2 && exit 2; }
tenant=$1
for word in "$@"; do
  case $word in
    '' | *[!A-Za-z0-9_-]*) echo "$word: only A-Z a-z 0-9 _ - are allowed" >&2 && exit 2 ;;
  esac
done
dir=tenants/$tenant
[ -e "$dir/exports.conf" ] || { echo "$tenant: is no tenant: want one that add-tenant.sh makes" >&2 && exit 2; }
new=$dir/plugins.conf.new # each file is whole, or is not there
trap 'rm -f "$new"' EXIT
if [ $# -eq 2 ]; then
  sed "s/%TENANT%/$tenant/g; s/%PLUGIN%/$2/g" roles/plugin.conf >"$new"
  mv "$new" "$dir/plugin-$2.conf"
fi
list() { # FORMAT, of the name of each plugin
  for file in "$dir"/plugin-*.conf; do
    name=${file##*/plugin-}
    [ ! -e "$file" ] || echo "$1" | sed "s/%TENANT%/$tenant/g; s/%PLUGIN%/${name%.conf}/g"
  done
}
{
  sed "s/%TENANT%/$tenant/g; \$d" roles/exports.conf
  list '  { service: "lash.plugins.%PLUGIN%.*", accounts: ["%TENANT%-plugin-%PLUGIN%"] }'
  echo "]"
} >"$new"
mv "$new" "$dir/exports.conf"
{
  echo "# What the account of tenant $tenant requests and receives from its plugins."
  echo "imports: ["
  list '  { service: { account: "%TENANT%-plugin-%PLUGIN%", subject: "lash.plugin.%PLUGIN%.*.*" } }
  { stream: { account: "%TENANT%-plugin-%PLUGIN%", subject: "lash.plugin-live.%PLUGIN%.*" } }'
  echo "]"
} >"$new"
mv "$new" "$dir/of-plugins.conf"
{
  echo "# Accounts of the plugins of tenant $tenant."
  list 'include ./plugin-%PLUGIN%.conf'
} >"$new"
mv "$new" "$dir/plugins.conf"
