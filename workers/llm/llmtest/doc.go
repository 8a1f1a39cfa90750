// Package llmtest is the conformance suite of model providers.
//
// It owns one description of behaviour, [Reply], in no provider's words.
// [TestProvider] runs on anything that can be made to behave like that, a
// scripted provider as well as an adapter. [TestWire] runs the same on an
// adapter whose endpoint is a local HTTP server that speaks a [Wire], and adds
// what only an endpoint can do: split characters, hold back, lie, redirect, and
// refuse the requests that the real API refuses.
//
// An adapter's test is one call of TestWire; the wires of OpenAI's Chat
// Completions and of Anthropic's Messages are here. Another kind of provider
// calls TestProvider.
//
// It imports events and workers/llm, no provider and no SDK: what it expects
// comes from the script and from the wire formats' documentation.
package llmtest
