package internal_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/internal/completion"
	"github.com/lash-go/lash/session/plugin"
)

// TestSplitDeltas passes a text on whole, in deltas within the limit and without a broken character.
func TestSplitDeltas(t *testing.T) {
	t.Parallel()
	if completion.SplitDeltas(nil) != nil {
		t.Error("no stream: got one")
	}
	for name, text := range map[string]string{
		"empty": "", "short": "hi", "largest": strings.Repeat("x", plugin.MaxDeltaBytes), "one_more": strings.Repeat("x", plugin.MaxDeltaBytes+1),
		"characters_of_two_bytes": "x" + strings.Repeat("é", plugin.MaxDeltaBytes), "no_UTF8": strings.Repeat("\x80", 2*plugin.MaxDeltaBytes+3),
	} {
		var got []string
		completion.SplitDeltas(func(d plugin.CompletionDelta) {
			if len(d.Text) > plugin.MaxDeltaBytes || d.Kind != events.PartReasoning || utf8.ValidString(text) && !utf8.ValidString(d.Text) {
				t.Errorf("%s: got a delta of %d bytes of kind %s, want valid UTF-8 of at most %d", name, len(d.Text), d.Kind, plugin.MaxDeltaBytes)
			}
			got = append(got, d.Text)
		})(plugin.CompletionDelta{Kind: events.PartReasoning, Text: text})
		if strings.Join(got, "") != text {
			t.Errorf("%s: got %d deltas with another text", name, len(got))
		}
		if least := max(1, (len(text)+plugin.MaxDeltaBytes-1)/plugin.MaxDeltaBytes); len(got) < least || len(got) > least+1 {
			t.Errorf("%s: got %d deltas, want about %d", name, len(got), least)
		}
	}
}

func request(text string) plugin.CompletionRequest {
	return plugin.CompletionRequest{Messages: []events.Message{{Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartText, Text: text}}}}}
}

// TestEvent identifies a request by its key, or by its digest. A stream is not part of the digest.
func TestEvent(t *testing.T) {
	t.Parallel()
	event := func(req plugin.CompletionRequest) *events.ModelCompleted {
		t.Helper()
		p, err := completion.Event(req, "plugin")
		runtest.NoError(t, err)
		return p
	}
	plain, streamed, other := event(request("a")), request("a"), event(request("b"))
	streamed.Stream = func(plugin.CompletionDelta) {}
	if got := event(streamed); got.Key != plain.Key || got.Request != plain.Request {
		t.Errorf("with a stream: got key %s, want %s", got.Key, plain.Key)
	}
	if plain.Key != plain.Request || other.Key == plain.Key || len(plain.Request) != 64 || plain.Source != "plugin" {
		t.Errorf("got %+v and %+v, want keys that are the digests", plain, other)
	}
	keyed := request("a")
	keyed.Key = strings.Repeat("k", events.MaxIDBytes/2)
	if got := event(keyed); got.Key != keyed.Key {
		t.Errorf("key: got %s, want the one of the request", got.Key)
	}
	keyed.Key += "k"
	if got := event(keyed); len(got.Key) > events.MaxIDBytes/2 || got.Key == plain.Key {
		t.Errorf("long key: got %s, want a short one of its own", got.Key)
	}
	for _, source := range []string{"", strings.Repeat("s", events.MaxIDBytes+1)} {
		_, err := completion.Event(request("a"), source)
		if field, ok := errors.AsType[*events.FieldError](err); !ok || field.Field != "source" {
			t.Errorf("source of %d bytes: got %v, want a refusal of the source", len(source), err)
		}
	}
}

// TestRecorded finds the reply of a turn by its key, and refuses the key for another request.
func TestRecorded(t *testing.T) {
	t.Parallel()
	s := projector.New("s")
	fact := events.ModelCompleted{Key: "k", Request: "r", Source: "plugin", Parts: []events.Part{{Kind: events.PartText, Text: "yes"}}}
	if got, err := completion.Recorded(s, "t1", &fact); got != nil || err != nil {
		t.Errorf("without a turn: got %v, %v, want none", got, err)
	}
	s.Run = []projector.Turn{{ID: "t1", Direct: []projector.DirectReply{{ModelCompleted: fact}}}}
	for name, c := range map[string]struct {
		turn     events.TurnID
		key, req string
		found    bool
		want     error
	}{
		"same": {"t1", "k", "r", true, nil}, "other_key": {"t1", "k2", "r", false, nil}, "other_turn": {"t2", "k", "r", false, nil},
		"other_request": {"t1", "k", "r2", false, api.ErrDifferent},
	} {
		got, err := completion.Recorded(s, c.turn, &events.ModelCompleted{Key: c.key, Request: c.req})
		if (got != nil) != c.found || !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, %v, want found %v, %v", name, got, err, c.found, c.want)
		}
		if got != nil && got.Parts[0].Text != "yes" {
			t.Errorf("%s: got %+v, want the recorded reply", name, got)
		}
	}
}
