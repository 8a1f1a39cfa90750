package events_test

import (
	"bytes"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventstest"
)

// The payload type of every kind has a layout and is encoded as by the msgpack library.
func TestPayloadEncoding(t *testing.T) {
	t.Parallel()
	for _, kind := range events.Kinds() {
		eventstest.TestEncoding(t, reflect.ValueOf(goldenPayloads[kind][0]).Elem().Interface())
	}
}

func TestEncoding(t *testing.T) {
	t.Parallel()
	eventstest.TestEncoding(t, events.Encoded()...)
	eventstest.TestEncoding(t, "", false, int64(0), uint64(0), 0.0, []byte(nil), []string(nil), [][]byte(nil), map[string]string(nil),
		events.Seq(0), []events.InputID(nil), []events.NewNode(nil), time.Duration(0), (*events.Message)(nil))
}

// TestCommitEncoding compares whole valid commits.
func TestCommitEncoding(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := eventstest.Commit().Draw(t, "commit")
		got, err := events.Encode(c)
		if err != nil {
			t.Fatal(err)
		}
		if want := referenceCommit(t, c); !bytes.Equal(got, want) {
			t.Fatalf("got %x, want %x", got, want)
		}
	})
}

// referenceCommit encodes c with the msgpack library.
func referenceCommit(t *rapid.T, c *events.Commit) []byte {
	type event struct {
		Kind    events.Kind        `msgpack:"k"`
		V       int64              `msgpack:"v"`
		Turn    events.TurnID      `msgpack:"u,omitempty"`
		Payload msgpack.RawMessage `msgpack:"p"`
	}
	commit := struct {
		Format  int64            `msgpack:"f"`
		ID      events.CommitID  `msgpack:"i"`
		Session events.SessionID `msgpack:"s"`
		At      events.Millis    `msgpack:"t"`
		Actor   events.ActorKind `msgpack:"a"`
		ActorID string           `msgpack:"b,omitempty"`
		Cause   string           `msgpack:"c,omitempty"`
		Key     string           `msgpack:"k,omitempty"`
		Digest  string           `msgpack:"d,omitempty"`
		Salt    []byte           `msgpack:"n,omitempty"`
		Events  []event          `msgpack:"e"`
	}{Format: 1, ID: c.ID, Session: c.Session, At: c.At, Actor: c.Actor.Kind, ActorID: c.Actor.ID, Cause: c.Cause, Key: c.Key, Digest: c.Digest, Salt: c.Salt}
	for _, e := range c.Events {
		body := e.Raw
		if e.Payload != nil {
			var err error
			if body, err = eventstest.Reference(e.Payload); err != nil {
				t.Fatal(err)
			}
		}
		commit.Events = append(commit.Events, event{e.Kind, e.V, e.Turn, body})
	}
	data, err := eventstest.Reference(&commit)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Around these lengths the encoded length needs one or two more bytes.
func TestEncodingOfLengths(t *testing.T) {
	t.Parallel()
	for _, n := range []int{15, 16, 31, 32, 1<<8 - 1, 1 << 8, 1<<16 - 1, 1 << 16} {
		text := strings.Repeat("x", n)
		many := make(map[string]string, n)
		for i := range n {
			many[strconv.Itoa(i)] = ""
		}
		for name, v := range map[string]any{"text": text, "bytes": []byte(text), "list": make([]int64, n), "map": many} {
			want, err := eventstest.Reference(v)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := events.EncodePayload(v); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s of %d: got %d bytes and %v, want the library's %d", name, n, len(got), err, len(want))
			}
		}
	}
}

// wide has more fields than the shortest map head can count.
type wide struct {
	A string `msgpack:"a"`
	B string `msgpack:"b,omitempty"`
	C string `msgpack:"c"`
	D string `msgpack:"d"`
	E string `msgpack:"e"`
	F string `msgpack:"f"`
	G string `msgpack:"g"`
	H string `msgpack:"h"`
	I string `msgpack:"i"`
	J string `msgpack:"j"`
	K string `msgpack:"k"`
	L string `msgpack:"l"`
	M string `msgpack:"m"`
	N string `msgpack:"n"`
	O string `msgpack:"o"`
	P string `msgpack:"p,omitempty"`
}

// odd has an IsZero that disagrees with being zero in both directions.
type odd struct {
	N int64 `msgpack:"n,omitempty"`
}

func (o odd) IsZero() bool { return o.N == 7 }

// inner and outer have no IsZero: they are omitted if all their fields are.
type (
	inner struct {
		Odd   odd    `msgpack:"o,omitempty"`
		Other string `msgpack:"x,omitempty"`
	}
	outer struct {
		Inner   inner    `msgpack:"i,omitempty"`
		Always  inner    `msgpack:"a"`
		Pointer *odd     `msgpack:"p,omitempty"`
		Plain   *inner   `msgpack:"q,omitempty"`
		Nothing struct{} `msgpack:"e,omitempty"`
	}
)

func TestEncodingLeavesOut(t *testing.T) {
	t.Parallel()
	eventstest.TestEncoding(t, wide{}, inner{}, outer{}, []outer(nil))
	for _, v := range []any{
		&wide{}, &wide{B: "b"}, &wide{B: "b", P: "p"}, &outer{}, &outer{Inner: inner{Odd: odd{7}}}, &outer{Inner: inner{Odd: odd{8}}},
		&outer{Pointer: &odd{}}, &outer{Pointer: &odd{7}}, &outer{Plain: &inner{Odd: odd{7}}}, &outer{Always: inner{Other: "x"}},
		&events.Message{}, (*events.Message)(nil), nil,
	} {
		want, err := eventstest.Reference(v)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := events.EncodePayload(v); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%+v: got %x and %v, want %x", v, got, err, want)
		}
	}
}

// absentText is a text type with IsZero.
type absentText string

func (a absentText) IsZero() bool { return a == "none" }

// A type outside of the format is refused by name, whatever its value.
func TestEncodingRefuses(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]any{
		"time":       &struct{ At time.Time }{},
		"any":        &struct{ V any }{},
		"map":        &struct{ V map[string]int64 }{},
		"named_keys": &struct{ V map[events.NodeID]string }{},
		"array":      &struct{ V [2]byte }{},
		"channel":    &struct{ V chan int }{},
		"int32":      &struct{ V int32 }{},
		"float32":    &struct{ V float32 }{},
		"complex":    &struct{ V complex128 }{},
		"deep":       &struct{ V []*struct{ W func() } }{},
		"embedded":   &struct{ *events.Usage }{},
		"hidden":     &struct{ inner }{},
		"embedded_as": &struct {
			events.Usage `msgpack:"u"`
		}{},
		"twice": &struct {
			events.Usage
			Again int64 `msgpack:"i"`
		}{},
		"option": &struct {
			V int64 `msgpack:"v,as_array"`
		}{},
		"not_for_it": &struct {
			V absentText `msgpack:"v,omitempty"`
		}{},
	} {
		for range 2 { // the second call gets the same error
			if data, err := events.EncodePayload(v); !errors.Is(err, events.ErrInvalid) || !strings.Contains(err.Error(), "not part of this format") {
				t.Errorf("%s: got %x and %v, want %v", name, data, err, events.ErrInvalid)
			}
		}
	}
}
