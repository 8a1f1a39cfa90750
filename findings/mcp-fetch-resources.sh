#!/usr/bin/env bash
# mcp-fetch-server 1.1.2 (npm), seen on 2026-11-29 with Node 20 and 22.
#
# Expected: a server whose answer to initialize has the capability "resources" answers resources/list (Model Context Protocol 2025-11-25).
# Seen: it declares the capability, and answers resources/list and resources/read with -32601, "Method not found". A client that offers
# tools for reading resources wherever the capability stands offers some that never work. Fails where one of both is mended.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts mcp-fetch-server@1.1.2
{
	echo '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"probe","version":"1"}}}'
	sleep 3
	echo '{"jsonrpc":"2.0","method":"notifications/initialized"}'
	echo '{"jsonrpc":"2.0","id":2,"method":"resources/list","params":{}}'
	sleep 2
} | timeout 30 node node_modules/mcp-fetch-server/dist/index.js 2>/dev/null >out || true
cut -c 1-200 out
grep '"id":1' out | grep -q '"resources":' || { echo "changed: it does not declare resources" >&2; exit 1; }
grep '"id":2' out | grep -q -- '-32601' || { echo "changed: it answers resources/list" >&2; exit 1; }
echo "as seen: resources are declared, and resources/list is no method"
