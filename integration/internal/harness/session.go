package harness

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// Open creates a session.
func (b *System) Open(req api.CreateRequest) events.SessionID {
	b.T.Helper()
	id, err := b.Create(b.Ctx, req)
	runtest.NoError(b.T, err)
	return id
}

// AppendTexts appends user messages of one text each and returns their node ids.
func (b *System) AppendTexts(id events.SessionID, texts ...string) []events.NodeID {
	b.T.Helper()
	got, err := b.AppendNodes(b.Ctx, id, api.AppendNodesRequest{Nodes: UserMessages(texts...)})
	runtest.NoError(b.T, err)
	return got.IDs
}

// UserMessages are user messages whose ids are their texts.
func UserMessages(texts ...string) []api.AppendNode {
	var list []api.AppendNode
	for _, s := range texts {
		list = append(list, api.AppendNode{Message: &events.Message{ID: events.MessageID(s), Role: events.RoleUser, Parts: []events.Part{Text(s)}}})
	}
	return list
}

// RunTurn runs a turn to its end.
func (b *System) RunTurn(id events.SessionID, turn events.TurnID, parts ...events.Part) api.TurnResult {
	b.T.Helper()
	r, err := b.Run(b.Ctx, id, api.TurnRequest{ID: turn, Input: events.TurnInput{Parts: parts}})
	runtest.NoError(b.T, err)
	return r
}

// StartTurn submits a turn.
func (b *System) StartTurn(id events.SessionID, turn events.TurnID, parts ...events.Part) {
	b.T.Helper()
	if _, err := b.Submit(b.Ctx, id, api.TurnRequest{ID: turn, Input: events.TurnInput{Parts: parts}}); err != nil {
		b.T.Fatal(err)
	}
}

// AwaitState waits until ok accepts the session's state. It checks the state at every commit.
func (b *System) AwaitState(id events.SessionID, what string, ok func(*projector.State) bool) *projector.State {
	b.T.Helper()
	live, err := b.Bus.Live(id, 1024)
	runtest.NoError(b.T, err)
	defer live.Close()
	runtest.WantError(b.T, "flush", b.Bus.Conn().Flush(), nil) // the host may read over another connection
	look := time.NewTicker(time.Second)                        // some tests remove live messages
	defer look.Stop()
	for {
		s := b.StateOf(id)
		if ok(s) {
			return s
		}
		select {
		case <-live.C:
		case <-look.C:
		case <-b.Ctx.Done():
			b.T.Fatalf("await %s: %v", what, context.Cause(b.Ctx))
		}
	}
}

// Receive waits for a value or the close of the channel, in the test's own goroutine.
func Receive[T any](b *System, what string, from <-chan T) T {
	b.T.Helper()
	select {
	case got := <-from:
		return got
	case <-b.Ctx.Done():
		b.T.Fatalf("wait for %q: got nothing, %v", what, context.Cause(b.Ctx))
		panic("unreachable")
	}
}

// AwaitTurn waits for the end of a turn.
func (b *System) AwaitTurn(id events.SessionID, turn events.TurnID) projector.TurnRecord {
	b.T.Helper()
	var record *projector.TurnRecord
	b.AwaitState(id, "end of "+string(turn), func(s *projector.State) bool {
		var err error
		if record, err = s.Record(turn); err != nil {
			b.T.Fatal(err)
		}
		return record != nil
	})
	return *record
}

// StateOf is the state of a session.
func (b *System) StateOf(id events.SessionID) *projector.State {
	b.T.Helper()
	s, err := b.State(b.Ctx, id)
	runtest.NoError(b.T, err)
	return s
}

// LastSeq is the newest sequence of a session.
func (b *System) LastSeq(id events.SessionID) events.Seq {
	b.T.Helper()
	seq, err := b.Bus.Log().Last(b.Ctx, id)
	runtest.NoError(b.T, err)
	return seq
}

// History lists the events of a session in order.
func (b *System) History(id events.SessionID) []events.Event {
	b.T.Helper()
	var list []events.Event
	for e, err := range b.Bus.Log().Read(b.Ctx, id, 1) {
		runtest.NoError(b.T, err)
		list = append(list, e.Commit.Events...)
	}
	return list
}

// Find lists the payloads of one type in a session's history.
func Find[P events.Payload](b *System, id events.SessionID) []P {
	b.T.Helper()
	var list []P
	for _, e := range b.History(id) {
		if p, ok := e.Payload.(P); ok {
			list = append(list, p)
		}
	}
	return list
}

// AppendJunk appends a message that is no commit: the session cannot be folded from here on. The stream has it on return.
func (b *System) AppendJunk(id events.SessionID) {
	b.T.Helper()
	_, err := b.JetStream().Publish(b.Ctx, "lash.s."+string(id)+".junk", []byte("junk"))
	runtest.WantError(b.T, "append what is no commit", err, nil)
}

// CommitUnchecked appends a commit without the checks of the host, as a program of another version might.
func (b *System) CommitUnchecked(id events.SessionID, payload events.Payload) {
	b.T.Helper()
	last := b.LastSeq(id)
	c := &events.Commit{
		ID: events.CommitID(fmt.Sprintf("foreign-%d", last)), Session: id, At: 1,
		Actor: events.Actor{Kind: events.ActorSystem}, Events: []events.Event{events.Of("", payload)},
	}
	if _, err := b.Bus.Log().Append(b.Ctx, c, last); err != nil {
		b.T.Fatal(err)
	}
}

// Messages renders the messages of a session's view.
func (b *System) Messages(id events.SessionID) []string {
	b.T.Helper()
	v, err := b.View(b.Ctx, id)
	runtest.NoError(b.T, err)
	return Transcript(v.Messages)
}

// Transcript renders messages, one line each: role, text, calls, results.
func Transcript(list []events.Message) []string {
	lines := []string{}
	for _, m := range list {
		words := []string{string(m.Role)}
		for _, p := range m.Parts {
			switch p.Kind {
			case events.PartToolCall:
				words = append(words, fmt.Sprintf("%s:%s%s", p.Call, p.Tool, p.Args))
			case events.PartToolResult:
				words = append(words, fmt.Sprintf("%s=%s", p.Call, p.Text))
			case events.PartText, events.PartReasoning, events.PartAttachment:
				words = append(words, p.Text)
			}
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return lines
}

// Text is a text part.
func Text(s string) events.Part { return events.Part{Kind: events.PartText, Text: s} }

// Call is a part that calls a tool.
func Call(id events.CallID, tool, args string) events.Part {
	return events.Part{Kind: events.PartToolCall, Call: id, Tool: tool, Args: []byte(args)}
}
