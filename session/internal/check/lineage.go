package check

import (
	"fmt"

	"github.com/lash-go/lash/events"
)

// maxParents is how many ancestors a session may have.
const maxParents = 64

// Lineage is a session and its ancestors, the nearest first.
type Lineage []events.SessionID

// Add appends the next ancestor, and refuses a session that is in the lineage and one ancestor too many.
func (l *Lineage) Add(id events.SessionID) error {
	for _, below := range *l {
		if below == id {
			return &events.FieldError{Field: "parent", Reason: fmt.Sprintf("session %s would be above itself", id), Err: events.ErrInvalid}
		}
	}
	if len(*l) > maxParents {
		return &events.FieldError{Field: "parent", Reason: fmt.Sprintf("has more than %d sessions above it", maxParents), Err: events.ErrInvalid}
	}
	*l = append(*l, id)
	return nil
}
