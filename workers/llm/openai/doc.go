// Package openai talks to OpenAI and to the many endpoints that speak its Chat
// Completions dialect, through the official SDK.
//
// It owns the mapping of neutral requests and replies to that dialect and
// nothing else: no retries, no environment, no state between calls. It imports
// events, workers/llm and the SDK.
//
// Dialects differ, so what leaves this package is the common part: max_tokens
// outside api.openai.com, plain strings where there is only text, no fields
// that an endpoint did not use first.
package openai
