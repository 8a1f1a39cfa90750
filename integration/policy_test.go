package integration

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
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// talker answers every model call with the name of its effect. A turn t1, and
// those of a race, wait first until they may go on, or t1 calls a tool whose
// result comes from outside.
type talker struct {
	goOn  chan struct{} // closed: they may
	parks bool
}

func (k *talker) answer(ctx context.Context, req llm.Request) (scripted.Answer, error) {
	parts := []events.Part{text(string(req.Effect))}
	if req.Effect == "t1/0/model" || strings.HasPrefix(string(req.Effect), "race") {
		if k.parks {
			parts = []events.Part{call("k", "later", "{}")}
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

// setupTalk has a session with a finished turn t0, and that many workers.
func setupTalk(t *testing.T, k *talker, nodes int) (b *bundle, id events.SessionID, kill func()) {
	t.Helper()
	k.goOn = make(chan struct{})
	b = setupIdle(t, slices.Repeat([]step{k.answer}, 100)...)
	plugin.AddTool(b.tools, plugin.Tool{Name: "later", Effects: events.EffectsNone}, func(_ context.Context, c plugin.Call, _ struct{}) (plugin.Result, error) {
		c.CompletionKey()
		return plugin.Result{Pending: true}, nil
	})
	var kills []func()
	for range nodes {
		kills = append(kills, b.work(bustest.Open(t, b.server)))
	}
	id = b.open(api.CreateRequest{Labels: map[string]string{"of": "talk"}, Options: map[string]string{"memory": `{"n":1}`}})
	b.run(id, "t0", text("t0"))
	return b, id, func() {
		for _, kill := range kills {
			kill()
		}
	}
}

// begins has t1 run, and the model asked, or wait for a result from outside.
func (k *talker) begins(b *bundle, id events.SessionID) {
	b.t.Helper()
	b.submit(id, "t1", text("t1"))
	b.await(id, "t1", func(s *projector.State) bool {
		t := s.Turn()
		return t != nil && t.ID == "t1" && (!k.parks || len(t.Calls) == 1 && t.Calls[0].Pended)
	})
	if k.parks {
		b.unqueued(id)
	}
}

// strands has t1 run under a message that is gone, and a worker that is dead.
func (k *talker) strands(b *bundle, id events.SessionID) {
	b.t.Helper()
	last := b.last(id)
	_, err := b.bus.Log().Append(b.ctx, &events.Commit{
		ID: events.CommitID(ulid.Make().String()), Session: id, At: 1, Actor: events.Actor{Kind: events.ActorNode, ID: "dead"},
		Events: []events.Event{
			events.Of("t1", &events.TurnRequested{Input: asksTurn("t1", "t1").Input}),
			events.Of("t1", &events.TurnStarted{Attempt: 1, Worker: "dead"}),
		},
	}, last)
	must(b.t, "append", err, nil)
}

// frees lets t1 end.
func (k *talker) frees(b *bundle, id events.SessionID) {
	b.t.Helper()
	if !k.parks {
		close(k.goOn)
		return
	}
	must(b.t, "resolve", b.ResolveTool(b.ctx, id, theEffect, events.ToolResult{Text: "done"}), nil)
}

// asksBusy is a request for a turn that says its own name, with a policy.
func asksBusy(turn events.TurnID, busy api.WhenBusy) api.TurnRequest {
	req := asksTurn(turn, string(turn))
	req.WhenBusy = busy
	return req
}

// turnLines are what a history says of turns, those of t0 left out.
func turnLines(b *bundle, id events.SessionID) []string {
	b.t.Helper()
	list := []string{}
	for _, e := range b.history(id) {
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

// TestPolicies has a turn t2 come while the session is idle, while t1 runs,
// while its worker is dead and its message gone, while it is parked, and while
// t3 waits besides; with one worker, which has the session already, and with two.
func TestPolicies(t *testing.T) {
	t.Parallel()
	for meets, cases := range policyCases {
		for _, c := range cases {
			for _, nodes := range []int{1, 2} {
				t.Run(fmt.Sprintf("%s_%s_%d", meets, c.busy, nodes), func(t *testing.T) {
					t.Parallel()
					k := &talker{parks: meets == "parked"}
					b, id, _ := setupTalk(t, k, nodes)
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
						k.begins(b, id)
					}
					if meets == "waiting" {
						b.submit(id, "t3", text("t3"))
						b.await(id, "t3", func(s *projector.State) bool { return len(s.Queue) == 1 })
					}
					seen := len(turnLines(b, id))
					_, err := b.Submit(b.ctx, id, asksBusy("t2", c.busy))
					must(t, "submit", err, nil)
					b.await(id, "t2 in the history", func(s *projector.State) bool { return knows(b, s, "t2") })
					if free {
						k.frees(b, id)
					}
					b.await(id, "the end", func(s *projector.State) bool { return s.Idle() })
					c.check(b, id, seen)
				})
			}
		}
	}
}

// knows reports whether a turn is in the state. One that branches has ended here first.
func knows(b *bundle, s *projector.State, id events.TurnID) bool {
	b.t.Helper()
	record, err := s.Record(id)
	must(b.t, "record", err, nil)
	known := record != nil || s.Turn() != nil && s.Turn().ID == id
	for _, q := range s.Queue {
		known = known || q.ID == id && q.Busy != events.BusyBranch
	}
	return known
}

// check holds the session, and what clients are told of t2, against the case.
func (c *policyCase) check(b *bundle, id events.SessionID, seen int) {
	b.t.Helper()
	equalLists(b.t, "history", turnLines(b, id)[seen:], strings.Split(c.history, "|"))
	said := []string{"user t0", "assistant t0/0/model"}
	equalLists(b.t, "messages", b.messages(id), append(slices.Clone(said), strings.Split(c.messages, "|")...))
	for name, h := range map[string]*session.Host{"same": b.Host, "other": b.otherHost()} {
		got, err := h.Run(b.ctx, id, asksBusy("t2", c.busy)) // a retry attaches, whatever its policy
		switch {
		case strings.Contains(c.history, "diverted t2 rejected"):
			equal(b.t, "end on the "+name+" host", got.End, events.EndRejected)
			must(b.t, "rejected", err, api.ErrTurnRunning)
			var rejected *api.TurnRejectedError
			equal(b.t, "because of", errors.As(err, &rejected) && rejected.Turn == "t2" && rejected.By == "t1", true)
		case strings.Contains(c.history, "diverted t2 injected"):
			must(b.t, "injected", err, nil)
			equal(b.t, "end on the "+name+" host", got.End, events.EndInjected)
			equal(b.t, "taken in by", got.By, "t1")
		case strings.Contains(c.history, "diverted t2 branched"):
			must(b.t, "branched", err, nil)
			equal(b.t, "end on the "+name+" host", got.End, events.EndBranched)
			equal(b.t, "branch", got.Session, session.BranchOf(id, "t2"))
			c.branch(b, h, id, got.Session)
		default:
			must(b.t, "ran", err, nil)
			equal(b.t, "end on the "+name+" host", got.End, events.EndFinished)
			equal(b.t, "text", got.Text, "t2/0/model")
		}
		_, err = h.Run(b.ctx, id, asksTurn("t2", "something else"))
		must(b.t, "the same id with other input", err, api.ErrDifferent)
	}
	verified(b.t, b.bus, id)
}

// branch wants t2 to have run where it went: in this session as it was before t1.
func (c *policyCase) branch(b *bundle, h *session.Host, id, branch events.SessionID) {
	b.t.Helper()
	got, err := h.Await(b.ctx, branch, "t2")
	must(b.t, "await in the branch", err, nil)
	equal(b.t, "text", got.Text, "t2/0/model")
	equalLists(b.t, "messages of the branch", b.messages(branch), []string{"user t0", "assistant t0/0/model", "user t2", "assistant t2/0/model"})
	equalLists(b.t, "history of the branch", turnLines(b, branch), []string{"requested t2", "started t2 1", "completed t2 finished"})
	s := b.state(branch)
	equal(b.t, "forked from", s.Forked.Session, id)
	equal(b.t, "label", s.Labels["of"], "talk")
	equal(b.t, "options", s.Options["memory"], `{"n":1}`)
	verified(b.t, b.bus, branch)
}

// TestPolicyRejectRace has clients type at once: exactly one turn runs, the others are refused because of it.
func TestPolicyRejectRace(t *testing.T) {
	t.Parallel()
	k := &talker{}
	b, id, _ := setupTalk(t, k, 2)
	refused := make(chan *api.TurnRejectedError, 4)
	var ran atomic.Pointer[events.TurnID]
	var wait sync.WaitGroup
	begin := make(chan struct{})
	for i := range 4 {
		h, turn := b.otherHost(), events.TurnID(fmt.Sprintf("race%d", i))
		wait.Go(func() {
			<-begin
			_, err := h.Run(b.ctx, id, asksBusy(turn, api.WhenBusyReject))
			var rejected *api.TurnRejectedError
			if errors.As(err, &rejected) {
				refused <- rejected
				return
			}
			must(t, "run", err, nil)
			equal(t, "another one ran", ran.Swap(&turn), nil)
		})
	}
	close(begin)
	var list []*api.TurnRejectedError
	for range 3 {
		list = append(list, receive(b, "who is refused", refused))
	}
	close(k.goOn)
	wait.Wait()
	winner := *ran.Load()
	equal(t, "end", b.ended(id, winner).End, events.EndFinished)
	for _, rejected := range list {
		equal(t, "by", rejected.By, winner)
		equal(t, "end of "+string(rejected.Turn), b.ended(id, rejected.Turn).End, events.EndRejected)
	}
	equalLists(t, "messages", b.messages(id)[2:], []string{"user " + string(winner), "assistant " + string(winner) + "/0/model"})
	verified(t, b.bus, id)
}

// TestPolicyRejectTwo has two clients ask while a turn holds the session: both are refused, in the history.
func TestPolicyRejectTwo(t *testing.T) {
	t.Parallel()
	k := &talker{}
	b, id, _ := setupTalk(t, k, 2)
	k.begins(b, id)
	var wait sync.WaitGroup
	for _, turn := range []events.TurnID{"t2", "t3"} {
		h := b.otherHost()
		wait.Go(func() {
			_, err := h.Run(b.ctx, id, asksBusy(turn, api.WhenBusyReject))
			must(t, "refused", err, api.ErrTurnRunning)
		})
	}
	wait.Wait()
	k.frees(b, id)
	equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
	for _, turn := range []events.TurnID{"t2", "t3"} {
		record := b.ended(id, turn)
		equal(t, "end of "+string(turn), record.End, events.EndRejected)
		equal(t, "by", record.By, "t1")
	}
	equalLists(t, "messages", b.messages(id), []string{"user t0", "assistant t0/0/model", "user t1", "assistant t1/0/model"})
}

// TestPolicyTooLate has the running turn end before it could take a message in: that runs as a turn of its own.
func TestPolicyTooLate(t *testing.T) {
	t.Parallel()
	k := &talker{}
	b, id, _ := setupTalk(t, k, 2)
	k.begins(b, id)
	_, err := b.Submit(b.ctx, id, asksBusy("t2", api.WhenBusyInject))
	must(t, "submit", err, nil)
	b.await(id, "t2", func(s *projector.State) bool { return knows(b, s, "t2") })
	b.cancel(id, "t1", api.CancelRequest{}, api.CancelRequested)
	got, err := b.Await(b.ctx, id, "t2")
	must(t, "await", err, nil)
	equal(t, "end", got.End, events.EndFinished)
	equalLists(t, "messages", b.messages(id), []string{"user t0", "assistant t0/0/model", "user t1", "user t2", "assistant t2/0/model"})
}

// TestPolicyRefused asks for what is no policy, and for an injection that would lose part of the input.
func TestPolicyRefused(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	for name, req := range map[string]api.TurnRequest{
		"unknown":      {WhenBusy: "hurry"},
		"continue":     {WhenBusy: api.WhenBusyInject, Input: events.TurnInput{Continue: true}},
		"with_options": {WhenBusy: api.WhenBusyInject, Input: events.TurnInput{Parts: []events.Part{text("hi")}, Options: []byte(`{}`)}},
		"for_plugins":  {WhenBusy: api.WhenBusyInject, Input: events.TurnInput{Parts: []events.Part{text("hi")}, Plugins: map[string]string{"a": "{}"}}},
	} {
		_, err := b.Submit(b.ctx, id, req)
		must(t, name, err, events.ErrInvalid)
	}
	equal(t, "nothing is recorded", b.last(id), 1)
}

// TestPolicyStream gives the events of turns that are diverted, and of the one that takes a message in.
func TestPolicyStream(t *testing.T) {
	t.Parallel()
	for _, busy := range []api.WhenBusy{api.WhenBusyReject, api.WhenBusyInject, api.WhenBusyBranch} {
		t.Run(string(busy), func(t *testing.T) {
			t.Parallel()
			k := &talker{}
			b, id, _ := setupTalk(t, k, 1)
			streams := make(map[events.TurnID][]api.SessionEvent)
			var mu sync.Mutex
			var wait sync.WaitGroup
			follow := func(req api.TurnRequest) {
				h := b.otherHost()
				_, list, err := h.StartTurnStream(b.ctx, id, req)
				must(t, "start", err, nil)
				wait.Go(func() {
					for e, err := range list {
						must(t, "stream", err, nil)
						mu.Lock()
						streams[req.ID] = append(streams[req.ID], e)
						mu.Unlock()
					}
				})
			}
			follow(asksTurn("t1", "t1"))
			b.await(id, "t1", func(s *projector.State) bool { return s.Turn() != nil && s.Turn().ID == "t1" })
			follow(asksBusy("t2", busy))
			b.await(id, "t2", func(s *projector.State) bool { return knows(b, s, "t2") })
			k.frees(b, id)
			wait.Wait()
			end := map[api.WhenBusy]api.TurnOutcome{
				api.WhenBusyReject: {Type: api.OutcomeDiverted, Reason: events.EndRejected, By: "t1"},
				api.WhenBusyInject: {Type: api.OutcomeDiverted, Reason: events.EndInjected, By: "t1"},
				api.WhenBusyBranch: {Type: api.OutcomeDiverted, Reason: events.EndBranched, By: "t1", Session: session.BranchOf(id, "t2")},
			}[busy]
			got := streams["t2"]
			equal(t, "events of t2", len(got), 2)
			equal(t, "outcome", got[0].Type == api.EventTurnOutcome && *got[0].TurnOutcome == end, true)
			equal(t, "done", got[1].Type, api.EventDone)
			var taken []string
			for _, e := range streams["t1"] {
				for _, in := range e.Inputs {
					taken = append(taken, fmt.Sprintf("%s %s %s", in.ID, in.Message.Parts[0].Text, e.Checkpoint))
				}
			}
			if busy == api.WhenBusyInject {
				equalLists(t, "taken in", taken, []string{"t2 t2 before_completion"})
			} else {
				equalLists(t, "taken in", taken, nil)
			}
			whole, err := b.AssembledTurn(b.ctx, id, "t2")
			must(t, "assemble", err, nil)
			equal(t, "assembled outcome", whole.Outcome, end)
			whole, err = b.AssembledTurn(b.ctx, id, "t1")
			must(t, "assemble t1", err, nil)
			equal(t, "output of t1", strings.HasPrefix(whole.Output.RawText, "t1/"), true)
		})
	}
}
