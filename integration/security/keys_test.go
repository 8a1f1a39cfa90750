package security

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
)

// keyable makes a session in which every request of [keyedCases] appends.
func keyable(b *harness.System, id events.SessionID, running bool) {
	b.T.Helper()
	first := plugin.Say(events.RoleUser, "begin")
	b.Open(api.CreateRequest{ID: id, First: &first, Nodes: []api.AppendNode{{ID: "n1", Kind: events.NodePlugin, Type: "x"}, {ID: "n2", Kind: events.NodePlugin, Type: "x"}, {ID: "n3", Kind: events.NodePlugin, Type: "x"}}})
	for _, m := range []events.MonitorID{"m1", "m2", "m3"} {
		runtest.WantError(b.T, "monitor", b.StartMonitor(b.Ctx, id, events.MonitorSpec{ID: m, Command: "true"}), nil)
	}
	for _, k := range []events.TaskID{"k1", "k2", "k3"} {
		_, err := b.RegisterTask(b.Ctx, id, api.TaskRequest{ID: k})
		runtest.WantError(b.T, "task", err, nil)
	}
	for _, in := range []events.InputID{"i1", "i2", "i3"} {
		_, err := b.Inject(b.Ctx, id, api.InjectRequest{ID: in, Parts: []events.Part{harness.Text("x")}})
		runtest.WantError(b.T, "inject", err, nil)
	}
	appended(b, id, "", &events.MonitorReported{Monitor: "m1", Lines: []events.MonitorLine{{Sequence: 1, Text: "x"}}})
	if !running {
		return
	}
	b.StartTurn(id, "t1", harness.Text("go"))
	b.StartTurn(id, "t2", harness.Text("go"))
	prompt, err := b.StateOf(id).Prompt()
	runtest.WantError(b.T, "prompt", err, nil)
	reply := &events.ModelReplied{Prompt: prompt.Ref, Stop: events.StopToolUse}
	for range 4 {
		reply.Parts = append(reply.Parts, events.Part{Kind: events.PartToolCall, Call: "c", Tool: "t", Args: []byte("{}")})
	}
	appended(b, id, "t1", &events.TurnStarted{Attempt: 1, Worker: "w1"}, reply, &events.ToolApprovalAsked{Effect: "t1/0/0", Tool: "t"},
		&events.ToolApprovalAsked{Effect: "t1/0/1", Tool: "t"}, &events.ToolPended{Calls: []int64{2, 3}})
}

// appended appends events as a worker does.
func appended(b *harness.System, id events.SessionID, turn events.TurnID, list ...events.Payload) {
	b.T.Helper()
	b.ByHand(id)
	at := b.StateOf(id).Seq
	c := &events.Commit{ID: events.CommitID(fmt.Sprint(id, "-", at)), Session: id, At: events.MillisOf(time.Now()), Actor: events.Actor{Kind: events.ActorNode, ID: "w1"}}
	for _, p := range list {
		c.Events = append(c.Events, events.Of(turn, p))
	}
	_, err := b.Bus.Log().Append(b.Ctx, c, at)
	runtest.WantError(b.T, "append", err, nil)
}

// keyedSend sends a request as one of two callers, with the session's id as its key, and returns the response and
// the code of the error.
type keyedSend func(caller int, k keyedCase, id events.SessionID, n int) (answer, code string)

// TestLongKeyBelongsToItsRequest uses the key of every operation again. The same request has the same response. Every
// other operation, by either caller, with every target and body, is refused. None of them appends anything.
func TestLongKeyBelongsToItsRequest(t *testing.T) {
	t.Parallel()
	transports := map[string]func(t *testing.T) (*harness.System, keyedSend){"host": hostWithKeys, "nats": natsWithKeys, "http": httpWithKeys}
	for name, open := range transports {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, ask := open(t)
			b.Open(api.CreateRequest{ID: "base"})
			all := slices.DeleteFunc(keyedCases(), func(k keyedCase) bool { return name == "http" && k.http == nil })
			for _, k := range all {
				if slices.Contains([]operation.Name{operation.Compact.Name, operation.ApplyExtension.Name, operation.Complete.Name, operation.AddToolSource.Name, operation.RemoveToolSource.Name}, k.op) {
					continue // appends with a compactor, a protocol, a model or a source only, see TestServiceCopiesAtOnce
				}
				id, before := events.SessionID(k.op), events.Seq(0)
				if !k.makes() {
					keyable(b, id, k.running)
					before = b.LastSeq(id)
				}
				first, code := ask(0, k, id, 0)
				runtest.Equal(t, string(k.op), code, "")
				if b.LastSeq(id) == before {
					t.Errorf("%s: got no commit", k.op)
				}
				before = b.LastSeq(id)
				again, code := ask(0, k, id, 0)
				runtest.Equal(t, string(k.op)+" again", code+" "+again, " "+first)
				for _, other := range all {
					for caller := range 2 {
						for n := range 3 {
							bare := k.op == operation.TakeFirstTurnInput.Name || k.op == operation.RefreshCatalog.Name || name == "http" && k.op == operation.TakeMonitorUpdates.Name // which has no body there
							same := other.op == k.op && caller == 0 && (n == 0 || bare)
							if _, code := ask(caller, other, id, n); !same && code != "different_content" {
								t.Errorf("%s, then %s, caller %d, body %d: got %q, want it refused", k.op, other.op, caller, n, code)
							}
						}
					}
				}
				runtest.Equal(t, "commits after "+string(k.op), b.LastSeq(id), before)
			}
		})
	}
}

// TestSmokeKeysOfAll compares the table with all operations that change anything.
func TestSmokeKeysOfAll(t *testing.T) {
	t.Parallel()
	var have, want []string
	for _, k := range keyedCases() {
		have = append(have, string(k.op))
	}
	for right, ops := range needs() {
		if right != api.RightRead {
			want = append(want, ops...)
		}
	}
	want = slices.DeleteFunc(want, func(op string) bool {
		return op == string(operation.StoreBlob.Name) || op == string(operation.InvokeAction.Name)
	})
	want = append(want, string(forking))
	slices.Sort(have)
	slices.Sort(want)
	runtest.EqualLists(t, "operations", have, want)
}

// hostWithKeys alternates between two hosts, so that a repeat reaches the other one.
func hostWithKeys(t *testing.T) (*harness.System, keyedSend) {
	t.Helper()
	b := harness.StartIdle(t)
	hosts, requests := []*session.Host{b.Host, b.OtherHost()}, 0
	return b, func(caller int, k keyedCase, id events.SessionID, n int) (string, string) {
		ctx := api.WithRequestMeta(b.Ctx, api.RequestMeta{Actor: nth(caller, "one", "two"), Key: string(id)})
		requests++
		got, err := k.host(ctx, hosts[requests%2], id, n)
		if err != nil {
			code, _ := api.Code(err)
			return "", code
		}
		return fmt.Sprint(got), ""
	}
}

func natsWithKeys(t *testing.T) (*harness.System, keyedSend) {
	t.Helper()
	d := newNATSAPI(t, workers.Config{Scopes: map[string]api.Reach{"alice@acme": {Scope: api.ScopeAdmin}, "host@acme": {Scope: api.ScopeAdmin}}})
	return d.System, func(caller int, k keyedCase, id events.SessionID, n int) (string, string) {
		op, r := k.op, api.Request{Session: id, Key: string(id)}
		if k.makes() {
			op, r.Session = operation.Create.Name, ""
		}
		a := d.askRaw(nth(caller, "alice@acme", "host@acme"), op, r, k.nats(n))
		return fmt.Sprint(a.Seq, " ", string(a.Body)), a.Error.Code
	}
}

func httpWithKeys(t *testing.T) (*harness.System, keyedSend) {
	t.Helper()
	d := harness.StartIdle(t).ServeHTTP(httpapi.Config{})
	return d.System, func(caller int, k keyedCase, id events.SessionID, n int) (string, string) {
		req := k.http(n)
		if !k.makes() {
			req[1] = "/v1/sessions/" + string(id) + req[1]
		}
		a := d.Send(nth(caller, "admin", "root"), req[0], req[1], req[2], "Idempotency-Key", string(id))
		if a.Status >= 400 {
			return "", a.Field("code")
		}
		return fmt.Sprint(a.Status, a.Header.Get("Lash-Seq"), strings.TrimSpace(string(a.Body))), ""
	}
}

// TestKeyUsedAtOnce has two hosts handle requests with one key at the same time, of every pair of operations
// without a precondition: one is done, and the other refused.
func TestKeyUsedAtOnce(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	hosts := []*session.Host{b.Host, b.OtherHost()}
	cases := slices.DeleteFunc(keyedCases(), func(k keyedCase) bool {
		return !slices.Contains([]operation.Name{operation.Submit.Name, operation.SubmitAt.Name, operation.Inject.Name, operation.AppendNodes.Name, operation.OpenFrame.Name, operation.Grant.Name}, k.op)
	})
	for i, first := range cases {
		for _, second := range cases[:i] {
			id := events.SessionID(first.op + "-" + second.op)
			b.Open(api.CreateRequest{ID: id})
			before, errs := b.LastSeq(id), make([]error, 2)
			for _, h := range hosts { // both have its state at hand
				_, err := h.State(b.Ctx, id)
				runtest.WantError(t, "state", err, nil)
			}
			var deciding sync.WaitGroup
			for n, k := range []keyedCase{first, second} {
				deciding.Go(func() {
					_, errs[n] = k.host(api.WithRequestMeta(b.Ctx, api.RequestMeta{Actor: "one", Key: string(id)}), hosts[n], id, 0)
				})
			}
			deciding.Wait()
			if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs...), api.ErrDifferent) {
				t.Errorf("%s and %s: got %v, want one done and one refused", first.op, second.op, errs)
			}
			runtest.Equal(t, "commits of "+string(id), b.LastSeq(id), before+1)
		}
	}
}

// TestKeyOfOlderVersion repeats a request of an earlier version, which recorded its key in the cause only.
func TestKeyOfOlderVersion(t *testing.T) {
	t.Parallel()
	b, ask := hostWithKeys(t)
	keyable(b, "s1", false)
	at := b.StateOf("s1").Seq
	stopped := &events.Commit{
		ID: "c1", Session: "s1", At: 1, Actor: events.Actor{Kind: events.ActorClient, ID: "one"}, Cause: "stop monitor s1",
		Events: []events.Event{events.Of("", &events.TaskEnded{Task: "monitor-m1", State: events.TaskCancelled}), events.Of("", &events.MonitorEnded{Monitor: "m1", State: events.MonitorStopped})},
	}
	_, err := b.Bus.Log().Append(b.Ctx, stopped, at)
	runtest.WantError(t, "append", err, nil)
	stop := keyedCases()[slices.IndexFunc(keyedCases(), func(k keyedCase) bool { return k.op == operation.StopMonitor.Name })]
	_, code := ask(0, stop, "s1", 0)
	runtest.Equal(t, "again", code, "")
	runtest.Equal(t, "commits", b.LastSeq("s1"), at+1)
}

// TestKeyAfterTheTurn repeats requests to a turn after its end. The key finds its outcome. With another key the
// same answer to an approval is accepted as the same, and a result finds no turn.
func TestKeyAfterTheTurn(t *testing.T) {
	t.Parallel()
	b, ask := hostWithKeys(t)
	want := map[operation.Name]string{operation.Approve.Name: "", operation.ResolveTool.Name: "unknown_turn", operation.Cancel.Name: ""}
	for _, k := range keyedCases() {
		late, ok := want[k.op]
		if !ok {
			continue
		}
		id := events.SessionID(k.op)
		keyable(b, id, true)
		first, code := ask(0, k, id, 0)
		runtest.Equal(t, string(k.op), code, "")
		appended(b, id, "t1", &events.TurnCompleted{End: events.EndFailed, Issue: events.Issue{Code: "x"}})
		last := b.LastSeq(id)
		again, code := ask(0, k, id, 0)
		runtest.Equal(t, string(k.op)+" again", code+" "+again, " "+first)
		other, err := k.host(api.WithRequestMeta(b.Ctx, api.RequestMeta{Actor: "one", Key: "other"}), b.Host, id, 0)
		if err == nil && k.op != operation.Approve.Name { // which says nothing
			runtest.Equal(t, string(k.op)+" with another key", fmt.Sprint(other) == first, false)
		}
		code = ""
		if err != nil {
			code, _ = api.Code(err)
		}
		runtest.Equal(t, string(k.op)+" with another key", code, late)
		runtest.Equal(t, "commits after "+string(k.op), b.LastSeq(id), last)
	}
}
