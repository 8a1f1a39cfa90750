package api

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/lash-go/lash/events"
)

// Position is the position of an entry in a list. Lists are sorted by time or sequence, newest first, then by name,
// greatest first, as new ids are. A cursor contains nothing else, so it reveals no entry that the caller did not see.
type Position struct {
	List string `msgpack:"l"` // the list that the cursor belongs to
	At   int64  `msgpack:"a"`
	ID   string `msgpack:"i"`
	Sub  string `msgpack:"s,omitempty"` // the entry's name within ID
	// Round is that of a list which has a number of entries of each ID in every round, from 0.
	Round int64 `msgpack:"r,omitempty"`
}

// Compare is negative for an entry before other, by At and ID.
func (p Position) Compare(other Position) int {
	return cmp.Or(cmp.Compare(other.At, p.At), strings.Compare(other.ID, p.ID))
}

// maxCursor bounds a cursor, in bytes.
const maxCursor = 1024

// Cursor encodes a position. Clients treat it as opaque.
func (p Position) Cursor() (string, error) {
	data, err := events.EncodePayload(&p)
	return base64.RawURLEncoding.EncodeToString(data), err
}

// PositionOf decodes a cursor of [Position.Cursor] for a list. An empty cursor is the zero position. Errors: an
// [*events.FieldError] of the field cursor.
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
