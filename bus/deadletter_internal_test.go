package bus

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// FuzzReadLetter reads arbitrary dead letters without a panic. Session and sequence are always those of the stream, and one that
// cannot be read has an error.
func FuzzReadLetter(f *testing.F) {
	data, err := events.EncodePayload(&DeadLetter{Session: "s", Error: "cannot be read", Attempts: 1, At: 1000, Worker: "w"})
	runtest.NoError(f, err)
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		b := &Bus{names: names{"lash"}}
		letter := b.readLetter(&jetstream.RawStreamMsg{Subject: b.names.dead("other"), Sequence: 7, Data: data})
		if letter.Seq != 7 || letter.Session != "other" || letter.Error == "" && events.DecodePayload(data, &DeadLetter{}) != nil {
			t.Errorf("got %+v of %x", letter, data)
		}
	})
}
