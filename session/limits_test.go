package session_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/internal/check"
	"github.com/lash-go/lash/session/task"
	"github.com/lash-go/lash/session/turn"
)

// filler fills a session with one sort of content up to its limit, with the largest values, and then adds one more.
type filler struct {
	list func() []events.Event
	more func(b *bundle) error
}

func longID(most, i int) string { return fmt.Sprintf("%s%05d", strings.Repeat("k", most-5), i) }

func longText(n int) string { return strings.Repeat("x", n) }

func longParts(n int) []events.Part { return []events.Part{{Kind: events.PartText, Text: longText(n)}} }

// The text length of each input below: all of them together fill the limit of waiting bytes.
const inputText = check.MaxWaitingBytes/(session.MostQueued+session.MaxInputs) - 512

var fillers = map[string]filler{
	"tasks": {func() (list []events.Event) {
		for i := range task.MaxLive {
			id := events.TaskID(longID(events.MaxTaskID, i))
			list = append(list, events.Of("", &events.TaskRegistered{
				Task: id, Of: events.TaskSubagent, Producer: longText(events.MaxIDBytes), Child: events.SessionID(longID(64, i)), Parent: id,
				Cancel: events.CancelAbortLocal, Close: events.CloseTransfer, Restart: events.RestartAlways,
				Runner: longText(events.MaxIDBytes), Args: []byte(longText(task.MaxLiveArgs / task.MaxLive)), Worker: events.WorkerID(longID(64, i)),
			}), events.Of("", &events.TaskProgressed{Task: id, Message: longText(events.MaxTaskText)}))
		}
		return list
	}, func(b *bundle) error {
		_, err := b.Host.RegisterTask(b.T.Context(), sid, api.TaskRequest{ID: "more", Runner: "r"})
		return err
	}},
	"monitors": {func() (list []events.Event) {
		for i := range task.MaxMonitors {
			id := events.MonitorID(longID(events.MaxMonitorID, i))
			wake := events.InputID("w" + longID(63, i))
			list = append(list,
				events.Of("", &events.MonitorRegistered{Spec: events.MonitorSpec{ID: id, Command: longText(events.MaxMonitorSpecBytes), ArmOn: events.ArmSessionStart}}),
				events.Of("", &events.InputInjected{Input: wake, Role: events.RoleUser, Parts: longParts(inputText)}),
				events.Of("", &events.MonitorReported{Monitor: id, Lines: []events.MonitorLine{{Sequence: int64(i + 1), Text: longText(2000), Wake: wake}}}),
			)
			if i > 0 { // the first is armed, and no poll has started it
				list = append(list, events.Of("", &events.TaskRegistered{Task: events.TaskOf(id), Of: events.TaskMonitor, Runner: task.MonitorRunner, Cancel: events.CancelAbortLocal}))
			}
		}
		return list
	}, func(b *bundle) error {
		return b.Host.RegisterMonitor(b.T.Context(), sid, events.MonitorSpec{ID: "more", Command: "true"})
	}},
	"scheduled": {func() (list []events.Event) {
		for i := range session.MostQueued {
			list = append(list, events.Of(events.TurnID(longID(64, i)), &events.TurnScheduled{
				At: events.MillisOf(soon), Input: events.TurnInput{Parts: longParts(inputText)}, Callers: []string{longText(64)},
			}))
		}
		return list
	}, func(b *bundle) error {
		_, err := b.Host.SubmitAt(b.T.Context(), sid, soon, ask("more", "go"))
		return err
	}},
	"inputs": {func() (list []events.Event) {
		for i := range session.MaxInputs {
			list = append(list, events.Of("", &events.InputInjected{Input: events.InputID(longID(64, i)), Role: events.RoleUser, Parts: longParts(inputText)}))
		}
		return list
	}, func(b *bundle) error {
		_, err := b.Host.Inject(b.T.Context(), sid, api.InjectRequest{Parts: longParts(1)})
		return err
	}},
	"nodes": {func() (list []events.Event) { // the overhead of their parts is larger than their texts
		for i := range 40 {
			n := events.NewNode{ID: events.NodeID(longID(events.MaxIDBytes, i)), Kind: events.NodeMessage, Message: events.Message{Role: events.RoleUser}}
			for range 12_000 / (1 + i%2) {
				n.Message.Parts = append(n.Message.Parts, longParts(1+i%2*25)...)
			}
			list = append(list, events.Of("", &events.GraphAppended{Nodes: []events.NewNode{n}}))
		}
		return list
	}, nil},
	"plugins": {func() (list []events.Event) {
		for i := range 40 {
			list = append(list, events.Of("", &events.PluginStateSaved{Plugin: fmt.Sprint("p", i), Version: "1", Revision: 1, State: []byte(longText(blob.InlineBytes))}))
		}
		return list
	}, nil},
}

// fill appends events in commits of the largest size.
func (b *bundle) fill(list []events.Event) {
	b.T.Helper()
	at, err := b.Bus.Log().Last(b.T.Context(), sid)
	runtest.NoError(b.T, err)
	for len(list) > 0 {
		n, size := 0, 0
		for n < len(list) && n < 4000 {
			data, err := events.EncodePayload(list[n].Payload)
			runtest.NoError(b.T, err)
			if size += len(data) + 128; size > events.MaxCommitBytes-1024 {
				break
			}
			n++
		}
		c := &events.Commit{
			ID: events.CommitID(fmt.Sprint("fill", at)), Session: sid, At: events.MillisOf(time.Now()),
			Actor: events.Actor{Kind: events.ActorNode, ID: "w1"}, Events: list[:n],
		}
		if at, err = b.Bus.Log().Append(b.T.Context(), c, at); err != nil {
			b.T.Fatal(err)
		}
		list = list[n:]
	}
}

// TestLongFullSession fills sessions up to their limits with the largest values. A full session refuses more. It can be
// forked, closed in one commit, snapshotted, archived, restored and erased.
func TestLongFullSession(t *testing.T) {
	t.Parallel()
	cases := map[string][]string{"all": {"monitors", "tasks", "inputs", "scheduled", "nodes", "plugins"}}
	for name := range fillers {
		cases[name] = []string{name}
	}
	for name, sorts := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.Host = b.another(session.MostQueued)
			for _, sort := range sorts {
				list := fillers[sort].list()
				if name == "all" {
					list = list[:len(list)-b.fewer(sort)]
				}
				b.fill(list)
				b.full(sort)
			}
			b.throughLife()
		})
	}
}

// fewer is the number of events of a sort that do not fit because of the other sorts.
func (b *bundle) fewer(sort string) int {
	switch sort {
	case "tasks": // two events each; the tasks of monitors have their own
		return 2 * (task.MaxMonitors - 1)
	case "inputs":
		return task.MaxMonitors
	}
	return 0
}

func (b *bundle) full(sort string) {
	b.T.Helper()
	more := fillers[sort].more
	if more == nil {
		return
	}
	_, limited := errors.AsType[*api.LimitError](more(b))
	if err := more(b); !limited && !errors.Is(err, events.ErrTooLarge) {
		b.T.Errorf("one more of %s: got %v, want its limit", sort, err)
	}
}

// throughLife forks the session, and then closes, archives, restores and erases it.
func (b *bundle) throughLife() {
	b.T.Helper()
	ctx, t := b.T.Context(), b.T
	before := b.State()
	fork, err := b.Host.CreateFrom(ctx, sid, api.CreateRequest{ID: "fork", Start: api.StartCurrent, Plugins: api.PluginsFork})
	if err != nil {
		t.Errorf("fork: %v", err)
	} else if s, err := b.Host.State(ctx, fork.Session); err != nil || s.Status != projector.StatusOpen || s.Leaf != before.Leaf || len(s.Plugins) != len(before.Plugins) {
		t.Errorf("fork: got %v, leaf %s, %d plugins, %v, want it open at %s with %d", s.Status, s.Leaf, len(s.Plugins), err, before.Leaf, len(before.Plugins))
	}
	if digest, err := follow.Save(ctx, b.Bus, b.State()); err != nil || digest == "" {
		t.Errorf("snapshot: got %q, %v, want one", digest, err)
	}
	runtest.WantError(t, "close with a long reason", b.Host.CloseSession(ctx, sid, longText(events.MaxReasonBytes+1)), events.ErrTooLarge)
	if err := b.Host.CloseSession(ctx, sid, longText(events.MaxReasonBytes)); err != nil {
		t.Fatalf("close: %v", err)
	}
	closed := b.State()
	if closed.Seq != before.Seq+1 || len(task.Live(closed)) > 0 || len(closed.Scheduled) > 0 || closed.Status != projector.StatusClosed {
		t.Errorf("closed: got %d commits, %d live tasks, %d scheduled", closed.Seq-before.Seq, len(task.Live(closed)), len(closed.Scheduled))
	}
	b.cold()
	b.fill([]events.Event{events.Of("", &events.PluginStateSaved{Plugin: "late", Version: "1", Revision: 1})}) // this commit restores the session from the archive
	b.cold()
	_, err = b.Host.Erase(ctx, sid, longText(events.MaxReasonBytes))
	runtest.WantError(t, "erase", err, nil)
	_, err = b.Host.State(ctx, sid)
	runtest.WantError(t, "erased", err, events.ErrNoSession)
}

// cold archives the session, and reads it.
func (b *bundle) cold() {
	b.T.Helper()
	if done, err := follow.NewArchiver(b.Bus, follow.ArchiverConfig{}).Archive(b.T.Context(), sid); !done || err != nil {
		b.T.Errorf("archive: got %v, %v, want it cold", done, err)
	}
	last := b.State().Seq
	n := events.Seq(0)
	for _, err := range b.Bus.Log().Read(b.T.Context(), sid, 1) {
		if n++; err != nil {
			b.T.Fatal(err)
		}
	}
	if n != last {
		b.T.Errorf("cold: got %d commits, want %d", n, last)
	}
}

// TestWaitingCounts queues inputs whose size is not in their texts. The limit counts their full size.
func TestWaitingCounts(t *testing.T) {
	t.Parallel()
	var small []events.Part
	for range 12_000 {
		small = append(small, longParts(1)...)
	}
	for name, input := range map[string]events.TurnInput{
		"parts":     {Parts: small},
		"options":   {Parts: longParts(1), Options: []byte(`"` + longText(200_000) + `"`)},
		"extension": {Parts: longParts(1), Extension: events.Extension{Type: "e", Body: []byte(`"` + longText(200_000) + `"`)}},
		"plugins":   {Parts: longParts(1), Plugins: map[string]string{"p": `"` + longText(200_000) + `"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			var err error
			size := 0
			for i := 0; err == nil; i++ {
				if size > check.MaxWaitingBytes {
					t.Fatalf("got %d bytes accepted, want at most %d", size, check.MaxWaitingBytes)
				}
				data, _ := events.EncodePayload(&input)
				size += len(data)
				_, err = b.Host.Submit(t.Context(), sid, api.TurnRequest{ID: events.TurnID(fmt.Sprint("t", i)), Input: input})
			}
			if limit, ok := errors.AsType[*api.LimitError](err); !ok || limit.Limit != check.MaxWaitingBytes {
				t.Errorf("got %v, want the limit of %d bytes", err, check.MaxWaitingBytes)
			}
		})
	}
}

// TestReasons checks the limits of reasons and other texts that callers send with a start or an end.
func TestReasons(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, before := t.Context(), b.State()
	for field, do := range map[string]func(text string) error{
		"reason of a cancel": func(text string) error {
			_, _, err := b.Host.Cancel(ctx, sid, "t1", api.CancelRequest{Reason: text})
			return err
		},
		"origin of a cancel": func(text string) error {
			_, _, err := b.Host.Cancel(ctx, sid, "t1", api.CancelRequest{Origin: text})
			return err
		},
		"reason of an erase": func(text string) error { _, err := b.Host.Erase(ctx, sid, text); return err },
		"reason of a redaction": func(text string) error {
			_, err := b.Host.Redact(ctx, sid, []string{"graph.appended"}, text)
			return err
		},
		"reason of a close": func(text string) error { return b.Host.CloseSession(ctx, sid, text) },
		"reason of a frame": func(text string) error {
			_, err := b.Host.OpenFrame(ctx, sid, api.FrameRequest{Frame: "f", Reason: text})
			return err
		},
	} {
		want, _, _ := strings.Cut(field, " ")
		for text, class := range map[string]error{longText(events.MaxReasonBytes + 1): events.ErrTooLarge, "caf\xe9": events.ErrInvalid} {
			if bad, ok := errors.AsType[*events.FieldError](do(text)); !ok || bad.Field != want || !errors.Is(bad, class) {
				t.Errorf("%s of %d bytes: got %v, want the field %s refused: %v", field, len(text), bad, want, class)
			}
		}
	}
	_, err := session.New(session.Config{Bus: b.Bus, Actor: "caf\xe9", Plugins: session.NoPlugins()})
	runtest.WantError(t, "actor", err, events.ErrInvalid)
	b.unchanged(before, "refused")
}

// TestLongCancelAllOfCalls cancels the largest number of live tasks at once, each of which runs a call of the turn.
func TestLongCancelAllOfCalls(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.running(turn.MaxCalls)
	pended := &events.ToolPended{}
	var list []events.Event
	for i := range int64(turn.MaxCalls) {
		pended.Calls = append(pended.Calls, i)
		list = append(list, events.Of("", &events.TaskRegistered{Task: task.CallTask(sid, turn.ToolEffect("t1", 0, i)), Of: events.TaskTool, Runner: task.ToolRunner}))
	}
	b.Append("t1", pended)
	b.fill(list)
	ended, err := b.Host.CancelTasks(t.Context(), sid, nil)
	if s := b.State(); err != nil || len(ended) != task.MaxLive || len(task.Live(s)) != 0 || len(s.Turn().Resolved) != turn.MaxCalls {
		t.Errorf("got %d ended, %v, %d live, %d results, want all ended with a result", len(ended), err, len(task.Live(s)), len(s.Turn().Resolved))
	}
}

// TestForkOfResults forks a session whose newest message has the largest number of results, with the longest ids.
func TestForkOfResults(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.Host.Submit(t.Context(), sid, ask("t1", "go"))
	runtest.NoError(t, err)
	prompt, err := b.State().Prompt()
	runtest.NoError(t, err)
	reply := &events.ModelReplied{Prompt: prompt.Ref, Stop: events.StopToolUse}
	part := events.Part{Kind: events.PartToolCall, Call: "c", Tool: "t"}
	_, one := turn.Calls([]events.Part{part})
	part.Call = events.CallID(longText(1 + turn.MaxCallsBytes/turn.MaxCalls - one))
	for range turn.MaxCalls {
		reply.Parts = append(reply.Parts, part)
	}
	if n, size := turn.Calls(reply.Parts); n != turn.MaxCalls || size > turn.MaxCallsBytes || size < turn.MaxCallsBytes-turn.MaxCalls {
		t.Fatalf("got %d calls of %d bytes, want as much as may be", n, size)
	}
	b.Append("t1", &events.TurnStarted{Attempt: 1, Worker: "w1"}, reply)
	var list []events.Event
	for i := range int64(turn.MaxCalls) {
		list = append(list, events.Of("t1", &events.ToolReturned{Results: []events.ToolResult{{Call: i, Outcome: events.OutcomeCancelled, Text: longText(4096) + fmt.Sprint(i)}}}))
	}
	b.fill(append(list, events.Of("t1", &events.TurnCompleted{End: events.EndCancelled})))
	from := b.State()
	id, err := b.Host.Fork(t.Context(), sid, api.CreateRequest{})
	runtest.NoError(t, err)
	if s, err := b.Host.State(t.Context(), id); err != nil || s.Leaf != from.Leaf || s.Status != projector.StatusOpen {
		t.Errorf("fork: got leaf %s, %s, %v, want %s", s.Leaf, s.Status, err, from.Leaf)
	}
}
