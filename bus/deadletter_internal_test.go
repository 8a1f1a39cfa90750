package bus

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/events"
)

// FuzzReadLetter reads arbitrary dead letters without a panic; the sequence is always the stream's.
func FuzzReadLetter(f *testing.F) {
	data, err := events.EncodePayload(&DeadLetter{Session: "s", Error: "cannot be read", Attempts: 1, At: 1000, Worker: "w"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		letter, err := (&Bus{}).readLetter(&jetstream.RawStreamMsg{Sequence: 7, Data: data})
		if err == nil && (letter.Seq != 7 || len(letter.Error) > len(data)) {
			t.Errorf("got %+v of %x", letter, data)
		}
	})
}
