package security

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/cmd/lash-node/serve"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/operation"
)

// lostText is what each API says of the session s, which has lost the commits after its archive.
func lostText(from, to events.Seq) string {
	return fmt.Sprintf("session s: commits %d to %d are lost: put their stream back from a backup, or fork what is left of the session: lash-node fork s", from, to)
}

// TestLostSessionOverEveryAPI sends every operation over HTTP and NATS, and every tool of MCP, to a session that has lost commits. Each answer
// but that of a fork has the code commits_lost, over HTTP with status 409, which commits they are, and what the operator has to do. After
// that it is served.
func TestLostSessionOverEveryAPI(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	b.StartNode()
	d := b.ServeHTTP(httpapi.Config{Agents: serve.Agents})
	b.Open(api.CreateRequest{ID: "s"})
	want := lostText(b.LoseCommits("s"))
	b.Open(api.CreateRequest{ID: "whole"})
	all := b.LastSeq("whole")
	runtest.WantError(t, "project", follow.NewProjector(b.Bus, nil).Project(b.Ctx, "whole"), nil)
	b.LoseStream("whole")
	got := d.WantProblem(http.StatusConflict, "commits_lost", http.MethodGet, "/v1/sessions/whole", "").Field("detail")
	runtest.Equal(t, "lost whole", got, fmt.Sprintf("session whole: commits 1 to %d are lost: put their stream back from a backup, or erase the session: lash-node erase whole", all))
	t.Run("http", func(t *testing.T) { lostOverHTTP(t, d, want) })
	t.Run("nats", func(t *testing.T) { lostOverNATS(t, b, want) })
	t.Run("mcp", func(t *testing.T) { lostOverMCP(t, d, want) })
	bustest.PutBack(t, b.Bus, "s")
	d.Want(http.StatusOK, http.MethodGet, "/v1/sessions/s", "")
}

func lostOverHTTP(t *testing.T, d *harness.HTTP, want string) {
	t.Helper()
	tested := 0
	for _, op := range d.Doc.Operations() {
		if !strings.Contains(op.Path, "{session}") || op.ID == operation.Fork.ID {
			continue
		}
		got := d.Send("admin", op.Method, harness.PathOf(op.Path, "s")+harness.QueryOf(op.ID), harness.ValidBodies()[op.ID])
		if got.Status != http.StatusConflict || got.Field("code") != "commits_lost" || got.Field("detail") != want {
			t.Errorf("%s: got %d %s, want 409 and %q", op.ID, got.Status, got.Body, want)
		}
		tested++
	}
	if tested < 40 {
		t.Errorf("%d operations were tested", tested)
	}
}

func lostOverNATS(t *testing.T, b *harness.System, want string) {
	t.Helper()
	bodies := bodiesInSession()
	for _, name := range slices.Sorted(maps.Keys(operation.Named())) {
		if name == operation.Create.Name || name == operation.StoreBlob.Name || name == operation.ExternalPlugins.Name {
			continue // they name no session
		}
		if bodies[name] == nil {
			bodies[name] = operation.Named()[name].In
		}
		got := askInside(t, b, name, bodies[name])
		if got.Error.Code != "commits_lost" || got.Error.Message != want {
			t.Errorf("%s: got %+v, want %q", name, got.Error, want)
		}
	}
}

// askInside sends an operation to the session s, as a program of the nodes' account.
func askInside(t *testing.T, b *harness.System, name operation.Name, body any) (got api.Response) {
	t.Helper()
	data, err := events.EncodePayload(body)
	runtest.WantError(t, "encode", err, nil)
	if data, err = api.EncodeRequest(api.Request{Format: api.RequestFormat, Session: "s", Key: "k", Actor: "host", Body: data}); err != nil {
		t.Fatal(err)
	}
	m := &nats.Msg{Subject: "lash.api." + string(name), Data: data, Reply: b.Bus.Conn().NewRespInbox()}
	sub, err := b.Bus.Conn().SubscribeSync(m.Reply)
	runtest.WantError(t, "subscribe", err, nil)
	defer func() { _ = sub.Unsubscribe() }()
	runtest.WantError(t, string(name), b.Bus.Conn().PublishMsg(m), nil)
	for len(m.Data) > 0 && m.Reply != "" || len(m.Data) == 0 { // a node that takes long sends empty messages before
		m, err = sub.NextMsgWithContext(b.Ctx)
		runtest.WantError(t, string(name), err, nil)
	}
	runtest.WantError(t, "answer", events.DecodePayload(m.Data, &got), nil)
	return got
}

func lostOverMCP(t *testing.T, d *harness.HTTP, want string) {
	t.Helper()
	for tool, arguments := range mcpCases() {
		if tool == "create_session" || tool == "list_sessions" {
			continue // they name no session
		}
		arguments = `{"session":"s",` + arguments[1:]
		arguments = strings.Replace(arguments, ",}", "}", 1)
		r := d.Request("admin", http.MethodPost, "/v1/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, arguments),
			"Content-Type", "application/json", "Accept", "application/json, text/event-stream")
		got, err := d.Client.Do(r)
		runtest.WantError(t, tool, err, nil)
		data, err := io.ReadAll(got.Body)
		_ = got.Body.Close()
		runtest.WantError(t, tool, err, nil)
		if _, message, ok := bytes.Cut(data, []byte("data: ")); ok {
			data = message
		}
		var answer struct {
			Result struct {
				IsError bool
				Content []struct{ Text string }
			}
		}
		if err := json.Unmarshal(data, &answer); err != nil || !answer.Result.IsError || len(answer.Result.Content) != 1 || answer.Result.Content[0].Text != "commits_lost: "+want {
			t.Errorf("%s: got %s, want %q", tool, data, want)
		}
	}
}

// TestReachOfLostSessions has a caller send every operation that names a session to one of another owner that has lost commits, some or all.
// Each response is that of a session that does not exist; the creation of one with its id is refused as for any id in use.
func TestReachOfLostSessions(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	b.StartNode()
	d := b.ServeHTTP(httpapi.Config{})
	for _, id := range []string{"some", "all", "whole"} {
		runtest.Equal(t, "create", d.Send("alice", http.MethodPost, "/v1/sessions", fmt.Sprintf(`{"id":%q}`, id)).Status, http.StatusCreated)
	}
	b.LoseCommits("some")
	runtest.WantError(t, "project", follow.NewProjector(b.Bus, nil).Project(b.Ctx, "all"), nil)
	b.LoseStream("all")
	for _, id := range []string{"some", "all"} {
		runtest.Equal(t, "of the operator", d.Send("admin", http.MethodGet, "/v1/sessions/"+id, "").Field("code"), "commits_lost")
		for _, op := range inSession(d) {
			ask := func(id string) string {
				status, answer := d.StatusOf("bob", op.Method, harness.PathOf(op.Path, id)+harness.QueryOf(op.ID), harness.ValidBodies()[op.ID], "Idempotency-Key", id)
				return fmt.Sprint(status, strings.ReplaceAll(answer, id, "ID"))
			}
			runtest.Equal(t, op.ID+" of a session that has lost commits: "+id, ask(id), ask("nosuch"))
		}
		create := func(id string) string {
			status, answer := d.StatusOf("bob", http.MethodPost, "/v1/sessions", fmt.Sprintf(`{"id":%q}`, id))
			return fmt.Sprint(status, strings.ReplaceAll(answer, id, "ID"))
		}
		runtest.Equal(t, "create "+id, create(id), create("whole"))
	}
}
