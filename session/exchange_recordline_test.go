package session_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"testing"

	"github.com/lash-go/lash/session/exchange"
)

// nested is the CBOR of a record whose session has n arrays inside each other, or maps, or tags.
func nested(n int, level []byte) []byte {
	data := append([]byte{0xa1, 0x67}, "session"...)
	data = append(data, 0xa1, 0x67)
	data = append(data, "entries"...)
	data = append(data, 0x81, 0xa1, 0x67)
	data = append(data, "content"...)
	return append(append(data, bytes.Repeat(level, n)...), 0x01)
}

// TestRecordLineIsBounded reads records that nest deeper than the limit of 64, and that announce more than they have.
func TestRecordLineIsBounded(t *testing.T) {
	t.Parallel()
	for name, level := range map[string][]byte{"arrays": {0x81}, "maps": {0xa1, 0x61, 'a'}, "tags": {0xc6}} {
		if line, err := exchange.RecordLine(nested(20, level)); err != nil || !json.Valid(line) {
			t.Errorf("20 %s: got %.80q, %v, want JSON", name, line, err)
		}
		for _, n := range []int{65, 1000, 1 << 20} {
			if _, err := exchange.RecordLine(nested(n, level)); err == nil {
				t.Errorf("%d %s: got no error", n, name)
			}
		}
	}
	for _, kind := range []byte{0x5b, 0x7b, 0x9b, 0xbb} { // bytes, text, array and map with a length of eight bytes
		for _, size := range []uint64{1 << 20, 1 << 31, 1<<63 - 1, 1<<64 - 1} {
			data := binary.BigEndian.AppendUint64(append(nested(0, nil)[:len(nested(0, nil))-1], kind), size)
			if _, err := exchange.RecordLine(data); err == nil {
				t.Errorf("%#x of %d bytes that are not there: got no error", kind, size)
			}
		}
	}
}

// FuzzRecordLine reads any bytes. What it accepts is one line of JSON, not much larger than the record.
func FuzzRecordLine(f *testing.F) {
	for _, seed := range [][]byte{nested(0, nil), nested(3, []byte{0x81}), nested(70, []byte{0xa1, 0x61, 'a'}), {0xd2, 0x84, 0x40, 0xa0, 0x41, 0xa0, 0x40}, {0xa0}, {0xf6}, nil} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		line, err := exchange.RecordLine(data)
		if err != nil {
			return
		}
		line = bytes.TrimSuffix(line, []byte("\n"))
		if !json.Valid(line) || bytes.ContainsRune(line, '\n') {
			t.Errorf("got %.200q, want a line of JSON", line)
		}
		if most := 2048 + 64*len(data); len(line) > most {
			t.Errorf("got %d bytes of %d, want at most %d", len(line), len(data), most)
		}
	})
}
