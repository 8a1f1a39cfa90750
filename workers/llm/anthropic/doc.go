// Package anthropic is an adapter for Anthropic's Messages API, and for compatible endpoints.
//
// It converts requests and replies and does nothing else: no retries, no environment, no tracing, and no state
// between calls but what an endpoint refused. It imports events and workers/llm.
//
// The API requires alternating roles, results directly after their calls, and unchanged thinking; params.go converts
// a history to this form.
package anthropic
