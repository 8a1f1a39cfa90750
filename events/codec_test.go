package events_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventstest"
	"github.com/lash-go/lash/internal/runtest"
)

// generator returns the generator of a kind, which must exist.
func generator(t *testing.T, kind events.Kind) *rapid.Generator[events.Payload] {
	t.Helper()
	g := eventstest.Payload(kind)
	if g == nil {
		t.Fatalf("%s has no generator in eventstest", kind)
	}
	return g
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, kind := range events.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			g := generator(t, kind)
			rapid.Check(t, func(t *rapid.T) { roundTrip(t, commitOf("c1", events.Of("", g.Draw(t, "payload")))) })
		})
	}
	t.Run("commit", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) { roundTrip(t, eventstest.Commit().Draw(t, "commit")) })
	})
}

func roundTrip(t *rapid.T, c *events.Commit) {
	data, err := events.Encode(c)
	runtest.NoError(t, err)
	again, err := events.Encode(c)
	if err != nil || !bytes.Equal(data, again) {
		t.Fatalf("encoded twice: got %x, %v, want %x", again, err, data)
	}
	got, err := events.Decode(data)
	runtest.NoError(t, err)
	if !reflect.DeepEqual(got, c) {
		t.Fatalf("got %+v, want %+v", got, c)
	}
	if !bytes.Equal(data, again) {
		t.Fatalf("decoding changed its input: got %x, want %x", data, again)
	}
}

// A field that no generator sets would weaken the round trip.
func TestGeneratorsSetEveryField(t *testing.T) {
	t.Parallel()
	for _, kind := range events.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			set := make(map[string]bool)
			var p events.Payload
			for seed := range 300 {
				p = generator(t, kind).Example(seed)
				markSet(set, reflect.ValueOf(p).Elem())
			}
			for _, s := range structsOf(p) {
				for _, f := range encoded(s) {
					if name := s.Name() + "." + f.Name; !set[name] {
						t.Errorf("the generator never sets %s", name)
					}
				}
			}
		})
	}
}

func TestPayloadRoundTrip(t *testing.T) {
	t.Parallel()
	want := goldenNodes[1]
	data, err := events.EncodePayload(&want)
	runtest.NoError(t, err)
	if sum, err := events.PayloadSum(&want); err != nil || sum != sha256.Sum256(data) {
		t.Errorf("sum: got %x, %v, want that of the encoding", sum, err)
	}
	_, err = events.PayloadSum(struct{ A any }{})
	runtest.WantError(t, "sum of a type outside of the format", err, events.ErrInvalid)
	var got events.NewNode
	if err := events.DecodePayload(data, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, %v, want %+v", got, err, want)
	}
	runtest.WantError(t, "trailing byte", events.DecodePayload(append(data, 0), &got), events.ErrMalformed)
}

func FuzzDecode(f *testing.F) {
	for _, kind := range events.Kinds() {
		data, err := events.Encode(goldenCommit(kind))
		runtest.NoError(f, err)
		f.Add(data)
	}
	f.Add([]byte(wireCommit(wireEvent("later.happened", 7, raw("\x93\x01\xc0\xa1x")))))
	f.Add([]byte(wireCommit(wireEvent("turn.requested", 1, object("i", object("p", raw("\xdd\xff\xff\xff\xff")))))))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := events.Decode(data)
		if err != nil {
			mustBeTyped(t, err)
			return
		}
		once, err := events.Encode(c)
		if errors.Is(err, events.ErrTooLarge) && len(data) > events.MaxEventBytes/2 {
			return // a re-encoding writes omitted fields, so near the limit it may exceed the limit
		}
		if err != nil {
			t.Fatalf("accepted but not encoded: %v", err)
		}
		again, err := events.Decode(once)
		if err != nil {
			t.Fatalf("encoded but not accepted: %v", err)
		}
		twice, err := events.Encode(again)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("re-encoded: got %x, %v, want %x", twice, err, once)
		}
	})
}

func mustBeTyped(t *testing.T, err error) {
	t.Helper()
	for _, want := range []error{events.ErrMalformed, events.ErrTooLarge, events.ErrFutureVersion, events.ErrInvalid, events.ErrInvalidID} {
		if errors.Is(err, want) {
			return
		}
	}
	t.Fatalf("got %v, want one of the sentinels", err)
}

func TestEncodeRefuses(t *testing.T) {
	t.Parallel()
	closed := events.Of("", &events.SessionClosed{})
	big := events.Of("", &events.SessionClosed{Reason: strings.Repeat("x", events.MaxEventBytes*7/8)})
	for _, tc := range []struct {
		name   string
		spoil  func(*events.Commit)
		want   error
		field  string
		reason string
	}{
		{"no_id", func(c *events.Commit) { c.ID = "" }, events.ErrInvalid, "commit.id", "empty"},
		{"long_id", func(c *events.Commit) { c.ID = events.CommitID(strings.Repeat("x", 257)) }, events.ErrInvalid, "commit.id", "limit is 256"},
		{"id_no_header", func(c *events.Commit) { c.ID = "a\r\nb" }, events.ErrInvalid, "commit.id", "visible"},
		{"id_with_space", func(c *events.Commit) { c.ID = " a" }, events.ErrInvalid, "commit.id", "visible"},
		{"session", func(c *events.Commit) { c.Session = "a.b" }, events.ErrInvalidID, "commit.session", "1 to 64"},
		{"actor", func(c *events.Commit) { c.Actor.Kind = "ghost" }, events.ErrInvalid, "commit.actor", "ghost"},
		{"long_actor", func(c *events.Commit) { c.Actor.ID = strings.Repeat("x", 257) }, events.ErrInvalid, "commit.actor", "limit is 256"},
		{"long_cause", func(c *events.Commit) { c.Cause = strings.Repeat("x", 257) }, events.ErrInvalid, "commit.cause", "limit is 256"},
		{"no_events", func(c *events.Commit) { c.Events = nil }, events.ErrInvalid, "commit.events", "1 to 8192"},
		{"many_events", func(c *events.Commit) { c.Events = make([]events.Event, 8193) }, events.ErrInvalid, "commit.events", "8193"},
		{"turn", func(c *events.Commit) { c.Events[0].Turn = "a b" }, events.ErrInvalidID, "event.turn", "1 to 64"},
		{"no_payload", func(c *events.Commit) { c.Events[0].Payload = nil }, events.ErrInvalid, "event.payload", "missing"},
		{"raw_of_known_kind", func(c *events.Commit) {
			c.Events[0].Payload, c.Events[0].Raw = nil, []byte{0x80}
		}, events.ErrInvalid, "event.payload", "missing"},
		{"kind_of_another", func(c *events.Commit) { c.Events[0].Kind = events.KindTurnStarted }, events.ErrInvalid, "event.kind", "session.closed"},
		{"payload_of_no_kind", func(c *events.Commit) { c.Events[0] = events.Of("", unknownPayload{}) }, events.ErrInvalid, "event.kind", "payload's"},
		{"version", func(c *events.Commit) { c.Events[0].V = 2 }, events.ErrInvalid, "event.version", "2"},
		{"unknown_no_family", func(c *events.Commit) { c.Events[0] = eventstest.Unknown("", "later", []byte{0x80}) }, events.ErrInvalid, "event.kind", "family"},
		{"unknown_bad_family", func(c *events.Commit) { c.Events[0] = eventstest.Unknown("", "a b.c", []byte{0x80}) }, events.ErrInvalid, "event.kind", "family"},
		{"unknown_three_words", func(c *events.Commit) { c.Events[0] = eventstest.Unknown("", "a.b.c", []byte{0x80}) }, events.ErrInvalid, "event.kind", "family"},
		{"unknown_two_values", func(c *events.Commit) { c.Events[0] = eventstest.Unknown("", "a.b", []byte{0x80, 0x80}) }, events.ErrInvalid, "event.payload", "after the end"},
		{"unknown_no_value", func(c *events.Commit) { c.Events[0] = eventstest.Unknown("", "a.b", []byte{0xa2, 'x'}) }, events.ErrInvalid, "event.payload", "too early"},
		{"unknown_no_version", func(c *events.Commit) {
			c.Events[0] = eventstest.Unknown("", "a.b", []byte{0x80})
			c.Events[0].V = 0
		}, events.ErrInvalid, "event.version", "at least 1"},
		{"large_event", func(c *events.Commit) {
			c.Events = append(c.Events, events.Of("", &events.SessionClosed{Reason: strings.Repeat("x", events.MaxEventBytes)}))
		}, events.ErrTooLarge, "session.closed", "limit is 262144"},
		{"large_commit", func(c *events.Commit) { c.Events = []events.Event{big, big, big, big, big} }, events.ErrTooLarge, "commit", "limit is 983040"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := commitOf("c1", closed)
			tc.spoil(c)
			_, err := events.Encode(c)
			wantField(t, err, tc.want, tc.field, tc.reason)
		})
	}
}

// unknownPayload implements Payload without being of a kind.
type unknownPayload struct{}

func (unknownPayload) Validate() error { return nil }

// wantField checks an error's sentinel, and that it names the field and the limit.
func wantField(t *testing.T, err, want error, field, reason string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
	got, ok := errors.AsType[*events.FieldError](err)
	if !ok || got.Field != field || !strings.Contains(got.Reason, reason) {
		t.Fatalf("got %v, want field %q and %q", err, field, reason)
	}
}
