package projector

import (
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventstest"
)

// TestEncoding has what is stored and what is digested.
func TestEncoding(t *testing.T) {
	t.Parallel()
	eventstest.TestEncoding(t, snapshot{}, segmentData{}, pageData{}, bookData{}, Base{}, Catalog{}, []events.ToolEntry(nil), events.TurnInput{}, events.TurnPrepared{})
}
