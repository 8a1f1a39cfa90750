package openai

import (
	"net/http"

	"github.com/openai/openai-go/v3/option"
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

// send makes a streaming call of either API: it builds the parameters, and reads the reply from the events of the
// response. The SDK's stream hides [DONE] and takes a null error for an error, so this package decodes the events.
func send[P any](p *endpoint, build func() (P, error), call func(P, option.RequestOption) error, r streamedReply) (llm.Response, error) {
	if err := p.checkKey(); err != nil {
		return llm.Response{}, err
	}
	params, err := build()
	if err != nil {
		return llm.Response{}, err
	}
	var res *http.Response
	if err := call(params, option.WithResponseBodyInto(&res)); err != nil {
		return llm.Response{}, err
	}
	return readEvents(res, r)
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
