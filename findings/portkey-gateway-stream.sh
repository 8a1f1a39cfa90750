#!/usr/bin/env bash
# @portkey-ai/gateway 1.15.2 (npm), seen on 2026-11-30 with Node 20.20 and 22.23.
#
# Expected: a gateway that passes a plain Chat Completion of provider "openai" on passes it on as a stream too.
# Seen: without "stream" the answer comes through. With "stream": true the upstream is asked, answers 200 with server-sent events, and the
# client gets 500 {"status":"failure","message":"Something went wrong"}: the gateway appends headers to the Response that fetch returned, whose
# headers are immutable ("TypeError: immutable" in its log). So a client that streams takes each answer for a fault of the server, and pays for
# it again with each try. With the header x-portkey-strict-open-ai-compliance: false it is the same. (Another symptom is in the gateway's issue 1389.)
# Fails where a stream comes through, or a whole answer does not. It needs npm, Node and curl; all traffic is on 127.0.0.1.
set -euo pipefail
dir=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts @portkey-ai/gateway@1.15.2
cat >upstream.mjs <<'J'
import { createServer } from 'node:http'
import { appendFileSync } from 'node:fs'
createServer((request, answer) => {
  let body = ''
  request.on('data', part => { body += part })
  request.on('end', () => {
    const streams = JSON.parse(body).stream === true
    appendFileSync('asked', `${streams}\n`)
    const choice = { index: 0, finish_reason: 'stop' }
    if (!streams) {
      answer.writeHead(200, { 'content-type': 'application/json' })
      answer.end(JSON.stringify({ id: 'c', object: 'chat.completion', created: 1, model: 'm', choices: [{ ...choice, message: { role: 'assistant', content: 'ready' } }] }))
      return
    }
    answer.writeHead(200, { 'content-type': 'text/event-stream' })
    answer.end(`data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ ...choice, delta: { role: 'assistant', content: 'ready' } }] })}\n\ndata: [DONE]\n\n`)
  })
}).listen(Number(process.argv[2]), '127.0.0.1')
J
free() { node -e 'const s=require("net").createServer().listen(0,"127.0.0.1",()=>{console.log(s.address().port);s.close()})'; }
up=$(free) port=$(free)
node upstream.mjs "$up" &
node node_modules/@portkey-ai/gateway/build/start-server.js --port="$port" --headless >log 2>&1 &
ask() {
	curl -s -w '%{http_code}' --max-time 60 "http://127.0.0.1:$port/v1/chat/completions" -H 'content-type: application/json' \
		-H 'authorization: Bearer key' -H 'x-portkey-provider: openai' -H "x-portkey-custom-host: http://127.0.0.1:$up/v1" "${@:2}" \
		-d "{\"model\":\"m\",\"stream\":$1,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"
}
curl -s -o /dev/null --retry 30 --retry-connrefused --retry-delay 1 "http://127.0.0.1:$port/"
whole=$(ask false) stream=$(ask true) loose=$(ask true -H 'x-portkey-strict-open-ai-compliance: false')
printf 'whole:  %s\nstream: %s\nloose:  %s\nasked:  %s\n' "$whole" "$stream" "$loose" "$(tr '\n' ' ' <asked)"
[[ $whole == *'"ready"'*200 ]] && [[ $stream == *'Something went wrong'*500 ]] && [[ $loose == *'Something went wrong'*500 ]] && [ "$(grep -c true asked)" = 2 ] && grep -q 'TypeError: immutable' log
