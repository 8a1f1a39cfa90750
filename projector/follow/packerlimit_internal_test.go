package follow

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector/index"
)

// TestLongFullRowsArePacked makes a pack of as many full rows as a packer reads for one. None shares a word with another: all words are in the pack.
func TestLongFullRowsArePacked(t *testing.T) {
	t.Parallel()
	var batch []bus.PackedRow
	random := rand.New(rand.NewPCG(1, 2))
	for bytes := 0; bytes < maxPackRead; {
		row := bus.PackedRow{Session: events.SessionID(fmt.Sprint("s", len(batch))), Revision: uint64(len(batch) + 1)}
		var text strings.Builder
		for range 1040 {
			fmt.Fprintf(&text, "%03d%015x%015x%015x%015x ", len(batch), random.Uint64()>>4, random.Uint64()>>4, random.Uint64()>>4, random.Uint64()>>4)
		}
		b := index.NewBuilder(row.Session, nil)
		b.Add(events.Entry{Seq: 1, Commit: &events.Commit{Events: []events.Event{events.Of("", &events.TaskProgressed{Message: text.String()})}}})
		var err error
		if row.Value, err = b.Encode(index.Settings{}); err != nil {
			t.Fatal(err)
		}
		batch, bytes = append(batch, row), bytes+len(row.Value)
	}
	if _, sessions, err := encodePack(batch); err != nil || len(sessions) != len(batch) {
		t.Errorf("got a pack of %d sessions, %v, want %d", len(sessions), err, len(batch))
	}
}
