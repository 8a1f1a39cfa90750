package external

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin/wire"
)

// fake is an instance without the SDK. answer gets each message that it receives for a call: its verb, and where to
// send answers.
func (s *setting) fake(effects events.Effects, answer func(verb string, in *wire.Call, send func(any))) {
	s.T.Helper()
	r := registration("1", "hostile", "look")
	r.Manifest.Tools[0].Effects = effects
	s.fakeOf(r, answer)
}

// fakeOf is an instance without the SDK that has registered.
func (s *setting) fakeOf(r *wire.Registration, answer func(verb string, in *wire.Call, send func(any))) {
	s.T.Helper()
	c := s.client()
	if got := c.request("notes", "register", r); got.Error != nil {
		s.T.Fatalf("register: got %+v", got.Error)
	}
	sub, err := c.nc.Subscribe(c.prefix+".plugin.notes.i1.*", func(m *nats.Msg) {
		var in wire.Call
		if json.Unmarshal(m.Data, &in) != nil {
			return
		}
		answer(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], &in, func(p any) {
			data, ok := p.([]byte)
			if !ok {
				data, _ = json.Marshal(p)
			}
			_ = c.nc.Publish(m.Reply, data)
		})
	})
	runtest.WantError(s.T, "subscribe", err, nil)
	sign, err := json.Marshal(&wire.Sign{Hash: r.Manifest.Hash()})
	runtest.WantError(s.T, "sign", err, nil)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() { // ends with the test
		defer close(ended)
		signs := time.NewTicker(wire.SignEvery)
		defer signs.Stop()
		for {
			_ = c.nc.Publish(c.prefix+".plugin-live.notes.i1", sign)
			select {
			case <-signs.C:
			case <-done:
				return
			}
		}
	}()
	s.T.Cleanup(func() {
		close(done)
		<-ended
		_ = sub.Unsubscribe()
	})
	s.alive(1)
}

func forgottenOutcome(t *testing.T, on place) {
	s := on.start(t, calling("hostile", `{}`)...)
	s.node()
	s.fake(events.EffectsNonIdempotent, func(verb string, _ *wire.Call, send func(any)) {
		if verb == "call" {
			send(&wire.Progress{Forgotten: true})
		}
	})
	id := s.begin()
	s.AwaitTurn(id, "t1")
	s.wantResult(id, "[lost]")
}

func outcomeAgain(t *testing.T, on place) {
	s := on.start(t, calling("hostile", `{}`)...)
	s.node()
	var calls atomic.Int64
	s.fake(events.EffectsNonIdempotent, func(verb string, in *wire.Call, send func(any)) {
		if verb != "call" {
			return
		}
		if calls.Add(1) > 1 { // the first outcome is lost
			send(&wire.Progress{Outcome: &wire.Outcome{Text: "kept: " + string(in.Call)}})
			return
		}
		send(&wire.Progress{})
	})
	id := s.begin()
	s.AwaitTurn(id, "t1")
	s.wantResult(id, "kept: t1/0/0")
	runtest.DeepEqual(t, "results", len(harness.Find[*events.ToolReturned](s.System, id)), 1)
}

func recordedIsDropped(t *testing.T, on place) {
	s, id := play(t, on, "write", `{"text":"milk"}`, "i1")
	again, err := json.Marshal(&wire.Call{CallID: wire.CallID{Session: id, Call: "t1/0/0"}, Tool: "write", Args: json.RawMessage(`{"text":"milk"}`)})
	runtest.WantError(t, "call", err, nil)
	c := s.client()
	s.AwaitPolling("the outcome to be dropped", func() bool {
		m, err := c.nc.Request(c.prefix+".plugin.notes."+s.idOf("i1")+".call", again, time.Minute)
		runtest.WantError(t, "call again", err, nil)
		var answer wire.Progress
		runtest.WantError(t, "answer", json.Unmarshal(m.Data, &answer), nil)
		if !answer.Last() {
			t.Fatalf("the call runs again: got %+v", answer)
		}
		return answer.Forgotten
	})
	runtest.DeepEqual(t, "runs", s.began(), 1)
}

func repeatJoins(t *testing.T, on place) {
	s := on.start(t, calling("write", `{"text":"milk","hold":true}`)...)
	s.node()
	s.program("i1")
	id := s.begin()
	s.logged("began", 1)
	again, err := json.Marshal(&wire.Call{CallID: wire.CallID{Session: id, Call: "t1/0/0"}, Tool: "write", Args: json.RawMessage(`{"text":"milk"}`), Again: true})
	runtest.WantError(t, "call", err, nil)
	c := s.client()
	to := c.prefix + ".plugin.notes." + s.idOf("i1") + ".call"
	for range 5 {
		m, err := c.nc.RequestWithContext(s.Ctx, to, again)
		runtest.WantError(t, "call again", err, nil)
		var answer wire.Progress
		runtest.WantError(t, "answer", json.Unmarshal(m.Data, &answer), nil)
		runtest.DeepEqual(t, "answer while the tool runs", answer, wire.Progress{})
	}
	s.release()
	s.AwaitTurn(id, "t1")
	s.wantResult(id, "noted: milk")
	runtest.DeepEqual(t, "runs", s.began(), 1)
}

func garbage(t *testing.T, on place) {
	s := on.start(t, harness.Reply(harness.Call("k", "hostile", `{}`), harness.Call("l", "look", `{}`)), harness.Reply(harness.Text("done")))
	s.node()
	s.fake(events.EffectsNonIdempotent, func(verb string, in *wire.Call, send func(any)) {
		switch {
		case verb == "call" && in.Tool == "look":
			send(&wire.Progress{Outcome: &wire.Outcome{Text: "fine"}})
		case verb == "call":
			for range 50 {
				send([]byte("{"))
				send([]byte(`{"unknown":1}`))
			}
			send([]byte(`{"outcome":{"control":"explode"}}`))
		}
	})
	id := s.begin()
	s.AwaitTurn(id, "t1")
	s.wantResult(id, `control: unknown "explode"`)
	runtest.DeepEqual(t, "other call", s.CallResult(id, "l"), "fine")
}

// hostileOutcomes breaks each limit of an outcome. The call fails, and its result names the field.
func hostileOutcomes(t *testing.T, on place) {
	piece := func(n, size int) *wire.Progress {
		return &wire.Progress{Piece: &wire.Piece{N: n, Data: []byte(strings.Repeat("x", size))}}
	}
	var huge []any
	for n := range wire.MaxOutcomeBytes/wire.MaxInlineBytes + 2 {
		huge = append(huge, piece(n, wire.MaxInlineBytes))
	}
	var messages atomic.Pointer[[]any] // of the case
	s := on.start(t)
	s.node()
	s.fake(events.EffectsNonIdempotent, func(verb string, _ *wire.Call, send func(any)) {
		for _, m := range *messages.Load() {
			if verb == "call" {
				send(m)
			}
		}
	})
	for name, c := range map[string]struct {
		want     string
		messages []any
	}{
		"pieces_out_of_order": {"piece 1 follows -1", []any{piece(1, 10), &wire.Progress{Pieces: 2}}},
		"many_values":         {"pieces: are no JSON of an outcome: body: JSON has more than", inPieces(`{"emit":[1` + strings.Repeat(",1", 1<<20) + `]}`)},
		"many_attachments":    {"pieces: are no JSON of an outcome: body: JSON has more than", inPieces(`{"attachments":[{}` + strings.Repeat(",{}", 1<<20) + `]}`)},
		"deep_values":         {"pieces: are no JSON of an outcome: body: JSON nests deeper", inPieces(`{"emit":[` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `]}`)},
		"many_values_inline":  {"body: JSON has more than", []any{[]byte(`{"outcome":{"emit":[1` + strings.Repeat(",1", 1<<18) + `]}}`)}},
		"deep_values_inline":  {"body: JSON nests deeper", []any{[]byte(`{"outcome":{"emit":[` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `]}}`)}},
		"submit":              {"control: unknown", []any{&wire.Progress{Outcome: &wire.Outcome{Control: events.ControlSubmit}}}},
		"pieces_missing":      {"got 1 of 2", []any{piece(0, 10), &wire.Progress{Pieces: 2}}},
		"pieces_are_no_JSON":  {"are no JSON", []any{piece(0, 10), &wire.Progress{Pieces: 1}}},
		"piece_too_large":     {"piece.data: has", []any{piece(0, wire.MaxInlineBytes+1), &wire.Progress{Pieces: 1}}},
		"too_many_pieces":     {fmt.Sprintf("more than %d bytes", wire.MaxOutcomeBytes), append(huge, &wire.Progress{Pieces: len(huge)})},
		"large_failure":       {"failure.message: has", []any{&wire.Progress{Outcome: &wire.Outcome{Failure: &wire.Failure{Message: strings.Repeat("m", wire.MaxFailureMessage+1)}}}}},
		"unknown_class":       {`failure.class: unknown "odd", known are invalid_request, unavailable, `, []any{&wire.Progress{Outcome: &wire.Outcome{Failure: &wire.Failure{Class: "odd"}}}}},
		"failure_and_text":    {"failure: excludes", []any{&wire.Progress{Outcome: &wire.Outcome{Text: "t", Failure: &wire.Failure{}}}}},
		"unknown_control":     {"control: unknown", []any{&wire.Progress{Outcome: &wire.Outcome{Control: "switch"}}}},
		"empty_attachment":    {"attachments[0].data", []any{&wire.Progress{Outcome: &wire.Outcome{Attachments: []wire.Attachment{{MediaType: "image/png"}}}}}},
	} {
		messages.Store(&c.messages)
		s.Model.Rescript(calling("hostile", `{}`)...)
		id := s.begin()
		s.AwaitTurn(id, "t1")
		if got := s.CallResult(id, "k"); !strings.HasPrefix(got, "[failed] plugin notes returned an invalid outcome") || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %.300q, want %q", name, got, c.want)
		}
		if on.replicas > 1 {
			return // the limits do not depend on the servers
		}
	}
}

// inPieces are the messages of an outcome's JSON.
func inPieces(text string) (list []any) {
	for n := 0; text != ""; n++ {
		size := min(len(text), wire.MaxInlineBytes)
		list = append(list, &wire.Progress{Piece: &wire.Piece{N: n, Data: []byte(text[:size])}})
		text = text[size:]
	}
	return append(list, &wire.Progress{Pieces: len(list)})
}

// firstAnswer has an instance answer a call several times, each time in another way. The first answer is the result.
func firstAnswer(t *testing.T, on place) {
	s := on.start(t, calling("hostile", `{}`)...)
	s.node()
	s.fake(events.EffectsNonIdempotent, func(verb string, _ *wire.Call, send func(any)) {
		if verb != "call" {
			return
		}
		for _, p := range []*wire.Progress{
			{Outcome: &wire.Outcome{Text: "first"}},
			{Outcome: &wire.Outcome{Text: "second"}},
			{Forgotten: true},
			{Error: &wire.Error{Code: wire.CodeDraining, Message: "too late"}},
			{Outcome: &wire.Outcome{Failure: &wire.Failure{Message: "third"}}},
		} {
			send(p)
		}
	})
	id := s.begin()
	s.AwaitTurn(id, "t1")
	runtest.Equal(t, "result", s.CallResult(id, "k"), "first")
	runtest.DeepEqual(t, "results", len(harness.Find[*events.ToolReturned](s.System, id)), 1)
}

func callbackWithoutCall(t *testing.T, on place) {
	s := on.start(t, append(calling("hostile", `{}`), calling("hostile", `{}`)...)...)
	s.allowing("createSession")
	s.node()
	var reply, later atomic.Pointer[func(any)]
	var answers atomic.Int64
	s.fake(events.EffectsNonIdempotent, func(verb string, _ *wire.Call, send func(any)) {
		switch {
		case verb == "callback":
			answers.Add(1)
			if next := later.Load(); next != nil {
				(*next)(&wire.Progress{Outcome: &wire.Outcome{Text: "answered"}})
			}
		case verb == "call" && reply.Load() == nil:
			reply.Store(&send)
			send(&wire.Progress{Outcome: &wire.Outcome{Text: "over"}})
		case verb == "call":
			later.Store(&send)
			send(&wire.Progress{Callback: &wire.Callback{ID: "d", Method: "GET", Path: "/v1/sessions"}})
		}
	})
	id := s.begin()
	s.AwaitTurn(id, "t1")
	(*reply.Load())(&wire.Progress{Callback: &wire.Callback{ID: "c", Method: "POST", Path: "/v1/sessions", Body: json.RawMessage(fmt.Sprintf(`{"parent":%q}`, id))}})
	s.RunTurn(id, "t2", harness.Text("more")) // the answer of its callback would come after the other one
	runtest.DeepEqual(t, "answers", answers.Load(), int64(1))
	for session, err := range s.Bus.Sessions(s.Ctx) {
		runtest.WantError(t, "sessions", err, nil)
		runtest.DeepEqual(t, "session", session, id)
	}
}

// requested is the answer to a callback of a call in a new session, whose id SELF stands for in the path.
func (s *setting) requested(method, path, body string) string {
	s.T.Helper()
	id := s.Open(api.CreateRequest{})
	in := acting{Do: "request", Method: method, Path: strings.ReplaceAll(path, "SELF", string(id))}
	if body != "" {
		in.Body = json.RawMessage(body)
	}
	args, err := json.Marshal(&in)
	runtest.WantError(s.T, "arguments", err, nil)
	s.Model.Rescript(calling("act", string(args))...)
	s.StartTurn(id, "t1", harness.Text("ask"))
	s.AwaitTurn(id, "t1")
	return s.CallResult(id, "k")
}

func deniedOperation(t *testing.T, on place) {
	s := on.start(t)
	s.allowing("getSession", "createSession", "forkSession", "getTurn")
	other := s.Open(api.CreateRequest{})
	s.node()
	s.program("i1")
	for name, c := range map[string]struct{ method, path, body, want, code string }{
		"not_listed":         {"GET", "/v1/sessions/SELF/view", "", `403 `, "getView"},
		"listed":             {"GET", "/v1/sessions/SELF", "", `200 `, ""},
		"turn_named_stream":  {"GET", "/v1/sessions/SELF/turns/stream", "", `404 `, "stream"},
		"another_session":    {"GET", "/v1/sessions/" + string(other), "", `404 `, ""},
		"child_of_another":   {"POST", "/v1/sessions", fmt.Sprintf(`{"parent":%q}`, other), `403 `, "createSession"},
		"session_of_its_own": {"POST", "/v1/sessions", `{}`, `403 `, "createSession"},
		"fork_below_another": {"POST", "/v1/sessions/SELF/fork", fmt.Sprintf(`{"parent":%q}`, other), `403 `, "forkSession"},
		"fork_of_its_own":    {"POST", "/v1/sessions/SELF/fork", `{}`, `403 `, "forkSession"},
	} {
		got := s.requested(c.method, c.path, c.body)
		for strings.HasPrefix(got, "202 ") && s.Ctx.Err() == nil { // whether the turn is queued was not known in time
			got = s.requested(c.method, c.path, c.body)
		}
		if !strings.HasPrefix(got, c.want) || !strings.Contains(got, c.code) {
			t.Errorf("%s: got %.300q, want %s%s", name, got, c.want, c.code)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	denied := 0
	for _, r := range s.access {
		if r.Status == 403 && r.Code == "forbidden" && r.Caller == "plugin-notes" && strings.Contains(r.Reason, r.Operation) {
			denied++
		}
	}
	runtest.DeepEqual(t, "denied requests in the access log", denied, 5)
}
