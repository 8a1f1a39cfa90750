package openai

import (
	"net/http"

	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/lash-go/lash/workers/llm"
)

// streamedReply assembles a reply of one dialect from the events of its stream.
type streamedReply interface {
	event(e ssestream.Event) error
	isDone() bool          // the stream has said that the reply is complete
	counted() llm.Response // usage and model so far, for a reply that fails
	end(err error) (llm.Response, error)
}

// readEvents passes the events of a response to a reply until it is done, and closes the response.
func readEvents(res *http.Response, r streamedReply) (llm.Response, error) {
	events := ssestream.NewDecoder(res)
	defer func() { _ = events.Close() }()
	for !r.isDone() && events.Next() {
		if err := r.event(events.Event()); err != nil {
			return r.counted(), err
		}
	}
	return r.end(events.Err())
}
