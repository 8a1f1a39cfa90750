package events

import (
	"fmt"
	"path"
)

// RedactionRecord is the record of payloads that digests replaced in a history. It is with the stored history, and in the
// header of archives.
type RedactionRecord struct {
	At     Millis   `msgpack:"t"`
	By     string   `msgpack:"b"`           // the caller
	Reason string   `msgpack:"r"`           // at most MaxReasonBytes
	What   []string `msgpack:"w"`           // kinds, patterns of kinds, and ids of events
	Events int64    `msgpack:"e"`           // number of payloads
	Note   string   `msgpack:"g,omitempty"` // the same, signed: see proof.RedactionRecord; empty: not signed
}

// Limits of records of redactions.
const (
	// MaxRedactionsBytes bounds the records of one session together, as encoded. They share a message with the session's
	// small files.
	MaxRedactionsBytes = 128 << 10

	maxRedactionNames     = 64  // of one record
	maxRedactionNameBytes = 300 // of one name
)

// Names reports whether the record names the event at an index of a commit.
func (r *RedactionRecord) Names(e Entry, index int) bool {
	for _, what := range r.What {
		if NamesEvent(what, e, index) {
			return true
		}
	}
	return false
}

// RedactionOf is the last record that names the event at an index of a commit; nil without one.
func RedactionOf(list []RedactionRecord, e Entry, index int) *RedactionRecord {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Names(e, index) {
			return &list[i]
		}
	}
	return nil
}

// NamesEvent reports whether a kind, a pattern of kinds or an id names the event at an index of a commit.
func NamesEvent(what string, e Entry, index int) bool {
	if what == string(e.Commit.EventID(index)) {
		return true
	}
	matches, err := path.Match(what, string(e.Commit.Events[index].Kind))
	return err == nil && matches
}

// CheckRedactionNames checks what names the events of a redaction: kinds, patterns of kinds such as tool.*, and ids of
// events. Errors: a [*FieldError].
func CheckRedactionNames(what []string) error {
	if len(what) == 0 || len(what) > maxRedactionNames {
		return invalid("what", fmt.Sprintf("names %d kinds and events, want 1 to %d", len(what), maxRedactionNames))
	}
	for _, one := range what {
		if one == "" || len(one) > maxRedactionNameBytes {
			return invalid("what", fmt.Sprintf("has a name of %d bytes, want 1 to %d", len(one), maxRedactionNameBytes))
		}
		if _, err := path.Match(one, ""); err != nil {
			return invalid("what", fmt.Sprintf("%q: %v", one, err))
		}
	}
	return nil
}

// Check checks the fields of a record. Errors: a [*FieldError].
func (r *RedactionRecord) Check() error {
	if err := CheckRedactionNames(r.What); err != nil {
		return err
	}
	switch {
	case len(r.Reason) > MaxReasonBytes:
		return tooLarge("reason", len(r.Reason), MaxReasonBytes)
	case len(r.By) > MaxIDBytes:
		return tooLarge("by", len(r.By), MaxIDBytes)
	case r.Events < 0:
		return invalid("events", "is negative")
	}
	if err := CheckUTF8("reason", r.Reason); err != nil {
		return err
	}
	return CheckUTF8("by", r.By)
}

// CheckRedactions checks the records of a session. Errors: a [*FieldError].
func CheckRedactions(list []RedactionRecord) error {
	for i := range list {
		if err := list[i].Check(); err != nil {
			return fmt.Errorf("redaction %d: %w", i+1, err)
		}
	}
	records, err := EncodePayload(&struct {
		List []RedactionRecord `msgpack:"l"`
	}{list})
	if err == nil && len(records) > MaxRedactionsBytes {
		err = tooLarge("redactions", len(records), MaxRedactionsBytes)
	}
	return err
}
