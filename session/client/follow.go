package client

import (
	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
)

// follower passes on the deltas of a completion, complete and in order. After a lost delta, or when another node
// starts again, it retracts what it passed on.
type follower struct {
	stream func(plugin.CompletionDelta)
	next   int  // number of the next delta
	lost   bool // a delta of this try was lost: the rest of the try is dropped
	shown  bool // deltas were passed on and not retracted
}

// newFollower returns nil where the request has no stream function.
func newFollower(stream func(plugin.CompletionDelta)) *follower {
	if stream == nil {
		return nil
	}
	return &follower{stream: stream}
}

// try returns the delta handler of the next request.
func (f *follower) try() bus.ChunkFunc {
	if f == nil {
		return nil
	}
	f.takeBack()
	f.next, f.lost = 0, false
	return f.handle
}

func (f *follower) takeBack() {
	if f.shown {
		f.shown = false
		f.stream(plugin.CompletionDelta{Reset: true})
	}
}

func (f *follower) handle(n int, data []byte) {
	var d plugin.CompletionDelta
	if err := events.DecodePayload(data, &d); err != nil || n != f.next {
		f.lost = true
		f.takeBack()
	}
	f.next = n + 1
	switch {
	case d.Reset:
		f.lost = false
		f.takeBack()
	case !f.lost:
		f.shown = true
		f.stream(d)
	}
}
