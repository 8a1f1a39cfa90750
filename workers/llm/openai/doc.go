// Package openai is an adapter for OpenAI and compatible endpoints, with the dialects Chat Completions and Responses.
//
// It converts requests and replies and does nothing else: no retries, no environment, and no state between calls but what an endpoint refused. It
// imports events and workers/llm.
//
// A Chat Completions request uses the part that endpoints have in common: max_tokens outside api.openai.com, plain
// strings for text alone, and only vendor fields that the endpoint sent first. A Responses request is as OpenAI
// documents it.
package openai
