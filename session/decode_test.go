package session_test

import (
	"bytes"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
)

// FuzzDecodeQueued reads what stands in queues and timers. Nothing panics, and
// what is read is written and read again as the same.
func FuzzDecodeQueued(f *testing.F) {
	for _, v := range []any{
		&session.Command{Input: session.Ask("go").Input, Actor: "a"}, &session.Command{Cover: true}, &session.TaskJob{Task: "k"}, &session.Alarm{},
	} {
		data, err := events.EncodePayload(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		again(t, data, session.DecodeCommand)
		again(t, data, session.DecodeTaskJob)
		again(t, data, session.DecodeAlarm)
	})
}

func again[T any](t *testing.T, data []byte, decode func([]byte) (T, error)) {
	t.Helper()
	first, err := decode(data)
	if err != nil {
		return
	}
	written, err := events.EncodePayload(&first)
	if err != nil {
		return // larger than it may be written
	}
	second, err := decode(written)
	if err != nil {
		t.Fatalf("got %v for what was written", err)
	}
	if rewritten, err := events.EncodePayload(&second); err != nil || !bytes.Equal(rewritten, written) {
		t.Errorf("got %x, %v, want %x", rewritten, err, written)
	}
}
