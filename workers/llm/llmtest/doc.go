// Package llmtest is the conformance suite of model providers.
//
// [Reply] describes the behaviour of a model, independent of providers. [TestProvider] tests any provider that can be
// made to behave so, a scripted one as well as an adapter. [TestWire] tests an adapter against a local HTTP server
// that speaks a [Wire], with what only a server can do: split characters, delay, lie, redirect, and reject the
// requests that the real API rejects.
//
// The test of an adapter is one call of TestWire. The package has the wires of OpenAI's Chat Completions and
// Responses and of Anthropic's Messages. Any other provider calls TestProvider.
//
// The package imports events and workers/llm, no provider and no SDK: its expectations come from the script and from
// the documentation of the wire formats.
package llmtest
