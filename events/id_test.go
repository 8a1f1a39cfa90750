package events_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
)

func TestCheckToken(t *testing.T) {
	t.Parallel()
	for _, id := range []events.SessionID{"a", "Z", "0", "_", "-", "s-1_B", events.SessionID(strings.Repeat("x", 64)), "01JD6Z0000000000000000000A"} {
		if err := events.CheckToken("session", id); err != nil {
			t.Errorf("%q: got %v, want none", id, err)
		}
	}
	for _, id := range []events.SessionID{
		"", " ", "a b", "a.b", ".", "*", ">", "a*", "a>", "a/b", "a\x00", "a\n", "é", "a\xff", "$SYS", "a:b", "a@b", "ａ",
		events.SessionID(strings.Repeat("x", 65)),
	} {
		err := events.CheckToken("session", id)
		wantField(t, err, events.ErrInvalidID, "session", "1 to 64")
	}
}

func TestUnknownKindNames(t *testing.T) {
	t.Parallel()
	for kind, good := range map[string]bool{
		"a.b": true, "later.happened": true, "later.happened_2": true, strings.Repeat("x", 62) + ".y": true,
		"a": false, "a.": false, ".b": false, "a.b.c": false, "A.b": false, "a.B": false, "a b.c": false, "a.*": false,
		"a,b.c": false, "a.b\n": false, "é.b": false, strings.Repeat("x", 63) + ".y": false,
	} {
		_, err := events.Decode([]byte(wireCommit(wireEvent(kind, 1, object()))))
		if good && err != nil || !good && !errors.Is(err, events.ErrInvalid) {
			t.Errorf("%q: got %v, want accepted %v", kind, err, good)
		}
	}
}

func TestEventID(t *testing.T) {
	t.Parallel()
	c := commitOf("c1")
	if got, want := c.EventID(12), events.EventID("c1.12"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestMillis(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_999_999, time.FixedZone("east", 3600))
	m := events.MillisOf(at)
	if got, want := m.Time(), at.UTC().Truncate(time.Millisecond); !got.Equal(want) || got.Location() != time.UTC {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestKindFamily(t *testing.T) {
	t.Parallel()
	for kind, want := range map[events.Kind]string{"turn.cancel_requested": "turn", "turn": "turn", "": ""} {
		if got := kind.Family(); got != want {
			t.Errorf("%s: got %q, want %q", kind, got, want)
		}
	}
}

func TestDerivedID(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		prefix string
		names  []string
		want   string // prefix and first half of: printf %s NAMES | sha256sum
	}{
		{"", []string{""}, "e3b0c44298fc1c149afbf4c8996fb924"},
		{"wake-", []string{"7"}, "wake-7902699be42c8a8e46fbbb4501726517"},
		{"resolve-", []string{"t1/0/1"}, "resolve-0764c6a0c64a60b91b3de2a4492f61e7"},
		{"call-", []string{"s1", "t1/0/1"}, "call-7da74edef71491f6b05a24cd7b75e430"},
		{"p-", []string{"s1", "t1/before_turn", "0"}, "p-51707164b768af2f6829e01d9d3b7c4e"},
	} {
		if got := events.DerivedID(c.prefix, c.names...); got != c.want {
			t.Errorf("%s %q: got %s, want %s", c.prefix, c.names, got, c.want)
		}
	}
}
