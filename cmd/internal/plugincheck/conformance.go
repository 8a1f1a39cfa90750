package plugincheck

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin/wire"
)

type object map[string]any

// letters is the text of the tool big.
func letters(n int) string {
	return strings.Repeat("abcdefghijklmnopqrstuvwxyz", n/26+1)[:n]
}

// text has a check call a tool that returns a text.
func text(tool string, args object, want string) func(context.Context, *setting) error {
	return func(ctx context.Context, s *setting) error {
		o, err := s.result(ctx, tool, args)
		if err == nil && (o.Text != want || o.Failure != nil || o.Cancelled) {
			err = fmt.Errorf("%s: got %.200s, want the text %.100q", tool, jsonOf(o), want)
		}
		return err
	}
}

// big has a check call the tool big. It makes the text when it runs: every start of a program has the table.
func big(n int) func(context.Context, *setting) error {
	return func(ctx context.Context, s *setting) error {
		return text("big", object{"bytes": n}, letters(n))(ctx, s)
	}
}

var conformanceChecks = []check{ //nolint:gochecknoglobals // a table
	{"echo", text("echo", object{"text": "a \u00fc \n"}, "a \u00fc \n")},
	{"same_call_runs_once", func(ctx context.Context, s *setting) error {
		in := wire.Call{CallID: wire.CallID{Call: "twice"}, Tool: "count"}
		for _, c := range []struct{ call, want string }{{"twice", "run 1"}, {"twice", "run 1"}, {"other", "run 2"}} { // one key
			in.Call, in.Key = events.EffectID(c.call), "k"
			a, err := s.call(ctx, &in, nil)
			if err == nil && (a.outcome == nil || a.outcome.Text != c.want) {
				err = fmt.Errorf("call %s: got %s, want %q", c.call, a, c.want)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}},
	{"same_call_joins", func(ctx context.Context, s *setting) error {
		id := wire.CallID{Call: "joined"}
		errs := make(chan error, 2)
		for range 2 {
			go func() { // ends with its call
				a, err := s.call(ctx, &wire.Call{CallID: id, Tool: "sleep", Args: jsonOf(object{"millis": 500})}, nil)
				if err == nil && (a.outcome == nil || a.outcome.Text != "slept") {
					err = fmt.Errorf("got %s, want slept", a)
				}
				errs <- err
			}()
		}
		return errors.Join(<-errs, <-errs)
	}},
	{"signs_of_a_call", func(ctx context.Context, s *setting) error {
		began, first, silent := time.Now(), time.Duration(0), time.Duration(0)
		heard := began
		a, err := s.call(ctx, &wire.Call{Tool: "sleep", Args: jsonOf(object{"millis": 2500})}, func(*wire.Progress) {
			if first == 0 {
				first = time.Since(began)
			}
			silent, heard = max(silent, time.Since(heard)), time.Now()
		})
		switch {
		case err != nil:
			return err
		case a.outcome == nil || a.outcome.Text != "slept":
			return fmt.Errorf("got %s, want slept", a)
		case first > s.cfg.Late:
			return fmt.Errorf("the first answer came after %s, want it at once", first)
		case silent > wire.SignEvery+s.cfg.Late:
			return fmt.Errorf("%s without an answer, want one every %s", silent, wire.SignEvery)
		}
		return nil
	}},
	{"recorded_is_forgotten", func(ctx context.Context, s *setting) error {
		in := wire.Call{CallID: wire.CallID{Call: "recorded"}, Tool: "count"}
		if _, err := s.call(ctx, &in, nil); err != nil {
			return err
		}
		if err := s.tell(wire.VerbRecorded, in.CallID); err != nil {
			return err
		}
		return s.until(ctx, func() error {
			a, err := s.call(ctx, &in, nil)
			if err == nil && !a.last.Forgotten {
				err = fmt.Errorf("got %s, want it forgotten", a)
			}
			return err
		})
	}},
	{"again_of_an_unknown_call_runs", func(ctx context.Context, s *setting) error {
		a, err := s.call(ctx, &wire.Call{Tool: "count", Again: true}, nil)
		if err == nil && (a.outcome == nil || a.outcome.Text != "run 1") {
			err = fmt.Errorf("got %s, want run 1", a)
		}
		return err
	}},
	{"fail", func(ctx context.Context, s *setting) error {
		o, err := s.result(ctx, "fail", object{"class": "external", "message": "closed", "safe": true})
		if err == nil && (o.Failure == nil || o.Failure.Class != "external" || o.Failure.Message != "closed" || !o.Failure.Safe) {
			err = fmt.Errorf("got %s, want the failure", jsonOf(o))
		}
		return err
	}},
	{"throw", func(ctx context.Context, s *setting) error {
		o, err := s.result(ctx, "throw", object{})
		if err == nil && (o.Failure == nil || o.Failure.Class != "internal") {
			err = fmt.Errorf("got %s, want a failure of class internal", jsonOf(o))
		}
		if err != nil {
			return err
		}
		return text("echo", object{"text": "it goes on"}, "it goes on")(ctx, s)
	}},
	{"big_70000", big(70_000)},
	{"big_3_MiB", big(3 << 20)},
	{"picture", func(ctx context.Context, s *setting) error {
		want := make([]byte, 700_000)
		for i := range want {
			want[i] = byte(i % 256)
		}
		o, err := s.result(ctx, "picture", object{"bytes": len(want)})
		if err == nil && (o.Text != "picture" || len(o.Attachments) != 1 || o.Attachments[0].MediaType != "image/png" || !bytes.Equal(o.Attachments[0].Data, want)) {
			err = fmt.Errorf("got the text %.100q and %d attachments, want picture with one image/png", o.Text, len(o.Attachments))
		}
		return err
	}},
	{"print", func(ctx context.Context, s *setting) error { return s.printed(ctx, 5) }},
	{"print_is_collected", func(ctx context.Context, s *setting) error { return s.printed(ctx, 2000) }},
	{"cancel", func(ctx context.Context, s *setting) error {
		id := wire.CallID{Session: "s", Call: "cancelled"}
		var asked time.Time
		signs := 0 // the first one may come before the tool runs
		a, err := s.call(ctx, &wire.Call{CallID: id, Tool: "sleep", Args: jsonOf(object{"millis": 60000})}, func(p *wire.Progress) {
			if !p.Last() {
				signs++
			}
			if signs == 2 && asked.IsZero() {
				asked = time.Now()
				_ = s.tell(wire.VerbCancel, wire.Cancel{CallID: id, GraceMS: 5000})
			}
		})
		switch {
		case err != nil:
			return err
		case a.outcome == nil || !a.outcome.Cancelled || !strings.HasPrefix(a.outcome.Text, "slept ") || !strings.HasSuffix(a.outcome.Text, " of 60000 ms"):
			return fmt.Errorf("got %s, want it cancelled with its text", a)
		case time.Since(asked) > 200*time.Millisecond+s.cfg.Late:
			return fmt.Errorf("it ended %s after the cancel", time.Since(asked))
		}
		return nil
	}},
	{"cancel_of_another_call", func(_ context.Context, s *setting) error {
		return s.tell(wire.VerbCancel, wire.Cancel{CallID: wire.CallID{Session: "s", Call: "none"}, GraceMS: 1000}) // the next checks find it alive
	}},
	{"callback", func(ctx context.Context, s *setting) error { return s.asked(ctx, "once", 1) }},
	{"callback_is_repeated", func(ctx context.Context, s *setting) error { return s.asked(ctx, "repeated", 2) }},
	{"question_is_withdrawn", func(ctx context.Context, s *setting) error { return s.givesUp(ctx) }},
	{"finish", func(ctx context.Context, s *setting) error {
		o, err := s.result(ctx, "finish", object{"text": "over"})
		if err == nil && (o.Text != "over" || o.Control != events.ControlFinish) {
			err = fmt.Errorf("got %s, want the control finish", jsonOf(o))
		}
		return err
	}},
	{"hook_before_tool_call", func(ctx context.Context, s *setting) error {
		return errors.Join(
			s.directs(ctx, "before_tool_call", hooked("forbidden", nil), `[{"kind":"abort_turn","code":"guarded","message":"not this text"}]`),
			s.directs(ctx, "before_tool_call", hooked("other", nil), `[{"kind":"replace_tool_args","args":{"text":"replaced"}}]`),
			s.directs(ctx, "before_tool_call", hooked("fine", nil), `[]`),
			s.directs(ctx, "before_tool_call", hooked("call", nil), `[{"kind":"replace_tool_args","args":{"text":"k false true true"}}]`),
		)
	}},
	{"hook_after_tool_call", func(ctx context.Context, s *setting) error {
		r, err := s.hook(ctx, "after_tool_call", hooked("a", &wire.HookedResult{Text: "hookfail"}))
		if err == nil && r.Error == nil {
			err = fmt.Errorf("result hookfail: got %s, want an error", jsonOf(r))
		}
		return errors.Join(err,
			s.directs(ctx, "after_tool_call", hooked("a", &wire.HookedResult{Text: "loud"}), `[{"kind":"short_circuit_tool","result":{"text":"LOUD"}}]`),
			s.directs(ctx, "after_tool_call", hooked("a", &wire.HookedResult{Text: "fine"}), `[]`),
		)
	}},
	{"hook_before_turn", func(ctx context.Context, s *setting) error {
		return errors.Join(
			s.directs(ctx, "before_turn", wire.HookCall{Input: "greet me"}, `[{"kind":"enqueue_messages","messages":[{"role":"user","text":"hello from conformance"}]}]`),
			s.directs(ctx, "before_turn", wire.HookCall{Input: "hello"}, `[]`),
		)
	}},
	{"hook_before_model_call", func(ctx context.Context, s *setting) error {
		return errors.Join(
			s.directs(ctx, "before_model_call", wire.HookCall{Iteration: 2, LastPrompt: 89, Window: 100},
				`[{"kind":"contribute","contributions":[{"slot":"guidance","content":"Model call 2."}]}]`),
			s.directs(ctx, "before_model_call", wire.HookCall{LastPrompt: 90, Window: 100}, `[
				{"kind":"contribute","contributions":[{"slot":"guidance","content":"Model call 0."}]},
				{"kind":"system_prompt","text":"Be brief."},
				{"kind":"switch_frame","frame":"f0","task":"go on","messages":[{"role":"user","text":"so far"}]}]`),
		)
	}},
	{"fragment", func(_ context.Context, s *setting) error {
		for _, f := range s.registered()[0].Manifest.Prompt {
			if f.Slot == "guidance" && f.Content == "Conformance is here." && fmt.Sprint(f.Tools) == "[echo]" {
				return nil
			}
		}
		return errors.New("the manifest has no such fragment")
	}},
	{"turn_echo", func(ctx context.Context, s *setting) error {
		return s.turned(ctx, "echo", object{"text": "hello"}, "hello")
	}},
	{"turn_count", func(ctx context.Context, s *setting) error { return s.turned(ctx, "count", object{}, "run 1") }},
	{"turn_guarded", func(ctx context.Context, s *setting) error {
		return s.turned(ctx, "echo", object{"text": "forbidden"}, "not this text")
	}},
	{"turn_with_other_arguments", func(ctx context.Context, s *setting) error {
		return s.turned(ctx, "echo", object{"text": "other"}, "replaced")
	}},
	{"turn_with_another_result", func(ctx context.Context, s *setting) error {
		return s.turned(ctx, "echo", object{"text": "loud"}, "LOUD")
	}},
	{"turn_with_a_skipped_hook", func(ctx context.Context, s *setting) error {
		return s.turned(ctx, "echo", object{"text": "hookfail"}, "hookfail")
	}},
	{"turn_greeted", func(ctx context.Context, s *setting) error {
		return s.prompted(ctx, "greet me", "hello from conformance")
	}},
	{"turn_with_a_contribution", func(ctx context.Context, s *setting) error { return s.prompted(ctx, "hello", "Model call 0.") }},
	{"turn_with_the_fragment", func(ctx context.Context, s *setting) error { return s.prompted(ctx, "hello", "Conformance is here.") }},
	{"turn_fail", func(ctx context.Context, s *setting) error {
		return s.turned(ctx, "fail", object{"class": "external", "message": "closed"}, "closed")
	}},
}

// until repeats a check that depends on a message without an answer.
func (s *setting) until(ctx context.Context, is func() error) error {
	return s.await(ctx, is, s.main())
}

// printed has the tool print lines, and compares the outputs with them.
func (s *setting) printed(ctx context.Context, lines int) error {
	var got, want strings.Builder
	for n := range lines {
		fmt.Fprintf(&want, "line %d\n", n+1)
	}
	began, seq := time.Now(), int64(0)
	a, err := s.call(ctx, &wire.Call{Tool: "print", Args: jsonOf(object{"lines": lines})}, func(p *wire.Progress) {
		if o := p.Output; o != nil && o.Seq == seq+1 && o.Offset == int64(got.Len()) && len(o.Text) <= wire.MaxOutputBytes && (o.Stream == "" || o.Stream == "stdout") {
			seq++
			got.WriteString(o.Text)
		}
	})
	switch most := wire.OutputsPerSecond * int64(time.Since(began)/time.Second+2); {
	case err != nil:
		return err
	case a.outcome == nil || a.outcome.Text != fmt.Sprint("printed ", lines):
		return fmt.Errorf("got %s, want printed %d", a, lines)
	case got.String() != want.String():
		return fmt.Errorf("the outputs in order have %d bytes %.100q, want the %d bytes that it printed", got.Len(), got.String(), want.Len())
	case seq > most:
		return fmt.Errorf("%d outputs, want at most %d", seq, most)
	}
	return nil
}

// asked has the tool make a callback, and answers its nth message.
func (s *setting) asked(ctx context.Context, id string, nth int) error {
	seen := 0
	in := wire.Call{CallID: wire.CallID{Call: events.EffectID("ask-" + id)}, Tool: "ask", Args: jsonOf(object{"id": id, "method": "POST", "path": "/v1/sessions", "body": object{"x": 1}})}
	var wrong error
	a, err := s.call(ctx, &in, func(p *wire.Progress) {
		c := p.Callback
		if c == nil {
			return
		}
		if c.ID != id || c.Method != "POST" || c.Path != "/v1/sessions" || !sameJSON(c.Body, []byte(`{"x":1}`)) {
			wrong = fmt.Errorf("the callback is %s", jsonOf(c))
		}
		if seen++; seen == nth {
			wrong = errors.Join(wrong, s.tell(wire.VerbCallback, wire.CallbackAnswer{CallID: in.CallID, ID: id, Status: 201, Body: []byte(`{"id":"new"}`)}))
		}
	})
	if err == nil && (a.outcome == nil || !sameJSON([]byte(a.outcome.Text), []byte(`{"status":201,"body":{"id":"new"}}`))) {
		err = fmt.Errorf("got %s, want the status and the body", a)
	}
	return errors.Join(err, wrong)
}

// sameJSON reports whether two texts are the same JSON value.
func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && bytes.Equal(jsonOf(x), jsonOf(y))
}

// busyDrain is drain while a hook runs: its answer arrives. A call that was sent before nodes knew of the drain is served.
var busyDrain = check{"drain", func(ctx context.Context, s *setting) error { //nolint:gochecknoglobals // a row of the table
	greeted := make(chan error, 1)
	go func() { // ends with the hook's time
		greeted <- s.directs(ctx, "before_turn", wire.HookCall{Input: "greet me slowly"}, `[{"kind":"enqueue_messages","messages":[{"role":"user","text":"hello from conformance"}]}]`)
	}()
	time.Sleep(200 * time.Millisecond) // the hook runs: it takes 1.5 s
	_ = s.conn.Publish(s.subject(wire.VerbDrain), nil)
	o, err := s.result(ctx, "echo", object{"text": "late"})
	if err == nil && o.Text != "late" {
		err = fmt.Errorf("a call just after drain: got %s, want it served", jsonOf(o))
	}
	return errors.Join(err, <-greeted, s.drain(ctx))
}}

// hooked is a hook of a call of echo.
func hooked(text string, result *wire.HookedResult) wire.HookCall {
	return wire.HookCall{Call: &wire.HookedCall{Call: "c", Model: "m", Key: "k", Once: true, Inner: true, Tool: "echo", Args: jsonOf(object{"text": text}), Result: result}}
}

// directs calls a hook, and compares its directives.
func (s *setting) directs(ctx context.Context, point string, in wire.HookCall, want string) error {
	r, err := s.hook(ctx, point, in)
	if err != nil {
		return err
	}
	if r.Directives == nil {
		r.Directives = []wire.Directive{}
	}
	if got := jsonOf(r.Directives); r.Error != nil || !sameJSON(got, []byte(want)) {
		return fmt.Errorf("%s: got %.300s, want the directives %s", point, jsonOf(r), want)
	}
	return nil
}

// turned compares the text of a call's result in the history.
func (s *setting) turned(ctx context.Context, tool string, args object, want string) error {
	part, err := s.turn(ctx, tool, args)
	if err == nil && !strings.Contains(part.Text, want) {
		err = fmt.Errorf("the result in the history is %.200q, want %.100q", part.Text, want)
	}
	return err
}
