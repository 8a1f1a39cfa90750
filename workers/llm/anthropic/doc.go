// Package anthropic talks to Anthropic's Messages API, and to endpoints that
// speak it, through the official SDK.
//
// It owns the mapping of neutral requests and replies to that dialect and
// nothing else: no retries, no environment, no tracing, no state between calls.
// It imports events, workers/llm and the SDK.
//
// The API wants roles that alternate, results right behind their calls and
// thinking handed back exactly as it came; see params.go for how a history
// gets that shape.
package anthropic
