package follow

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventstest"
)

func TestEncoding(t *testing.T) {
	t.Parallel()
	eventstest.TestEncoding(t, snapshotRow{})
	eventstest.TestEncoding(t, sweepSchedule{})
	eventstest.TestEncoding(t, storedSuspects{})
}

// TestSuspectsFitMessage encodes a full row whose suspects were found at many times. It has space for headers in a message of 1 MiB.
func TestSuspectsFitMessage(t *testing.T) {
	t.Parallel()
	list := make([]suspect, maxSuspects)
	for i := range list {
		list[i].since = events.Millis(i / 100)
		binary.BigEndian.PutUint64(list[i].id[:], uint64(i))
	}
	value, err := encodeSuspects(list)
	if err != nil || len(value) > maxRowBytes {
		t.Fatalf("full row: got %d bytes, %v, want at most %d", len(value), err, maxRowBytes)
	}
	back := decodeSuspects(value, time.UnixMilli(1<<40))
	if len(back) != len(list) || slices.ContainsFunc(list, func(x suspect) bool { return back[x.id] != x.since }) {
		t.Errorf("decoded: got %d suspects, want %d with their times", len(back), len(list))
	}
	if back = decodeSuspects(value, time.UnixMilli(5)); back[list[len(list)-1].id] != 5 {
		t.Errorf("a time ahead: got %d, want 5", back[list[len(list)-1].id])
	}
	if back = decodeSuspects([]byte("damaged"), time.UnixMilli(5)); len(back) != 0 {
		t.Errorf("damaged row: got %d suspects, want none", len(back))
	}
}
