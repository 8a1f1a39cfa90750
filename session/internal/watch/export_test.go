package watch

// NewEventStream is newEventStream, for tests.
var NewEventStream = newEventStream
