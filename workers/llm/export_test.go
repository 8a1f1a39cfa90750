package llm

// RetryAfter is retryAfter, for tests.
var RetryAfter = retryAfter

// MaxReplyBytes is maxReplyBytes, for tests.
const MaxReplyBytes = maxReplyBytes
