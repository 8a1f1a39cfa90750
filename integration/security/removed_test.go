package security

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/cmd/lash-node/serve"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/archive"
	"github.com/lash-go/lash/session/client"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/plugin"
)

// removedText is in each part of the session from which it is removed.
const removedText = "n33dle-of-the-removed"

// removal is what takes texts of a session, or a caller's right to them, away.
type removal struct {
	do    func(w *removedWorld) // by a process that serves nobody
	codes []string              // of problems with which open streams may end
	gone  bool                  // requests that name the session have the status of those for an unknown one
	own   bool                  // it is of bob: a caller that reaches all sessions reads as before
}

func removals() map[string]removal {
	return map[string]removal{
		"redaction": {codes: []string{"cursor"}, do: func(w *removedWorld) {
			_, err := archive.Redact(w.Ctx, w.third.bus, w.id, events.RedactionRecord{At: 1, By: "ann", Reason: "asked to", What: w.named()}, nil)
			runtest.WantError(w.T, "redact", err, nil)
		}},
		"erasure": {codes: []string{"session_erased", "no_session"}, gone: true, do: func(w *removedWorld) {
			_, err := w.third.host.Erase(w.Ctx, w.id, "asked to")
			runtest.WantError(w.T, "erase", err, nil)
		}},
		"grant": {codes: []string{"no_session"}, gone: true, own: true, do: func(w *removedWorld) {
			runtest.WantError(w.T, "withdraw", w.third.host.Grant(w.Ctx, w.id, api.GrantRequest{To: "bob"}), nil)
		}},
	}
}

// removedWorld is a session of alice, which bob has a grant to read, and what serves it.
type removedWorld struct {
	*harness.System
	id     events.SessionID
	digest string // of a stored body
	last   string // sequence of the last commit
	served map[string]*harness.HTTP
	third  struct {
		bus  *bus.Bus
		host *session.Host
	}
}

// callers of a server that read the session. A client over NATS has the rights of its user, whoever asks it.
func (w *removedWorld) callers(served string) []string {
	if served == "client" {
		return []string{"reader"}
	}
	return []string{"bob", "reader"}
}

// overNATS serves HTTP from a client, as lash-replay ui does.
type overNATS struct{ *client.Client }

// SubmitTurn implements [operation.Host].
func (overNATS) SubmitTurn(context.Context, events.SessionID, api.TurnRequest) (api.SubmitResponse, error) {
	return api.SubmitResponse{}, api.ErrForbidden
}

// WatchTurn implements [operation.Host].
func (overNATS) WatchTurn(context.Context, events.SessionID, events.TurnID) (iter.Seq2[api.SessionEvent, error], error) {
	return nil, api.ErrForbidden
}

// RestoreSnapshot implements [operation.Host].
func (overNATS) RestoreSnapshot(context.Context, []byte, [][]byte) (*projector.State, error) {
	return nil, api.ErrForbidden
}

func newRemovedWorld(t *testing.T, server *busembed.Server, second *bus.Bus) *removedWorld {
	t.Helper()
	said := harness.Reply(harness.Text(removedText))
	w := &removedWorld{System: harness.StartWith(t, server, bustest.Open(t, server), harness.Reply(harness.Call("c1", "say", `{"text":"`+removedText+`"}`)), said), id: "s"}
	say := harness.PluginOf("say", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "say"}, func(_ context.Context, _ plugin.Call, in struct {
			Text string `json:"text"`
		},
		) (string, error) {
			return in.Text, nil
		})
	})
	other, _ := w.StartNodeOn(second, say)
	w.StartNode(say)
	w.third.bus = bustest.Open(t, w.Server)
	w.third.host = w.NewHost(w.third.bus)
	w.served = map[string]*harness.HTTP{
		"node":   w.ServeHTTP(httpapi.Config{Agents: serve.Agents, Redactions: w.Bus.Redactions}),
		"second": w.ServeHTTP(httpapi.Config{Agents: serve.Agents, Redactions: second.Redactions, Service: other.Host()}),
		"client": w.ServeHTTP(httpapi.Config{Agents: serve.Agents, Service: overNATS{harness.Dial(t, harness.OpenReader(t, bus.Config{Options: []nats.Option{w.Server.InProcess()}}))}}),
	}
	w.fill()
	return w
}

// fill creates the session, with the text in every part that can be redacted, and closes it.
func (w *removedWorld) fill() {
	w.ByHand(w.id)
	alice := func() context.Context { return api.WithRequestMeta(w.Ctx, api.RequestMeta{Actor: "alice"}) }
	_, err := w.Create(alice(), api.CreateRequest{ID: w.id})
	runtest.WantError(w.T, "create", err, nil)
	runtest.WantError(w.T, "grant", w.Grant(alice(), w.id, api.GrantRequest{To: "bob", Rights: []events.SessionRight{"read"}}), nil)
	w.RunTurn(w.id, "t1", harness.Text(removedText))
	_, err = w.AppendNodes(alice(), w.id, api.AppendNodesRequest{Nodes: []api.AppendNode{{Message: &events.Message{ID: "n1", Role: events.RoleUser, Parts: []events.Part{harness.Text(removedText)}}}}})
	runtest.WantError(w.T, "node", err, nil)
	ref, err := w.StoreBlob(alice(), w.id, []byte(removedText))
	runtest.WantError(w.T, "body", err, nil)
	_, err = w.RegisterTask(alice(), w.id, api.TaskRequest{ID: "k1", Producer: "me", Args: []byte(`"` + removedText + `"`)})
	runtest.WantError(w.T, "task", err, nil)
	_, err = w.EndOwnTask(alice(), w.id, "k1", events.TaskCompleted, removedText)
	runtest.WantError(w.T, "end of the task", err, nil)
	runtest.WantError(w.T, "close", w.CloseSession(alice(), w.id, "done"), nil)
	runtest.WantError(w.T, "project", follow.NewProjector(w.third.bus, nil).Project(w.Ctx, w.id), nil)
	w.digest, w.last = ref.Digest, fmt.Sprint(w.LastSeq(w.id))
}

// named are the ids of the events that have the text.
func (w *removedWorld) named() (list []string) {
	for e, err := range w.third.bus.Log().Read(w.Ctx, w.id, 1) {
		runtest.WantError(w.T, "read", err, nil)
		for i := range e.Commit.Events {
			data, err := events.EncodePayload(e.Commit.Events[i].Payload)
			runtest.WantError(w.T, "encode", err, nil)
			if bytes.Contains(data, []byte(removedText)) || e.Commit.Events[i].Kind == events.KindBodyStored {
				list = append(list, string(e.Commit.EventID(i)))
			}
		}
	}
	return list
}

// ask reads the whole answer of a request. Of the stream of a session's events, which goes on, it reads up to the last commit.
func (w *removedWorld) ask(d *harness.HTTP, r *http.Request) (status int, text string) {
	got, err := d.Client.Do(r)
	runtest.WantError(w.T, r.URL.Path, err, nil)
	defer func() { _ = got.Body.Close() }()
	if !strings.HasPrefix(got.Header.Get("Content-Type"), "text/event-stream") {
		data, err := io.ReadAll(got.Body)
		runtest.WantError(w.T, r.URL.Path, err, nil)
		return got.StatusCode, string(data)
	}
	for lines := harness.ScanMessages(got.Body); ; {
		m, err := harness.NextMessage(lines)
		text += m.Data
		if err != nil || m.ID == w.last {
			return got.StatusCode, text
		}
	}
}

// removedAnswer is what a caller is answered.
type removedAnswer struct {
	status int
	text   string
}

// askAll sends every read of the table of operations, and every reading tool of the MCP server, for a session.
func (w *removedWorld) askAll(name, token string, id events.SessionID) map[string]removedAnswer {
	w.T.Helper()
	d, all := w.served[name], make(map[string]removedAnswer)
	for _, op := range d.Doc.Operations() {
		if op.Right != "read" {
			continue
		}
		query := strings.ReplaceAll(harness.QueryOf(op.ID), "hello", removedText)
		path := strings.ReplaceAll(harness.PathOf(op.Path, string(id)), strings.Repeat("0f", 32), w.digest)
		status, text := w.ask(d, d.Request(token, op.Method, path+query, ""))
		all[op.ID] = removedAnswer{status, text}
	}
	message := func(method, params string) string {
		r := d.Request(token, http.MethodPost, "/v1/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params),
			"Content-Type", "application/json", "Accept", "application/json, text/event-stream")
		status, text := w.ask(d, r)
		runtest.Equal(w.T, "status of "+method, status, http.StatusOK)
		return text
	}
	var listed struct {
		Result struct {
			Tools []struct {
				Name        string
				Annotations struct{ ReadOnlyHint bool }
			}
		}
	}
	runtest.WantError(w.T, "tools", json.Unmarshal([]byte(message("tools/list", `{}`)), &listed), nil)
	for _, tool := range listed.Result.Tools {
		if !tool.Annotations.ReadOnlyHint {
			continue
		}
		var arguments map[string]any
		runtest.WantError(w.T, "arguments of "+tool.Name, json.Unmarshal([]byte(mcpCases()[tool.Name]), &arguments), nil)
		if _, ok := arguments["text"]; ok {
			arguments["text"] = removedText
		}
		if tool.Name != "list_sessions" {
			arguments["session"] = id
		}
		data, err := json.Marshal(map[string]any{"name": tool.Name, "arguments": arguments})
		runtest.WantError(w.T, "arguments", err, nil)
		all["mcp "+tool.Name] = removedAnswer{http.StatusOK, message("tools/call", string(data))}
	}
	all["mcp resource"] = removedAnswer{http.StatusOK, message("resources/read", fmt.Sprintf(`{"uri":"lash://sessions/%s"}`, id))}
	return all
}

// showText are the reads that show the text before it is removed: others return no texts of that session.
func (w *removedWorld) showText(name, token string) (list []string) {
	for op, a := range w.askAll(name, token, w.id) {
		if strings.Contains(a.text, removedText) {
			list = append(list, op)
		}
	}
	slices.Sort(list)
	return list
}

// shownOf are these reads, from what the operations say that they return. A client over NATS streams no turn by its id.
func shownOf(served string) []string {
	list := []string{"getBlob", "getOutput", "getTask", "getTasks", "getTurn", "getView", "mcp read_history", "mcp resource", "mcp search_history", "mcp wait_turn", "search", "watchEvents", "watchTurn"}
	if served == "client" {
		list = slices.DeleteFunc(list, func(op string) bool { return op == "watchTurn" })
	}
	return list
}

// fillCaches has everything read the session, from the log and from memory.
func (w *removedWorld) fillCaches() {
	w.T.Helper()
	for name := range w.served {
		for _, token := range w.callers(name) {
			runtest.EqualLists(w.T, "reads that show the text to "+token+", on "+name, w.showText(name, token), shownOf(name))
		}
		w.showText(name, "reader")
	}
}

// streams opens the events of the session everywhere, and reads them.
func (w *removedWorld) streams() map[string]*harness.Stream {
	list := make(map[string]*harness.Stream)
	for name, d := range w.served {
		list[name] = d.OpenStream(w.callers(name)[0], "/v1/sessions/"+string(w.id)+"/events")
		list[name].Until(func(m harness.Message) bool { return m.ID == w.last })
	}
	return list
}

// gone checks that nothing serves the text any more.
func (w *removedWorld) gone(r *removal) {
	w.T.Helper()
	for name := range w.served {
		for _, token := range w.callers(name) {
			if token == "reader" && r.own {
				runtest.EqualLists(w.T, "reads that show the text to others, on "+name, w.showText(name, token), shownOf(name))
				continue
			}
			unknown := w.askAll(name, token, "nosuch")
			for op, a := range w.askAll(name, token, w.id) {
				if strings.Contains(a.text, removedText) {
					w.T.Errorf("%s on %s for %s: got %.2000s, want nothing of the text", op, name, token, a.text)
				}
				if r.gone && a.status != unknown[op].status {
					w.T.Errorf("%s on %s for %s: got %d %.300s, want %d as for an unknown session", op, name, token, a.status, a.text, unknown[op].status)
				}
			}
		}
	}
}

// end checks how open streams end.
func (w *removedWorld) end(r *removal, streams map[string]*harness.Stream) {
	w.T.Helper()
	for name, s := range streams {
		if w.callers(name)[0] != "bob" && r.own {
			continue
		}
		for {
			m, err := s.Next()
			runtest.WantError(w.T, "stream on "+name, err, nil)
			var problem struct{ Code string }
			switch {
			case strings.Contains(m.Data, removedText):
				w.T.Errorf("stream on %s: got %s", name, m.Data)
			case m.Name == "commit": // that withdraws the grant, or that nothing was done with
				continue
			case json.Unmarshal([]byte(m.Data), &problem) != nil || !slices.Contains(r.codes, problem.Code):
				w.T.Errorf("stream on %s: got %s %s, want a problem of %v", name, m.Name, m.Data, r.codes)
			}
			break
		}
		_, err := s.Next()
		runtest.WantError(w.T, fmt.Sprintf("stream on %s", name), err, io.EOF)
	}
}

// TestSmokeRemovedIsGone redacts and erases a session that every API of two nodes and of a client has in memory, and withdraws a caller's
// grant of it. After the answer no read of the table of operations has the text, of any API, and open streams end.
func TestSmokeRemovedIsGone(t *testing.T) {
	t.Parallel()
	for name, r := range removals() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := bustest.Server(t, busembed.Config{})
			w := newRemovedWorld(t, server, bustest.Open(t, server))
			w.fillCaches()
			streams := w.streams()
			for _, forged := range []string{"1", "2147483647", "-1", "x", ""} { // a hint costs a read, and ends nothing
				runtest.WantError(t, "forge", w.third.bus.Conn().Publish("lash.delta.s.=removed", []byte(forged)), nil)
			}
			w.fillCaches()
			r.do(w)
			w.gone(&r)
			w.end(&r, streams)
		})
	}
}

// cuttable is a connection of a client in this process, which can be cut.
type cuttable struct {
	server nats.InProcessConnProvider

	mu    sync.Mutex
	conns []net.Conn
	isCut bool
}

// InProcessConn implements [nats.InProcessConnProvider].
func (c *cuttable) InProcessConn() (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isCut {
		return nil, errors.New("it is cut")
	}
	conn, err := c.server.InProcessConn()
	c.conns = append(c.conns, conn)
	return conn, err
}

func (c *cuttable) cut(is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut = is
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.conns = nil
}

// TestRemovedBehindCut cuts a node off while a session is redacted or erased, or a grant withdrawn, so that it receives nothing of it. Once
// servers reach it again, it serves nothing of the texts, and its streams end.
func TestRemovedBehindCut(t *testing.T) {
	t.Parallel()
	for name, r := range removals() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := bustest.Server(t, busembed.Config{})
			var opts nats.Options
			runtest.WantError(t, "options", server.InProcess()(&opts), nil)
			wire := &cuttable{server: opts.InProcessServer}
			second, err := bus.Open(harness.Context(t), bustest.WithKeys(t, bus.Config{Options: []nats.Option{nats.InProcessServer(wire)}, Timeout: time.Second}))
			runtest.WantError(t, "open", err, nil)
			t.Cleanup(second.Close)
			w := newRemovedWorld(t, server, second)
			w.fillCaches()
			streams := w.streams()
			wire.cut(true)
			bustest.Eventually(t, "it is cut off", func() bool { return !second.Connected() })
			r.do(w)
			wire.cut(false)
			bustest.Eventually(t, "it is connected again", second.Connected)
			w.gone(&r)
			w.end(&r, streams)
		})
	}
}
