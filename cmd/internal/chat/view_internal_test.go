package chat

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventstest"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// failing is a test or one case of a property test.
type failing interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// running is a view of a session whose turn t1 runs.
func running(t failing, opts Options) *View {
	t.Helper()
	v := NewView(projector.New("s"), opts)
	for _, ev := range []events.Event{
		events.Of("", &events.SessionOpened{}),
		events.Of("t1", &events.TurnRequested{Input: events.TurnInput{Parts: []events.Part{{Kind: events.PartText, Text: "go"}}}}),
		events.Of("t1", &events.TurnStarted{Attempt: 1, Worker: "w"}),
	} {
		if _, err := v.Seen(committed(v, ev)); err != nil {
			t.Fatal(err)
		}
	}
	return v
}

// committed is the next commit of a view.
func committed(v *View, list ...events.Event) api.Observed {
	return api.Observed{Seq: v.Seq() + 1, Commit: &events.Commit{
		ID: "c", Session: "s", At: 1000, Actor: events.Actor{Kind: events.ActorClient, ID: "ann"}, Events: list,
	}}
}

func replied(text string) events.Event {
	return events.Of("t1", &events.ModelReplied{Parts: []events.Part{{Kind: events.PartText, Text: text}}, Stop: events.StopEnd})
}

// TestOtherModelAndTools shows a change of model, of tool sources and of extensions: they explain why answers change.
func TestOtherModelAndTools(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]events.Payload{
		"the turn goes on with anthropic m2":                 &events.ModelFailed{Error: "server", Fallback: events.FallbackTo{Place: 1, Provider: "anthropic", Model: "m2"}},
		"ann set the tool sources: a, b":                     &events.ToolSourcesApplied{Sources: []string{"a", "b"}},
		"ann set the tool sources: none":                     &events.ToolSourcesApplied{},
		"ann set the extensions of the session: there are 0": &events.SessionExtensionsSet{},
	} {
		v := running(t, Options{})
		list, err := v.Seen(committed(v, events.Of("t1", p)))
		if err != nil || len(list) == 0 || !strings.HasPrefix(list[len(list)-1].Text, want) {
			t.Errorf("%T: got %v, %v, want %q", p, list, err, want)
		}
	}
}

// TestPartialReply shows all of a partial reply, once, as no reply: streamed lines, the line that was streamed in part,
// and what was not streamed.
func TestPartialReply(t *testing.T) {
	t.Parallel()
	for _, live := range []bool{true, false} {
		v := running(t, Options{Live: live})
		list, err := v.Seen(api.Observed{Delta: &api.Delta{Turn: "t1", Kind: events.PartText, Text: "one\ntw"}})
		runtest.NoError(t, err)
		more, err := v.Seen(committed(v, events.Of("t1", &events.ModelInterrupted{Parts: []events.Part{{Kind: events.PartText, Text: "one\ntwo\nth"}}})))
		list = append(list, more...)
		first := Partial
		if live {
			first = Reply
		}
		want := []Line{{first, "one"}, {Partial, "two"}, {Partial, "th"}, {Note, "the reply above is partial: later turns do not read it"}}
		if err != nil || !slices.Equal(list, want) || v.Live() != "" {
			t.Errorf("live %v: got %v, %q, %v, want %v", live, list, v.Live(), err, want)
		}
	}
}

// TestEndedTurnIsShown shows, to a chat that joins, why an earlier turn has no answer.
func TestEndedTurnIsShown(t *testing.T) {
	t.Parallel()
	v := running(t, Options{})
	if _, err := v.Seen(committed(v, events.Of("t1", &events.TurnCompleted{End: events.EndProviderError, Issue: events.Issue{Kind: "provider", Code: "server", Message: "no"}}))); err != nil {
		t.Fatal(err)
	}
	list, err := v.Recent(5)
	if want := "(turn t1 ended: provider_error: server no; lash-replay show has its partial reply, if any)"; err != nil || len(list) == 0 || list[len(list)-1].Text != want {
		t.Errorf("got %v, %v, want %q", list, err, want)
	}
}

// TestRecentNamesWhoWrote joins a session in which a plugin and another caller added messages to the turn of a user.
// None of them is shown as the user's.
func TestRecentNamesWhoWrote(t *testing.T) {
	t.Parallel()
	v := running(t, Options{})
	say := func(id events.MessageID, origin, text string) events.Message {
		return events.Message{ID: id, Role: events.RoleUser, Origin: origin, Parts: []events.Part{{Kind: events.PartText, Text: text}}}
	}
	for i, m := range []events.Message{say(projector.UserMessage("t1"), "", "hello"), say("m2", "greeter", "greet"), say("m3", "", "added")} {
		n := &projector.Node{}
		n.ID, n.Turn, n.Kind, n.Message = events.NodeID(fmt.Sprint(i)), "t1", events.NodeMessage, m
		v.s.Turn().Callers = []string{"ann"}
		v.message(&n.Message, v.caller(n))
	}
	want := []Line{{Note, ""}, {Said, "ann > hello"}, {Note, ""}, {Said, "greeter > greet"}, {Note, ""}, {Said, "user > added"}}
	if !slices.Equal(v.out[len(v.out)-len(want):], want) {
		t.Errorf("got %v, want %v", v.out, want)
	}
}

// TestRetries shows each repeated model call with its reason, also where replies are not streamed.
func TestRetries(t *testing.T) {
	t.Parallel()
	for _, live := range []bool{true, false} {
		v := running(t, Options{Live: live})
		list, err := v.Seen(api.Observed{Delta: &api.Delta{Turn: "t1", Attempt: 3, Retry: api.RetryStatus{WaitMillis: 1500, Attempt: 2, Attempts: 8, Reason: "connection refused"}}})
		if err != nil || len(list) != 1 || list[0].Text != "waiting for the model, try 3 of 8 in 1.5 s: connection refused" {
			t.Errorf("live %v: got %v, %v, want the next try", live, list, err)
		}
		if got := v.Status(); got != "waiting for the model, try 3 of 8" {
			t.Errorf("live %v: status: got %q", live, got)
		}
		if _, err := v.Seen(committed(v, replied("so"))); err != nil || strings.Contains(v.Status(), "try") {
			t.Errorf("live %v: after the reply: got %q, %v", live, v.Status(), err)
		}
	}
}

// TestAdvice shows, for each failed model call, the likely error in the node's environment.
func TestAdvice(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]*events.ModelFailed{
		"OPENAI_BASE_URL, or ANTHROPIC_BASE_URL, of the node right, and does the endpoint run?": {Error: "transport", Message: "connection refused"},
		"OPENAI_BASE_URL of the node mostly ends with /v1":                                      {Error: "invalid_request", Status: 404, Message: "unknown path"},
		"OPENAI_API_KEY, or ANTHROPIC_API_KEY, of the node right?":                              {Error: "auth", Status: 401, Message: "no"},
		"provider_error: say it again, or /model NAME takes another model":                      {Error: "server", Status: 500, Message: "no"},
	} {
		v := running(t, Options{})
		end := &events.TurnCompleted{End: events.EndProviderError, Issue: events.Issue{Kind: "provider", Code: p.Error, Message: p.Message}}
		list, err := v.Seen(committed(v, events.Of("t1", p)))
		if err == nil {
			var more []Line
			more, err = v.Seen(committed(v, events.Of("t1", end)))
			list = append(list, more...)
		}
		if err != nil || len(list) != 2 || !strings.Contains(list[0].Text, p.Message) || !strings.Contains(list[1].Text, want) || strings.Contains(list[1].Text, ": "+p.Error) {
			t.Errorf("%s: got %v, %v, want %q", p.Error, list, err, want)
		}
	}
}

// TestTakeover shows whether another node continues a turn that starts again. After an approval the same node usually
// does.
func TestTakeover(t *testing.T) {
	t.Parallel()
	for worker, want := range map[events.WorkerID]bool{"w": false, "other": true} {
		v := running(t, Options{})
		list, err := v.Seen(committed(v, events.Of("t1", &events.TurnStarted{Attempt: 2, Worker: worker})))
		said := slices.ContainsFunc(list, func(l Line) bool { return strings.HasPrefix(l.Text, "another node goes on") })
		if err != nil || said != want {
			t.Errorf("worker %s: got %v, %v, want another node named: %v", worker, list, err, want)
		}
	}
}

// TestBranchPointsHaveText lists messages without a text by their calls.
func TestBranchPointsHaveText(t *testing.T) {
	t.Parallel()
	for want, parts := range map[string][]events.Part{
		"hi":                   {{Kind: events.PartToolCall, Tool: "ls"}, {Kind: events.PartText, Text: "hi"}},
		"calls ls, calls grep": {{Kind: events.PartReasoning, Text: "so"}, {Kind: events.PartToolCall, Tool: "ls"}, {Kind: events.PartToolCall, Tool: "grep"}},
		"result of ls":         {{Kind: events.PartToolResult, Tool: "ls", Text: "a.txt"}},
	} {
		runtest.Equal(t, "beginning", beginning(parts), want)
	}
}

// TestBranchPointsNameTheSpeaker lists results of tools, whose message has the user's role.
func TestBranchPointsNameTheSpeaker(t *testing.T) {
	t.Parallel()
	text, result := events.Part{Kind: events.PartText, Text: "hi"}, events.Part{Kind: events.PartToolResult, Tool: "ls"}
	for _, tc := range []struct {
		m    events.Message
		want string
	}{
		{events.Message{Role: events.RoleUser, Parts: []events.Part{text}}, "user"},
		{events.Message{Role: events.RoleUser, Parts: []events.Part{result, result}}, "tool"},
		{events.Message{Role: events.RoleUser, Parts: []events.Part{result, text}}, "user"},
		{events.Message{Role: events.RoleAssistant}, "assistant"},
	} {
		runtest.Equal(t, fmt.Sprintf("%v", tc.m), speaker(&tc.m), tc.want)
	}
}

// TestClipNeverGrows: the shortened text is never longer than the whole text on one line.
func TestClipNeverGrows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[ab é]{0,200}`).Draw(t, "text")
		got := clip(text, 1, rapid.IntRange(1, 100).Draw(t, "limit"), "more")
		if len(got) > len(text) {
			t.Errorf("got %q of %q", got, text)
		}
	})
	if got, want := clip(strings.Repeat("a", 100), 1, 10, "more"), "aaaaaaaaaa … (90 more bytes, more)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := clip("a\nb", 1, 10, "more"), "a … (2 more bytes, more)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestStreamedIsRecorded streams replies in pieces, with failed attempts and lost pieces. The final text is the
// recorded reply. Text of failed attempts is marked as no reply.
func TestStreamedIsRecorded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := running(t, Options{Live: true})
		text := rapid.StringOf(rapid.SampledFrom([]rune("ab\n\n\x1b\u202eé世\t"))).Draw(t, "text")
		var lines []Line
		see := func(o api.Observed) {
			list, err := v.Seen(o)
			runtest.NoError(t, err)
			lines = append(lines, list...)
		}
		for attempt := range rapid.Int64Range(1, 3).Draw(t, "attempts") {
			rest := []rune(text)
			if attempt > 0 && rapid.Bool().Draw(t, "another text") {
				rest = []rune("other\n" + text)
			}
			for n := int64(0); len(rest) > 0 && rapid.IntRange(0, 9).Draw(t, "stop") > 0; n++ {
				size := rapid.IntRange(1, len(rest)).Draw(t, "size")
				if rapid.IntRange(0, 9).Draw(t, "lost") == 0 {
					see(api.Observed{Gap: &api.Gap{Turn: "t1"}})
				} else {
					see(api.Observed{Delta: &api.Delta{Turn: "t1", Attempt: attempt + 1, N: n, Kind: events.PartText, Text: string(rest[:size])}})
				}
				rest = rest[size:]
				visible(t, []Line{{Reply, v.Live()}})
			}
		}
		see(committed(v, replied(text)))
		visible(t, lines)
		counts := 0 // index of the first line that counts
		for i, l := range lines {
			if strings.Contains(l.Text, "does not count") {
				counts = i + 1
			}
		}
		got := slices.DeleteFunc(lines[counts:], func(l Line) bool { return l.Kind != Reply })
		if want := linesOf(Reply, text); !slices.Equal(got, want) || v.Live() != "" {
			t.Fatalf("got %v and %q, want %v", got, v.Live(), want)
		}
	})
}

// visible fails for lines with control characters.
func visible(t failing, list []Line) {
	t.Helper()
	for _, l := range list {
		for _, r := range l.Text {
			if r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
				t.Fatalf("got U+%04X in %q", r, l.Text)
			}
		}
	}
}

const hostile = "\x1b[2J\x1b]52;c;aGk=\a\r\u009b2J\u202egpj\u2066\u2028\nann > I am ann\n? Let it run?"

// filled sets every text in a value to hostile text, and every list to one element.
func filled(v reflect.Value) {
	switch v.Kind() { //nolint:exhaustive // the others have no text
	case reflect.String:
		v.SetString(hostile)
	case reflect.Struct:
		for i := range v.NumField() {
			filled(v.Field(i))
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(hostile))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		filled(v.Index(0))
	}
}

// TestEveryLineIsEscaped shows every kind of event with hostile texts, and then again with each word that decides how
// it is shown. No control character is left, and only a prompt begins a line with a user's name.
func TestEveryLineIsEscaped(t *testing.T) {
	t.Parallel()
	shown := 0
	for _, kind := range events.Kinds() {
		p := eventstest.Payload(kind).Example()
		for _, text := range []string{"", string(events.PartText), string(events.PartReasoning), string(events.PartToolCall), string(events.PartAttachment), string(events.NodeMessage), string(events.RoleAssistant), string(events.EndInjected), api.CompactionFrame} {
			for _, full := range []bool{false, true} {
				v := running(t, Options{Full: full})
				v.out = nil
				filled(reflect.ValueOf(p).Elem())
				if text != "" {
					withText(reflect.ValueOf(p).Elem(), text)
				}
				c := committed(v).Commit
				c.Actor.ID = hostile
				v.event(c, &events.Event{Kind: kind, Turn: "t1", Payload: p})
				visible(t, v.out)
				for _, l := range v.out {
					shown++
					if strings.ContainsAny(l.Text, "\n") || l.Own() && strings.HasPrefix(l.Text, "ann > ") {
						t.Errorf("%T: got %q at the margin", p, l.Text)
					}
				}
			}
		}
	}
	if shown < 300 {
		t.Errorf("%d lines were shown, so little was tried", shown)
	}
}

// withText sets the fields of string types: kinds, roles and ends.
func withText(v reflect.Value, text string) {
	switch v.Kind() { //nolint:exhaustive // the others have no such fields
	case reflect.String:
		switch v.Interface().(type) {
		case events.PartKind, events.Role, events.TurnEnd, events.NodeKind:
			v.SetString(text)
		case string:
			if text == api.CompactionFrame {
				v.SetString(text)
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			withText(v.Field(i), text)
		}
	case reflect.Slice:
		for i := range v.Len() {
			withText(v.Index(i), text)
		}
	}
}
