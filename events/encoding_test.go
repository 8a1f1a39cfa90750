package events_test

import (
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventstest"
)

// The payload type of every kind survives its encoding.
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
	eventstest.TestEncoding(t, wide{})
	for v, want := range map[any]string{
		&wide{}:                           "8e" + "a161a0a163a0a164a0a165a0a166a0a167a0a168a0a169a0a16aa0a16ba0a16ca0a16da0a16ea0a16fa0",
		&wide{P: "p"}:                     "8f" + "a161a0a163a0a164a0a165a0a166a0a167a0a168a0a169a0a16aa0a16ba0a16ca0a16da0a16ea0a16fa0a170a170",
		&wide{B: "b", P: "p"}:             "de0010" + "a161a0a162a162a163a0a164a0a165a0a166a0a167a0a168a0a169a0a16aa0a16ba0a16ca0a16da0a16ea0a16fa0a170a170",
		&outer{}:                          "82a16981a16f80a16181a16f80",
		&outer{Inner: inner{Odd: odd{7}}}: "81a16181a16f80",
		&outer{Inner: inner{Odd: odd{8}}}: "82a16981a16f81a16e08a16181a16f80",
		&outer{Pointer: &odd{}}:           "83a16981a16f80a16181a16f80a17080",
		&outer{Pointer: &odd{7}}:          "82a16981a16f80a16181a16f80",
		&outer{Plain: &inner{}}:           "83a16981a16f80a16181a16f80a17181a16f80",
		(*events.Message)(nil):            "c0",
		nil:                               "c0",
	} {
		if got, err := events.EncodePayload(v); err != nil || hex.EncodeToString(got) != want {
			t.Errorf("%+v: got %x and %v, want %s", v, got, err, want)
		}
	}
}

// marshals and encodes have methods that the library would call, and that no decoder knows.
type (
	marshals struct{ V int64 }
	encodes  struct{ V int64 }
)

func (marshals) MarshalMsgpack() ([]byte, error) { return []byte{1}, nil }

func (*encodes) EncodeMsgpack(e *msgpack.Encoder) error {
	e.UseCompactInts(false) // of the encoder that others use later
	return e.EncodeNil()
}

// A type outside of the format is refused by name, whatever its value.
func TestEncodingRefuses(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]any{
		"time":       &struct{ At time.Time }{},
		"marshals":   &struct{ V marshals }{},
		"encodes":    &struct{ V []encodes }{},
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
	} {
		for range 2 { // the second call gets the same error
			if data, err := events.EncodePayload(v); !errors.Is(err, events.ErrInvalid) || !strings.Contains(err.Error(), "not part of this format") {
				t.Errorf("%s: got %x and %v, want %v", name, data, err, events.ErrInvalid)
			}
		}
	}
}
