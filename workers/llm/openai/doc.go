// Package openai is an adapter for OpenAI and compatible endpoints, with the wires Chat Completions and Responses. It converts
// requests and replies, and does nothing else. It imports events and workers/llm.
//
// A Chat Completions request uses the part that endpoints have in common: max_tokens outside api.openai.com, plain strings for text
// alone, and only vendor fields that the endpoint sent first. A Responses request is as OpenAI documents it.
package openai
