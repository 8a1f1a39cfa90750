package api

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/lash-go/lash/events"
)

// Position is where an entry stands in a list: by time or sequence, newest
// first, then by name, the greatest first, as new ids are. It is all that a cursor says, so a cursor tells a caller
// nothing of entries that it was not shown.
type Position struct {
	List string `msgpack:"l"` // whose cursor it is
	At   int64  `msgpack:"a"`
	ID   string `msgpack:"i"`
	Sub  string `msgpack:"s,omitempty"` // the entry's name within ID
}

// Compare is negative for an entry that comes before other, by At and ID.
func (p Position) Compare(other Position) int {
	return cmp.Or(cmp.Compare(other.At, p.At), strings.Compare(other.ID, p.ID))
}

// maxCursor bounds a cursor, in bytes.
const maxCursor = 1024

// Cursor writes a position for clients, to whom it is opaque.
func (p Position) Cursor() (string, error) {
	data, err := events.EncodePayload(&p)
	return base64.RawURLEncoding.EncodeToString(data), err
}

// PositionOf reads what [Position.Cursor] wrote for a list. An empty cursor is
// the zero position. Errors: an [*events.FieldError] of the field cursor.
func PositionOf(list, cursor string) (p Position, err error) {
	if cursor == "" {
		return p, nil
	}
	if len(cursor) > maxCursor {
		return p, invalidQuery("cursor", fmt.Sprintf("has %d bytes, limit is %d", len(cursor), maxCursor))
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || DecodeStrict(data, &p) != nil || p.List != list || p.ID == "" {
		return Position{}, invalidQuery("cursor", "is none that a page of this list gave as its next")
	}
	return p, nil
}
