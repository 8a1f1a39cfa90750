package bus

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/events"
)

// FuzzReadLetter reads dead letters. Nothing panics; the sequence is the stream's, whatever the letter says.
func FuzzReadLetter(f *testing.F) {
	data, err := events.EncodePayload(&DeadLetter{Session: "s", Error: "cannot be read", Attempts: 1, At: 1000, Worker: "w"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		letter, err := readLetter(&jetstream.RawStreamMsg{Sequence: 7, Data: data})
		if err == nil && (letter.Seq != 7 || len(letter.Error) > len(data)) {
			t.Errorf("got %+v of %x", letter, data)
		}
	})
}
