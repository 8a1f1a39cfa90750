#!/usr/bin/env bash
# @copilotkit/aimock 1.43.0 (npm), seen on 2026-11-30 with Node 20.20.
#
# Expected: a model server that answers one prepared reply over three APIs counts its tokens alike on all, or on none.
# Seen: on Chat Completions usage has counts above 0, whole and streamed; on Responses and Anthropic's Messages, for the same prompt and reply,
# it is there with 0 of all kinds, which is no absence. A test of costs, limits or compaction that passes on one API measures nothing on the
# others. Fails where the counts are alike. It needs npm, Node and curl; all traffic is on 127.0.0.1.
set -euo pipefail
dir=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts @copilotkit/aimock@1.43.0
echo '{"fixtures":[{"match":{"userMessage":"ready"},"response":{"content":"I am ready."}}]}' >replies.json
port=$(node -e 'const s = require("net").createServer().listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close() })')
node node_modules/@copilotkit/aimock/dist/cli.js --port "$port" --fixtures replies.json >log 2>&1 &
for _ in $(seq 50); do
	curl -s -o /dev/null "http://127.0.0.1:$port/health" && break
	sleep 0.2
done
ask() { curl -s "http://127.0.0.1:$port/v1/$1" -H 'content-type: application/json' -H 'x-api-key: none' -H 'anthropic-version: 2023-06-01' -d "$2" | grep -oE '"usage":\{[^}]*\}' | tail -n 1; }
chat=$(ask chat/completions '{"model":"gpt-4o","messages":[{"role":"user","content":"ready"}]}')
responses=$(ask responses '{"model":"gpt-4o","input":"ready"}')
messages=$(ask messages '{"model":"claude","max_tokens":99,"messages":[{"role":"user","content":"ready"}]}')
printf '%s\n' "chat       $chat" "responses  $responses" "messages   $messages"
grep -qE '"completion_tokens":[1-9]' <<<"$chat" || { echo "changed: Chat Completions counts nothing" >&2; exit 1; }
grep -q '"input_tokens":0,"output_tokens":0' <<<"$responses" || { echo "changed: Responses counts" >&2; exit 1; }
grep -q '"input_tokens":0,"output_tokens":0' <<<"$messages" || { echo "changed: Messages counts" >&2; exit 1; }
echo "as seen: one reply has counts on Chat Completions, and 0 on the two others"
