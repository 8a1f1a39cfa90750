package index

import (
	"testing"

	"github.com/lash-go/lash/events/eventstest"
)

func TestEncoding(t *testing.T) {
	t.Parallel()
	eventstest.TestEncoding(t, Row{}, packed{}, packedSettings{})
}
