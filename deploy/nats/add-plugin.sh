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
. ./whole.sh
[ $# -eq 1 ] || [ $# -eq 2 ] || { echo "usage: ./add-plugin.sh TENANT [NAME]" >&2 && exit 2; }
tenant=$1
for word in "$@"; do
  case $word in
    '' | *[!A-Za-z0-9_-]*) echo "$word: only A-Z a-z 0-9 _ - are allowed" >&2 && exit 2 ;;
  esac
done
dir=tenants/$tenant
[ -e "$dir/exports.conf" ] || { echo "$tenant: is no tenant: want one that add-tenant.sh makes" >&2 && exit 2; }
if [ $# -eq 2 ]; then
  begin "$dir/plugin-$2.conf"
  sed "s/%TENANT%/$tenant/g; s/%PLUGIN%/$2/g" roles/plugin.conf >"$new"
  finish "$dir/plugin-$2.conf"
fi
names() {
  for file in "$dir"/plugin-*.conf; do
    name=${file##*/plugin-}
    [ ! -e "$file" ] || echo "${name%.conf}"
  done
}
list() { # FORMAT, of the name of each plugin
  for name in $plugins; do
    echo "$1" | sed "s/%TENANT%/$tenant/g; s/%PLUGIN%/$name/g"
  done
}
lists() {
  begin "$dir/exports.conf"
  {
    sed "s/%TENANT%/$tenant/g; \$d" roles/exports.conf
    list '  { service: "lash.plugins.%PLUGIN%.*", accounts: ["%TENANT%-plugin-%PLUGIN%"] }'
    echo "]"
  } >"$new"
  finish "$dir/exports.conf"
  begin "$dir/of-plugins.conf"
  {
    echo "# What the account of tenant $tenant requests and receives from its plugins."
    echo "imports: ["
    list '  { service: { account: "%TENANT%-plugin-%PLUGIN%", subject: "lash.plugin.%PLUGIN%.*.*" } }
  { stream: { account: "%TENANT%-plugin-%PLUGIN%", subject: "lash.plugin-live.%PLUGIN%.*" } }'
    echo "]"
  } >"$new"
  finish "$dir/of-plugins.conf"
  begin "$dir/plugins.conf"
  {
    echo "# Accounts of the plugins of tenant $tenant."
    list 'include ./plugin-%PLUGIN%.conf'
  } >"$new"
  finish "$dir/plugins.conf"
}
# Another run may add a plugin meanwhile, and write its lists before this one: the last to write has all plugins.
plugins=$(names)
lists
while [ "$plugins" != "$(names)" ]; do
  plugins=$(names)
  lists
done
[ $# -eq 1 ] || enough_connections
