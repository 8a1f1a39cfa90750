// Package anthropic is an adapter for Anthropic's Messages API, and for compatible endpoints. It converts requests and replies,
// and does nothing else. It imports events and workers/llm.
package anthropic
