package events_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// raw is encoded msgpack.
type raw string

// value encodes v, unless v is raw.
func value(v any) raw {
	if r, ok := v.(raw); ok {
		return r
	}
	data, err := events.EncodePayload(v)
	if err != nil {
		panic(err)
	}
	return raw(data)
}

// object is a map of alternating keys and values, in this order.
func object(pairs ...any) raw {
	out := raw([]byte{0x80 | byte(len(pairs)/2)})
	for _, v := range pairs {
		out += value(v)
	}
	return out
}

func array(items ...raw) raw {
	return raw([]byte{0xdc, byte(len(items) >> 8), byte(len(items))}) + raw(strings.Join(texts(items), ""))
}

func texts(items []raw) []string {
	list := make([]string, len(items))
	for i, r := range items {
		list[i] = string(r)
	}
	return list
}

func wireEvent(kind string, v int64, payload any) raw { return object("k", kind, "v", v, "p", payload) }

func wireCommit(list ...raw) raw {
	return object("f", int64(1), "i", "c1", "s", "s1", "t", int64(1), "a", "node", "e", array(list...))
}

func TestUnknownKindsAreKept(t *testing.T) {
	t.Parallel()
	// The input is not canonical: wide numbers, a nil, a repeated map key.
	body := raw("\x83\xa1a\xcf\x00\x00\x00\x00\x00\x00\x00\x01\xa1a\xc0\xa1b\xdc\x00\x01\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00")
	c, err := events.Decode([]byte(wireCommit(wireEvent("later.happened", 9, body))))
	runtest.NoError(t, err)
	want := events.Event{Kind: "later.happened", V: 9, Raw: []byte(body)}
	if !reflect.DeepEqual(c.Events[0], want) {
		t.Fatalf("got %+v, want %+v", c.Events[0], want)
	}
	data, err := events.Encode(c)
	runtest.NoError(t, err)
	if !bytes.Contains(data, []byte(body)) {
		t.Errorf("got %x, want it to hold %x", data, string(body))
	}
}

func TestUnknownFieldsAreIgnored(t *testing.T) {
	t.Parallel()
	extra := []any{"zz", object("deep", array(value("x"), raw("\xc0")))}
	config := object(append(extra, "m", "claude")...)
	payload := object(append(extra, "c", config)...)
	event := object(append(extra, "k", "session.configured", "v", int64(1), "u", "t1", "p", payload)...)
	data := object(append(extra, "f", int64(1), "i", "c1", "s", "s1", "a", "node", "e", array(event))...)
	c, err := events.Decode([]byte(data))
	runtest.NoError(t, err)
	want := commitOf("c1", events.Of("t1", &events.SessionConfigured{Config: events.Config{Model: "claude"}}))
	want.At = 0
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got %+v, want %+v", c, want)
	}
}

// Fields may have any order, and nil means every zero value.
func TestLenient(t *testing.T) {
	t.Parallel()
	null := raw("\xc0")
	payload := object("t", int64(7), "x", array(object("o", null, "a", null, "k", "text", "b", null)),
		"s", "stop", "p", null, "u", null, "n", null, "v", null, "x", array(object("k", "text")))
	event := object("u", null, "v", int64(1), "k", "model.replied", "p", payload)
	c, err := events.Decode([]byte(object("e", array(event), "c", null, "b", null, "t", null, "a", "node", "s", "s1", "i", "c1", "f", int64(1))))
	runtest.NoError(t, err)
	want := commitOf("c1", events.Of("", &events.ModelReplied{Stop: events.StopEnd, Millis: 7, Parts: []events.Part{{Kind: events.PartText}}}))
	want.At = 0
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got %+v, want %+v", c.Events[0].Payload, want.Events[0].Payload)
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	null := raw("\xc0")
	closed := wireEvent("session.closed", 1, object())
	many := make([]raw, events.MaxEvents+1)
	for i := range many {
		many[i] = closed
	}
	blown := wireEvent("turn.requested", 1, object("i", object("p", raw("\xdd\xff\xff\xff\xff\x81\xa1k\xa4text"))))
	for _, tc := range []struct {
		name string
		data raw
		want error
	}{
		{"empty", "", events.ErrMalformed},
		{"nil", null, events.ErrMalformed},
		{"text", value("hello"), events.ErrMalformed},
		{"no_format", object("i", "c1", "s", "s1", "a", "node", "e", array(closed)), events.ErrMalformed},
		{"format_zero", object("f", int64(0)), events.ErrMalformed},
		{"format_future", object("f", int64(2), "z", "whatever"), events.ErrFutureVersion},
		{"format_text", object("f", "1"), events.ErrMalformed},
		{"version_future", wireCommit(wireEvent("session.closed", 2, object())), events.ErrFutureVersion},
		{"version_zero", wireCommit(wireEvent("session.closed", 0, object())), events.ErrMalformed},
		{"version_missing", wireCommit(object("k", "session.closed", "p", object())), events.ErrMalformed},
		{"payload_first", wireCommit(object("p", object(), "k", "session.closed", "v", int64(1))), events.ErrMalformed},
		{"kind_twice", wireCommit(object("k", "session.closed", "v", int64(1), "p", object(), "k", "turn.started")), events.ErrMalformed},
		{"payload_missing", wireCommit(object("k", "session.closed", "v", int64(1))), events.ErrInvalid},
		{"payload_array", wireCommit(wireEvent("session.closed", 1, array())), events.ErrMalformed},
		{"field_of_other_type", wireCommit(wireEvent("session.closed", 1, object("r", int64(1)))), events.ErrMalformed},
		{"number_too_large", wireCommit(wireEvent("turn.started", 1, object("w", "w1", "a", uint64(1<<63)))), events.ErrMalformed},
		{"sequence_negative", wireCommit(wireEvent("session.opened", 1, object("f", object("s", "s0", "q", int64(-1))))), events.ErrMalformed},
		{"extension", wireCommit(wireEvent("later.happened", 1, raw("\xd4\x01\x00"))), events.ErrMalformed},
		{"never_used", wireCommit(wireEvent("later.happened", 1, raw("\xc1"))), events.ErrMalformed},
		{"length_of_nothing", wireCommit(blown), events.ErrMalformed},
		{"map_of_nothing", wireCommit(wireEvent("session.opened", 1, object("l", raw("\xdf\xff\xff\xff\xff")))), events.ErrMalformed},
		{"breaks_a_rule", wireCommit(wireEvent("turn.started", 1, object("w", "w1"))), events.ErrInvalid},
		{"bad_token", wireCommit(wireEvent("turn.started", 1, object("a", int64(1), "w", "w.1"))), events.ErrInvalidID},
		{"bad_kind", wireCommit(wireEvent("later happened.now", 1, object())), events.ErrInvalid},
		{"no_events", wireCommit(), events.ErrInvalid},
		{"nil_id", object("f", int64(1), "i", null, "s", "s1", "a", "node", "e", array(closed)), events.ErrInvalid},
		{"nil_session", object("f", int64(1), "i", "c1", "s", null, "a", "node", "e", array(closed)), events.ErrInvalidID},
		{"many_events", wireCommit(many...), events.ErrTooLarge},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if c, err := events.Decode([]byte(tc.data)); !errors.Is(err, tc.want) {
				t.Errorf("got %+v, error %v, want %v", c, err, tc.want)
			}
		})
	}
}

func TestDecodeNamesTheLimit(t *testing.T) {
	t.Parallel()
	_, err := events.Decode(make([]byte, events.MaxCommitBytes+1))
	wantField(t, err, events.ErrTooLarge, "commit", "limit is 983040")
	for _, kind := range []string{"session.closed", "later.happened"} {
		_, err = events.Decode([]byte(wireCommit(wireEvent(kind, 1, object("r", strings.Repeat("x", events.MaxEventBytes))))))
		wantField(t, err, events.ErrTooLarge, kind, "limit is 262144")
	}
	many := make([]raw, events.MaxEvents+1)
	for i := range many {
		many[i] = object()
	}
	_, err = events.Decode([]byte(wireCommit(many...)))
	wantField(t, err, events.ErrTooLarge, "commit.events", "limit is 8192")
}

func TestDecodeTruncated(t *testing.T) {
	t.Parallel()
	for _, kind := range events.Kinds() {
		data, err := events.Encode(goldenCommit(kind))
		runtest.NoError(t, err)
		for n := range data {
			if _, err := events.Decode(data[:n]); !errors.Is(err, events.ErrMalformed) {
				t.Fatalf("%s cut to %d of %d bytes: got %v, want %v", kind, n, len(data), err, events.ErrMalformed)
			}
		}
		for b := range 256 {
			if _, err := events.Decode(append(bytes.Clone(data), byte(b))); !errors.Is(err, events.ErrMalformed) {
				t.Fatalf("%s and byte %#x: got %v, want %v", kind, b, err, events.ErrMalformed)
			}
		}
	}
}

// Nesting needs no stack at any position.
func TestDecodeDeep(t *testing.T) {
	t.Parallel()
	const depth = 200_000
	for _, open := range []string{"\x91", "\x81\xa0"} {
		deep := raw(strings.Repeat(open, depth/len(open))) + "\xc0"
		for name, data := range map[string]raw{
			"unknown_kind":  wireCommit(wireEvent("later.happened", 1, deep)),
			"payload_field": wireCommit(wireEvent("session.closed", 1, object("zz", deep))),
			"event_field":   wireCommit(object("zz", deep, "k", "session.closed", "v", int64(1), "p", object())),
			"commit_field":  object("zz", deep, "f", int64(1), "i", "c1", "s", "s1", "a", "node", "e", array(wireEvent("session.closed", 1, object()))),
		} {
			c, err := events.Decode([]byte(data))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if _, err := events.Encode(c); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			cut := data[:len(data)/2]
			if _, err := events.Decode([]byte(cut)); !errors.Is(err, events.ErrMalformed) {
				t.Fatalf("%s cut: got %v, want %v", name, err, events.ErrMalformed)
			}
		}
		typed := raw(fmt.Sprintf("\x81\xa1i\x81\xa1p%s", deep))
		if _, err := events.Decode([]byte(wireCommit(wireEvent("turn.requested", 1, typed)))); !errors.Is(err, events.ErrMalformed) {
			t.Fatalf("typed: got %v, want %v", err, events.ErrMalformed)
		}
	}
}
