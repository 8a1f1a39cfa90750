package llm

// RetryAfter is retryAfter, for tests.
var RetryAfter = retryAfter
