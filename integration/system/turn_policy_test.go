package system

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// blockingModel replies to every model call with the name of its effect. A turn t1, and those of a race, block first, or
// t1 calls a tool whose result comes from outside.
type blockingModel struct {
	goOn  chan struct{} // closed: they may
	parks bool
}

func (k *blockingModel) reply(ctx context.Context, req llm.Request) (scripted.Answer, error) {
	parts := []events.Part{harness.Text(string(req.Effect))}
	if req.Effect == "t1/0/model" || strings.HasPrefix(string(req.Effect), "race") {
		if k.parks {
			parts = []events.Part{harness.Call("k", "later", "{}")}
		} else {
			select {
			case <-k.goOn:
			case <-ctx.Done():
				return scripted.Answer{}, ctx.Err()
			}
		}
	}
	return scripted.Answer{Response: llm.Response{Parts: parts, Stop: events.StopEnd, Usage: events.Usage{Input: 10, Output: 5}}}, nil
}

// setupConversation has a session with a finished turn t0, and that many workers.
func setupConversation(t *testing.T, k *blockingModel, nodes int) (b *harness.System, id events.SessionID, kill func()) {
	t.Helper()
	k.goOn = make(chan struct{})
	b = harness.StartIdle(t, slices.Repeat([]harness.Step{k.reply}, 100)...)
	plugin.AddTool(b.Tools, plugin.Tool{Name: "later", Effects: events.EffectsNone}, func(_ context.Context, c plugin.Call, _ struct{}) (plugin.Result, error) {
		c.CompletionKey()
		return plugin.Result{Pending: true}, nil
	})
	var kills []func()
	for range nodes {
		kills = append(kills, b.StartWorker(bustest.Open(t, b.Server)))
	}
	id = b.Open(api.CreateRequest{Labels: map[string]string{"of": "talk"}, Options: map[string]string{"memory": `{"n":1}`}})
	b.RunTurn(id, "t0", harness.Text("t0"))
	return b, id, func() {
		for _, kill := range kills {
			kill()
		}
	}
}

// awaitStart runs t1 up to its model call, or until it waits for a result from outside.
func (k *blockingModel) awaitStart(b *harness.System, id events.SessionID) {
	b.T.Helper()
	b.StartTurn(id, "t1", harness.Text("t1"))
	b.AwaitState(id, "t1", func(s *projector.State) bool {
		t := s.Turn()
		return t != nil && t.ID == "t1" && (!k.parks || len(t.Calls) == 1 && t.Calls[0].Pended)
	})
	if k.parks {
		b.AwaitUnqueued(id)
	}
}

// strands has t1 run under a message that is gone, on a dead worker.
func (k *blockingModel) strands(b *harness.System, id events.SessionID) {
	b.T.Helper()
	last := b.LastSeq(id)
	_, err := b.Bus.Log().Append(b.Ctx, &events.Commit{
		ID: events.CommitID(ulid.Make().String()), Session: id, At: 1, Actor: events.Actor{Kind: events.ActorNode, ID: "dead"},
		Events: []events.Event{
			events.Of("t1", &events.TurnRequested{Input: harness.TurnRequest("t1", "t1").Input}),
			events.Of("t1", &events.TurnStarted{Attempt: 1, Worker: "dead"}),
		},
	}, last)
	runtest.WantError(b.T, "append", err, nil)
}

// frees lets t1 end.
func (k *blockingModel) frees(b *harness.System, id events.SessionID) {
	b.T.Helper()
	if !k.parks {
		close(k.goOn)
		return
	}
	runtest.WantError(b.T, "resolve", b.ResolveTool(b.Ctx, id, harness.AddEffect, events.ToolResult{Text: "done"}), nil)
}

// turnLines lists what a history has of turns, without t0.
func turnLines(b *harness.System, id events.SessionID) []string {
	b.T.Helper()
	list := []string{}
	for _, e := range b.History(id) {
		line := string(e.Kind) + " " + string(e.Turn)
		switch p := e.Payload.(type) {
		case *events.TurnRequested:
			line = strings.TrimSpace(fmt.Sprintf("%s %s %s", line, p.Busy, p.Behind))
		case *events.TurnStarted:
			line += fmt.Sprintf(" %d", p.Attempt)
		case *events.TurnCompleted:
			line += " " + string(p.End)
		case *events.TurnDiverted:
			line += fmt.Sprintf(" %s %s", p.End, p.By)
		case *events.TurnCancelRequested:
			line += " " + p.Origin
		default:
			continue
		}
		if e.Turn != "t0" {
			list = append(list, strings.TrimPrefix(line, "turn."))
		}
	}
	return list
}

// TestPolicies submits a turn t2 while the session is idle, while t1 runs, while its worker is dead and its
// message gone, while it is parked, and while t3 waits too; with one worker, which has the session already, and
// with two.
func TestPolicies(t *testing.T) {
	t.Parallel()
	for meets, cases := range policyCases {
		for _, c := range cases {
			for _, nodes := range []int{1, 2} {
				t.Run(fmt.Sprintf("%s_%s_%d", meets, c.busy, nodes), func(t *testing.T) {
					t.Parallel()
					k := &blockingModel{parks: meets == "parked"}
					b, id, _ := setupConversation(t, k, nodes)
					free := c.busy != api.WhenBusyInterrupt
					switch meets {
					case "idle":
						free = false
					case "stranded":
						k.strands(b, id)
						if free {
							k.frees(b, id)
							free = false
						}
					default:
						k.awaitStart(b, id)
					}
					if meets == "waiting" {
						b.StartTurn(id, "t3", harness.Text("t3"))
						b.AwaitState(id, "t3", func(s *projector.State) bool { return len(s.Queue) == 1 })
					}
					seen := len(turnLines(b, id))
					_, err := b.Submit(b.Ctx, id, harness.TurnWhenBusy("t2", c.busy))
					runtest.WantError(t, "submit", err, nil)
					b.AwaitState(id, "t2 in the history", func(s *projector.State) bool { return hasTurn(b, s, "t2") })
					if free {
						k.frees(b, id)
					}
					b.AwaitState(id, "the end", func(s *projector.State) bool { return s.Idle() })
					c.check(b, id, seen)
				})
			}
		}
	}
}

// hasTurn reports whether a turn is in the state. A turn that branches has ended in this session first.
func hasTurn(b *harness.System, s *projector.State, id events.TurnID) bool {
	b.T.Helper()
	record, err := s.Record(id)
	runtest.WantError(b.T, "record", err, nil)
	known := record != nil || s.Turn() != nil && s.Turn().ID == id
	for _, q := range s.Queue {
		known = known || q.ID == id && q.Busy != events.BusyBranch
	}
	return known
}

// check compares the session, and the responses that clients have of t2, with the case.
func (c *policyCase) check(b *harness.System, id events.SessionID, seen int) {
	b.T.Helper()
	runtest.EqualLists(b.T, "history", turnLines(b, id)[seen:], strings.Split(c.history, "|"))
	messages := []string{"user t0", "assistant t0/0/model"}
	runtest.EqualLists(b.T, "messages", b.Messages(id), append(slices.Clone(messages), strings.Split(c.messages, "|")...))
	for name, h := range map[string]*session.Host{"same": b.Host, "other": b.OtherHost()} {
		got, err := h.Run(b.Ctx, id, harness.TurnWhenBusy("t2", c.busy)) // a retry attaches, whatever its policy
		switch {
		case strings.Contains(c.history, "diverted t2 rejected"):
			runtest.Equal(b.T, "end on the "+name+" host", got.End, events.EndRejected)
			runtest.WantError(b.T, "rejected", err, api.ErrTurnRunning)
			var rejected *api.TurnRejectedError
			runtest.Equal(b.T, "because of", errors.As(err, &rejected) && rejected.Turn == "t2" && rejected.By == "t1", true)
		case strings.Contains(c.history, "diverted t2 injected"):
			runtest.WantError(b.T, "injected", err, nil)
			runtest.Equal(b.T, "end on the "+name+" host", got.End, events.EndInjected)
			runtest.Equal(b.T, "taken in by", got.By, "t1")
		case strings.Contains(c.history, "diverted t2 branched"):
			runtest.WantError(b.T, "branched", err, nil)
			runtest.Equal(b.T, "end on the "+name+" host", got.End, events.EndBranched)
			runtest.Equal(b.T, "branch", got.Session, session.BranchOf(id, "t2"))
			c.branch(b, h, id, got.Session)
		default:
			runtest.WantError(b.T, "ran", err, nil)
			runtest.Equal(b.T, "end on the "+name+" host", got.End, events.EndFinished)
			runtest.Equal(b.T, "text", got.Text, "t2/0/model")
		}
		_, err = h.Run(b.Ctx, id, harness.TurnRequest("t2", "something else"))
		runtest.WantError(b.T, "the same id with other input", err, api.ErrDifferent)
	}
	harness.VerifyHistory(b.T, b.Bus, id)
}

// branch checks that t2 has run in its branch, with the state of the session before t1.
func (c *policyCase) branch(b *harness.System, h *session.Host, id, branch events.SessionID) {
	b.T.Helper()
	got, err := h.Await(b.Ctx, branch, "t2")
	runtest.WantError(b.T, "await in the branch", err, nil)
	runtest.Equal(b.T, "text", got.Text, "t2/0/model")
	runtest.EqualLists(b.T, "messages of the branch", b.Messages(branch), []string{"user t0", "assistant t0/0/model", "user t2", "assistant t2/0/model"})
	runtest.EqualLists(b.T, "history of the branch", turnLines(b, branch), []string{"requested t2", "started t2 1", "completed t2 finished"})
	s := b.StateOf(branch)
	runtest.Equal(b.T, "forked from", s.Forked.Session, id)
	runtest.Equal(b.T, "label", s.Labels["of"], "talk")
	runtest.Equal(b.T, "options", s.Options["memory"], `{"n":1}`)
	harness.VerifyHistory(b.T, b.Bus, branch)
}

// TestPolicyRejectRace has clients submit at once: exactly one turn runs, and the others are refused because of
// it.
func TestPolicyRejectRace(t *testing.T) {
	t.Parallel()
	k := &blockingModel{}
	b, id, _ := setupConversation(t, k, 2)
	refused := make(chan *api.TurnRejectedError, 4)
	var ran atomic.Pointer[events.TurnID]
	var wait sync.WaitGroup
	begin := make(chan struct{})
	for i := range 4 {
		h, turn := b.OtherHost(), events.TurnID(fmt.Sprintf("race%d", i))
		wait.Go(func() {
			<-begin
			_, err := h.Run(b.Ctx, id, harness.TurnWhenBusy(turn, api.WhenBusyReject))
			var rejected *api.TurnRejectedError
			if errors.As(err, &rejected) {
				refused <- rejected
				return
			}
			runtest.WantError(t, "run", err, nil)
			runtest.Equal(t, "another one ran", ran.Swap(&turn), nil)
		})
	}
	close(begin)
	var list []*api.TurnRejectedError
	for range 3 {
		list = append(list, harness.Receive(b, "who is refused", refused))
	}
	close(k.goOn)
	wait.Wait()
	winner := *ran.Load()
	runtest.Equal(t, "end", b.AwaitTurn(id, winner).End, events.EndFinished)
	for _, rejected := range list {
		runtest.Equal(t, "by", rejected.By, winner)
		runtest.Equal(t, "end of "+string(rejected.Turn), b.AwaitTurn(id, rejected.Turn).End, events.EndRejected)
	}
	runtest.EqualLists(t, "messages", b.Messages(id)[2:], []string{"user " + string(winner), "assistant " + string(winner) + "/0/model"})
	harness.VerifyHistory(t, b.Bus, id)
}

// TestPolicyRejectTwo has two clients submit while a turn runs: both are refused, in the history.
func TestPolicyRejectTwo(t *testing.T) {
	t.Parallel()
	k := &blockingModel{}
	b, id, _ := setupConversation(t, k, 2)
	k.awaitStart(b, id)
	var wait sync.WaitGroup
	for _, turn := range []events.TurnID{"t2", "t3"} {
		h := b.OtherHost()
		wait.Go(func() {
			_, err := h.Run(b.Ctx, id, harness.TurnWhenBusy(turn, api.WhenBusyReject))
			runtest.WantError(t, "refused", err, api.ErrTurnRunning)
		})
	}
	wait.Wait()
	k.frees(b, id)
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
	for _, turn := range []events.TurnID{"t2", "t3"} {
		record := b.AwaitTurn(id, turn)
		runtest.Equal(t, "end of "+string(turn), record.End, events.EndRejected)
		runtest.Equal(t, "by", record.By, "t1")
	}
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user t0", "assistant t0/0/model", "user t1", "assistant t1/0/model"})
}

// TestPolicyTooLate has the running turn end before it could take a message as an input: the message runs as a
// turn of its own.
func TestPolicyTooLate(t *testing.T) {
	t.Parallel()
	k := &blockingModel{}
	b, id, _ := setupConversation(t, k, 2)
	k.awaitStart(b, id)
	_, err := b.Submit(b.Ctx, id, harness.TurnWhenBusy("t2", api.WhenBusyInject))
	runtest.WantError(t, "submit", err, nil)
	b.AwaitState(id, "t2", func(s *projector.State) bool { return hasTurn(b, s, "t2") })
	b.CancelTurn(id, "t1", api.CancelRequest{}, api.CancelRequested)
	got, err := b.Await(b.Ctx, id, "t2")
	runtest.WantError(t, "await", err, nil)
	runtest.Equal(t, "end", got.End, events.EndFinished)
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user t0", "assistant t0/0/model", "user t1", "user t2", "assistant t2/0/model"})
}

// TestPolicyStream reads the events of turns that are diverted, and of the one that takes a message as an input.
func TestPolicyStream(t *testing.T) {
	t.Parallel()
	for _, busy := range []api.WhenBusy{api.WhenBusyReject, api.WhenBusyInject, api.WhenBusyBranch} {
		t.Run(string(busy), func(t *testing.T) {
			t.Parallel()
			k := &blockingModel{}
			b, id, _ := setupConversation(t, k, 1)
			streams := make(map[events.TurnID][]api.SessionEvent)
			var mu sync.Mutex
			var wait sync.WaitGroup
			follow := func(req api.TurnRequest) {
				h := b.OtherHost()
				_, list, err := h.StartTurnStream(b.Ctx, id, req)
				runtest.WantError(t, "start", err, nil)
				wait.Go(func() {
					for e, err := range list {
						runtest.WantError(t, "stream", err, nil)
						mu.Lock()
						streams[req.ID] = append(streams[req.ID], e)
						mu.Unlock()
					}
				})
			}
			follow(harness.TurnRequest("t1", "t1"))
			b.AwaitState(id, "t1", func(s *projector.State) bool { return s.Turn() != nil && s.Turn().ID == "t1" })
			follow(harness.TurnWhenBusy("t2", busy))
			b.AwaitState(id, "t2", func(s *projector.State) bool { return hasTurn(b, s, "t2") })
			k.frees(b, id)
			wait.Wait()
			end := map[api.WhenBusy]api.TurnOutcome{
				api.WhenBusyReject: {Type: api.OutcomeDiverted, Reason: events.EndRejected, By: "t1"},
				api.WhenBusyInject: {Type: api.OutcomeDiverted, Reason: events.EndInjected, By: "t1"},
				api.WhenBusyBranch: {Type: api.OutcomeDiverted, Reason: events.EndBranched, By: "t1", Session: session.BranchOf(id, "t2")},
			}[busy]
			got := streams["t2"]
			runtest.Equal(t, "events of t2", len(got), 2)
			runtest.Equal(t, "outcome", got[0].Type == api.EventTurnOutcome && *got[0].TurnOutcome == end, true)
			runtest.Equal(t, "done", got[1].Type, api.EventDone)
			var accepted []string
			for _, e := range streams["t1"] {
				for _, in := range e.Inputs {
					accepted = append(accepted, fmt.Sprintf("%s %s %s", in.ID, in.Message.Parts[0].Text, e.Checkpoint))
				}
			}
			if busy == api.WhenBusyInject {
				runtest.EqualLists(t, "taken in", accepted, []string{"t2 t2 before_completion"})
			} else {
				runtest.EqualLists(t, "taken in", accepted, nil)
			}
			assembled, err := b.AssembledTurn(b.Ctx, id, "t2")
			runtest.WantError(t, "assemble", err, nil)
			runtest.Equal(t, "assembled outcome", assembled.Outcome, end)
			assembled, err = b.AssembledTurn(b.Ctx, id, "t1")
			runtest.WantError(t, "assemble t1", err, nil)
			runtest.Equal(t, "output of t1", strings.HasPrefix(assembled.Output.RawText, "t1/"), true)
		})
	}
}
