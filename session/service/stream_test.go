package service

import (
	"testing"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
)

// TestPiecesOfEveryOperation requests every operation's answer in pieces: operations that do not stream refuse it,
// and name the header.
func TestPiecesOfEveryOperation(t *testing.T) {
	t.Parallel()
	d, streams := &server{log: zap.NewNop()}, 0
	for name, op := range operation.Named() {
		for what, in := range map[string]bus.Incoming{"a token": {Stream: true, SendChunk: func([]byte) {}}, "a bad token": {Stream: true}} {
			out, _ := d.handle(streaming(t.Context(), in), op, "", []byte("x"))
			var a api.Response
			if err := events.DecodePayload(out, &a); err != nil {
				t.Fatal(err)
			}
			if refused := a.Error.Details["field"] == "Lash-Stream"; refused == op.Streams {
				t.Errorf("%s with %s: got %+v", name, what, a.Error)
			}
		}
		if op.Streams {
			streams++
		}
	}
	if streams != 1 {
		t.Errorf("got %d operations that stream, want that of completions", streams)
	}
}
