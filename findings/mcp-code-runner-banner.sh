#!/usr/bin/env bash
# mcp-server-code-runner 0.1.8 (npm), seen on 2026-11-29 with Node 20 and 22.
#
# Expected: over stdio a server writes nothing but messages to its standard output (Model Context Protocol 2025-11-25, Transports, stdio).
# Seen: the first line of its standard output is a sentence, "Code Runner MCP Server running on stdio"; its answer to initialize follows.
# A client that reads each line as JSON ends the session there: the client of github.com/modelcontextprotocol/go-sdk v1.8.0 does, with
# "invalid character 'C' looking for beginning of value". Fails where the first line is a message.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts mcp-server-code-runner@0.1.8
hello='{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"probe","version":"1"}}}'
{ echo "$hello"; sleep 5; } | timeout 30 node node_modules/mcp-server-code-runner/dist/cli.js 2>/dev/null >out || true
head -n 2 out | cut -c 1-120
[ "$(head -n 1 out)" = "Code Runner MCP Server running on stdio" ] || { echo "changed: the first line is another one" >&2; exit 1; }
sed -n 2p out | grep -q '"serverInfo"' || { echo "changed: no answer follows" >&2; exit 1; }
echo "as seen: a sentence comes before the first message"
