#!/usr/bin/env bash
# @modelcontextprotocol/server-everything 2026.8.31 (npm), seen on 2026-12-01 with Node 20.20.
#
# Expected: the protocol (2025-11-25, "Session Management") has a server answer requests of a session that it has ended with 404: by that
# a client knows that it must begin a new session, and that the request has not run.
# Seen: after DELETE of the session, and for a session that never was, the reference server answers 400 {"code":-32000,"message":"Bad Request: No
# valid session ID provided"}, as it answers a request without a session. A client that goes by the status takes it for a mistake of its own, and
# every later call fails until somebody connects it again.
# Fails where either is 404, or the session does not work before its end. It needs npm, Node and curl; all traffic is on 127.0.0.1.
set -euo pipefail
dir=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts @modelcontextprotocol/server-everything@2026.8.31
port=$(node -e 'const s=require("net").createServer().listen(0,"127.0.0.1",()=>{console.log(s.address().port);s.close()})')
PORT=$port node node_modules/@modelcontextprotocol/server-everything/dist/index.js streamableHttp >log 2>&1 &
at=http://127.0.0.1:$port/mcp
curl -s -o /dev/null --retry 30 --retry-connrefused --retry-delay 1 "http://127.0.0.1:$port/"
post() { # session, message
	curl -s --max-time 30 -w ' %{http_code}' "$at" -H 'content-type: application/json' -H 'accept: application/json, text/event-stream' \
		-H 'mcp-protocol-version: 2025-11-25' ${1:+-H "mcp-session-id: $1"} -d "$2"
}
curl -s --max-time 30 -D head -o /dev/null "$at" -H 'content-type: application/json' -H 'accept: application/json, text/event-stream' \
	-d '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"probe","version":"1"}}}'
session=$(tr -d '\r' <head | sed -n 's/^mcp-session-id: //Ip')
post "$session" '{"jsonrpc":"2.0","method":"notifications/initialized"}' >/dev/null
list='{"jsonrpc":"2.0","id":2,"method":"tools/list"}'
before=$(post "$session" "$list")
end=$(curl -s -o /dev/null --max-time 30 -w '%{http_code}' -X DELETE "$at" -H "mcp-session-id: $session")
after=$(post "$session" "$list") never=$(post 00000000-0000-4000-8000-000000000000 "$list")
printf 'before: %s\nend:    %s\nafter:  %s\nnever:  %s\n' "${before##* }" "$end" "$after" "$never"
[[ $before == *'"tools"'*200 ]] && [[ $end == 200 ]] && [[ $after == *'No valid session ID provided'*400 ]] && [[ $never == *'No valid session ID provided'*400 ]]
