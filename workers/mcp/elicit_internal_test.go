package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin"
)

// patient are people who answer once answer is closed, or not at all. asked has an element for each question.
type patient struct {
	asked  chan struct{}
	answer chan struct{}
}

func (p patient) Ask(ctx context.Context, _, _ string, _ json.RawMessage) (events.ToolApprovalGiven, error) {
	p.asked <- struct{}{}
	select {
	case <-p.answer:
		return events.ToolApprovalGiven{Granted: true}, nil
	case <-ctx.Done():
		return events.ToolApprovalGiven{}, context.Cause(ctx)
	}
}

// TestQuestionOutlivesItsCall has a server ask while two calls of a session run. People are asked in the second one, which ends
// before they answer: they are asked in the first one, and the server gets their answer.
func TestQuestionOutlivesItsCall(t *testing.T) {
	t.Parallel()
	run := newTestRun(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	start := func(p patient) (end func()) {
		started, ended, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
		go func() { // ends with end
			defer close(over)
			_, _ = run.do(ctx, &attempt{caller: plugin.Call{Session: "s", Run: plugin.Running{Ask: p.Ask}}, source: run.source}, func(context.Context, string) (plugin.Result, error) {
				close(started)
				<-ended
				return plugin.Result{}, nil
			})
		}()
		<-started
		return func() { close(ended); <-over }
	}
	first, second := patient{asked: make(chan struct{}, 1), answer: make(chan struct{})}, patient{asked: make(chan struct{}, 1), answer: make(chan struct{})}
	endFirst, endSecond := start(first), start(second)
	answers := make(chan *mcp.ElicitResult, 1)
	go func() { // ends with the answer
		answer, err := run.ask(ctx, &mcp.ElicitParams{Message: "Which one?"})
		runtest.WantError(t, "ask", err, nil)
		answers <- answer
	}()
	<-second.asked
	endSecond()
	<-first.asked
	close(first.answer)
	if answer := <-answers; answer == nil || answer.Action != accept {
		t.Errorf("got %+v, want the answer", answer)
	}
	endFirst()
}

// TestQuestionsOfACallAreLimited has a server that asks without end during one call: a person who answers each question is asked 160 of them.
func TestQuestionsOfACallAreLimited(t *testing.T) {
	t.Parallel()
	run, asked := newTestRun(t), 0
	answers := func(ctx context.Context, _, _ string, _ json.RawMessage) (events.ToolApprovalGiven, error) {
		if ctx.Err() != nil {
			return events.ToolApprovalGiven{}, context.Cause(ctx)
		}
		asked++
		return events.ToolApprovalGiven{Granted: true}, nil
	}
	var refused *jsonrpc.Error
	_, _ = run.do(t.Context(), &attempt{caller: plugin.Call{Session: "s", Run: plugin.Running{Ask: answers}}, source: run.source}, func(ctx context.Context, _ string) (plugin.Result, error) {
		over, cancel := context.WithCancel(ctx)
		cancel()
		for range 1000 { // given up before people are asked
			_, _ = run.ask(over, &mcp.ElicitParams{Message: "Never mind?"})
		}
		for range 1000 {
			if _, err := run.ask(ctx, &mcp.ElicitParams{Message: "And now?"}); err != nil {
				refused, _ = errors.AsType[*jsonrpc.Error](err)
				break
			}
		}
		return plugin.Result{}, nil
	})
	if asked != 160 || refused == nil || !strings.Contains(refused.Message, "160") {
		t.Errorf("got %d questions and the error %v, want 160 and a refusal with the limit", asked, refused)
	}
}

// TestDefaultsOfQuestions answers questions whose fields have defaults: people see them with the form, and an accepted answer has them where
// it leaves a field out.
func TestDefaultsOfQuestions(t *testing.T) {
	t.Parallel()
	const many = `{"type":"object","properties":{"name":{"type":"string","default":"Ann"},"age":{"type":"integer","default":30},"score":{"type":"number","default":9.5},"status":{"type":"string","enum":["on","off"],"default":"on"},"ok":{"type":"boolean","default":true},"free":{"type":"string"}},"required":["name"]}`
	const all = `{"age":30,"name":"Ann","ok":true,"score":9.5,"status":"on"}`
	for name, c := range map[string]struct{ form, reason, defaults, want string }{
		"none_given":    {many, "", all, all},
		"empty_object":  {many, "{}", all, all},
		"some_given":    {many, `{"name":"Bob","ok":false}`, all, `{"age":30,"name":"Bob","ok":false,"score":9.5,"status":"on"}`},
		"only_field":    {`{"type":"object","properties":{"a":{"type":"string","default":"x"}}}`, "", `{"a":"x"}`, `{"a":"x"}`},
		"only_false":    {`{"type":"object","properties":{"a":{"type":"boolean","default":false}}}`, "", `{"a":false}`, `{"a":false}`},
		"only_required": {`{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"]}`, "", "", `{"a":true}`},
		"null":          {`{"type":"object","properties":{"a":{"type":"string","default":null},"b":{"type":"string"}}}`, "", "", `{}`},
		"no_default":    {`{"type":"object","properties":{"a":{"type":"string"}}}`, "", "", `{}`},
	} {
		q, err := questionOf(&mcp.ElicitParams{Message: "m", RequestedSchema: json.RawMessage(c.form)})
		runtest.NoError(t, err)
		var shown struct {
			Defaults json.RawMessage `json:"defaults"`
		}
		content, err := q.content(c.reason)
		got, _ := json.Marshal(content)
		if json.Unmarshal(q.details, &shown) != nil || string(shown.Defaults) != c.defaults || string(got) != c.want || err != nil {
			t.Errorf("%s: got the defaults %s and the content %s, %v, want %s and %s", name, shown.Defaults, got, err, c.defaults, c.want)
		}
	}
}
