// Package openai talks to OpenAI and to the many endpoints that speak its
// dialects, Chat Completions and Responses, through the official SDK.
//
// It owns the mapping of neutral requests and replies to those dialects and
// nothing else: no retries, no environment, no state between calls. It imports
// events, workers/llm and the SDK.
//
// What is sent as Chat Completions is the part that endpoints have in common:
// max_tokens outside api.openai.com, plain strings where there is only text, no
// fields that an endpoint did not use first. What is sent as Responses is what
// OpenAI documents.
package openai
