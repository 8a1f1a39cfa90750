package archive

import (
	"fmt"
	"path"

	"github.com/lash-go/lash/events"
)

// Limits of what one redaction names.
const (
	maxWhat      = 64
	maxWhatBytes = 300 // of one
)

// CheckWhat checks what names the events of a redaction: kinds, patterns of kinds such as tool.*, and ids of events.
// Errors: an [*events.FieldError].
func CheckWhat(what []string) error {
	if len(what) == 0 || len(what) > maxWhat {
		return &events.FieldError{Field: "what", Reason: fmt.Sprintf("names %d kinds and events, want 1 to %d", len(what), maxWhat), Err: events.ErrInvalid}
	}
	for _, one := range what {
		if one == "" || len(one) > maxWhatBytes {
			return &events.FieldError{Field: "what", Reason: fmt.Sprintf("has a name of %d bytes, want 1 to %d", len(one), maxWhatBytes), Err: events.ErrInvalid}
		}
		if _, err := path.Match(one, ""); err != nil {
			return &events.FieldError{Field: "what", Reason: fmt.Sprintf("%q: %v", one, err), Err: events.ErrInvalid}
		}
	}
	return nil
}

// Names reports whether a kind, a pattern of kinds or an id names the event at an index of a commit.
func Names(what string, e events.Entry, index int) bool {
	if what == string(e.Commit.EventID(index)) {
		return true
	}
	matches, err := path.Match(what, string(e.Commit.Events[index].Kind))
	return err == nil && matches
}
