package client

import (
	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
)

// follower hands a completion on as it comes, whole and in order. Where pieces were
// lost, or another node begins anew, what it handed on is taken back.
type follower struct {
	stream func(plugin.CompletionDelta)
	next   int  // number of the piece to come
	lost   bool // some of this try of the model: the rest of it is of no use
	shown  bool // something that was not taken back
}

// newFollower is nil where nothing gets the pieces.
func newFollower(stream func(plugin.CompletionDelta)) *follower {
	if stream == nil {
		return nil
	}
	return &follower{stream: stream}
}

// try follows the answer to the next request.
func (f *follower) try() bus.PieceFunc {
	if f == nil {
		return nil
	}
	f.takeBack()
	f.next, f.lost = 0, false
	return f.piece
}

func (f *follower) takeBack() {
	if f.shown {
		f.shown = false
		f.stream(plugin.CompletionDelta{Reset: true})
	}
}

func (f *follower) piece(n int, data []byte) {
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
