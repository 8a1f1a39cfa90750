package projector

import (
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventstest"
)

// TestEncoding covers the stored and digested types.
func TestEncoding(t *testing.T) {
	t.Parallel()
	eventstest.TestEncoding(t, snapshot{}, segmentData{}, pageData{}, bookData{}, Base{}, Catalog{}, []events.ToolEntry(nil), events.TurnInput{}, events.TurnPrepared{})
}
