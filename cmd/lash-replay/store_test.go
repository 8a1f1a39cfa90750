package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// bigBytes is the size of a result that exceeds an event's limit.
const bigBytes = 300 << 10

// makeStore DIR makes a store with the sessions demo and long, as a stopped node leaves it.
func makeStore(args []string) error {
	b, h, end, err := openTestHost(args[0], nil)
	if err != nil {
		return err
	}
	defer end()
	ctx := context.Background()
	w, hangs, err := testWorker(b)
	if err != nil {
		return err
	}
	if err := w.Start(ctx); err != nil {
		return err
	}
	defer w.Stop(ctx)
	return errors.Join(makeDemo(ctx, b, h, hangs), makeLong(ctx, b, h))
}

func openTestStore(dir string, cfg busembed.Config) (*busembed.Server, *bus.Bus, error) {
	cfg.StoreDir = dir
	server, err := busembed.Start(cfg)
	if err != nil {
		return nil, nil, err
	}
	b, err := bus.Open(context.Background(), bus.Config{Options: []nats.Option{server.InProcess()}})
	if err != nil {
		server.Stop()
	}
	return server, b, err
}

// openTestHost opens a store with a host on it. signer, which may be nil, signs its heads.
func openTestHost(dir string, signer func() *proof.Signer) (_ *bus.Bus, h *session.Host, end func(), err error) {
	server, b, err := openTestStore(dir, busembed.Config{})
	if err != nil {
		return nil, nil, nil, err
	}
	end = func() {
		b.Close()
		server.Stop()
	}
	if h, err = session.New(session.Config{Bus: b, Actor: "tester", Plugins: session.NoPlugins(), Signer: signer}); err != nil {
		end()
	}
	return b, h, end, err
}

// relabel DIR writes rows of the directory with other contents, one current and one old.
func relabel(args []string) error {
	server, b, err := openTestStore(args[0], busembed.Config{})
	if err != nil {
		return err
	}
	defer server.Stop()
	defer b.Close()
	ctx := context.Background()
	for id, missing := range map[events.SessionID]events.Seq{"demo": 0, "long": 1} {
		s, err := follow.Open(ctx, b, id)
		if err != nil {
			return err
		}
		row := follow.RowOf(s)
		row.Seq -= missing
		row.Labels = map[string]string{"row": string(id)}
		value, err := json.Marshal(row)
		if err != nil {
			return err
		}
		old, err := b.Directory().Get(ctx, id)
		if err != nil {
			return err
		}
		if _, err = b.Directory().Put(ctx, id, value, old.Revision); err != nil {
			return err
		}
	}
	return nil
}

func textParts(s string) []events.Part { return []events.Part{{Kind: events.PartText, Text: s}} }

// testWorker replies by turn: t1 calls a tool, t2 has a large result, t4 hangs, the others answer at once.
func testWorker(b *bus.Bus) (w *workers.Node, hangs chan struct{}, err error) {
	tools := plugin.NewTools()
	plugin.AddTool(tools, plugin.Tool{Name: "add"}, func(_ context.Context, _ plugin.Call, in struct{ A, B int }) (int, error) {
		return in.A + in.B, nil
	})
	plugin.AddTool(tools, plugin.Tool{Name: "dump", Effects: events.EffectsNone}, func(context.Context, plugin.Call, struct{}) (string, error) {
		return strings.Repeat("0123456789abcdef", bigBytes/16), nil
	})
	hangs = make(chan struct{})
	provider := scripted.New(func(_ context.Context, req llm.Request) (scripted.Answer, error) {
		return scripted.Answer{Response: replyFor(req), Hang: req.Turn == "t4"}, nil
	})
	w, err = workers.NewNode(workers.Config{
		Bus: b, Providers: map[string]llm.Provider{"scripted": hanging{provider, hangs}}, Provider: "scripted",
		Tools: func(events.SessionID) *plugin.Tools { return tools },
	})
	return w, hangs, err
}

// hanging reports when the hanging turn has called its model.
type hanging struct {
	llm.Provider
	hangs chan struct{}
}

func (h hanging) Complete(ctx context.Context, req llm.Request, sink func(llm.Delta)) (llm.Response, error) {
	if req.Turn == "t4" {
		close(h.hangs)
	}
	return h.Provider.Complete(ctx, req, sink)
}

func replyFor(req llm.Request) llm.Response {
	usage := events.Usage{Input: 10, Output: 5}
	calls := map[events.TurnID]events.Part{
		"t1": {Kind: events.PartToolCall, Call: "c1", Tool: "add", Args: []byte(`{ "A": 1, "B": 2 }`)},
		"t2": {Kind: events.PartToolCall, Call: "c2", Tool: "dump", Args: []byte(`{}`)},
	}
	if call, ok := calls[req.Turn]; ok && req.Iteration == 0 {
		think := events.Part{Kind: events.PartReasoning, Text: "let me see"}
		return llm.Response{Stop: events.StopToolUse, Usage: usage, Parts: []events.Part{think, call}}
	}
	last := req.Messages[len(req.Messages)-1].Parts[0]
	return llm.Response{Stop: events.StopEnd, Usage: usage, Parts: textParts(fmt.Sprintf("that was %d bytes", len(last.Text)))}
}

// makeDemo makes a session with a tool call, a result in a blob, a plugin's node, a branch, a frame and a cancelled
// turn.
func makeDemo(ctx context.Context, b *bus.Bus, h *session.Host, hangs <-chan struct{}) error {
	const id = events.SessionID("demo")
	_, err := h.Create(ctx, api.CreateRequest{ID: id, Config: events.Config{Model: "scripted-1"}})
	if err != nil {
		return err
	}
	if err := runTurn(ctx, h, id, "t1"); err != nil {
		return err
	}
	if err := runTurn(ctx, h, id, "t2"); err != nil {
		return err
	}
	node := api.AppendNode{Kind: events.NodePlugin, ID: "note-1", Type: "note", Body: []byte(`{"seen":true}`)}
	if _, err := h.AppendNodes(ctx, id, api.AppendNodesRequest{Nodes: []api.AppendNode{node}}); err != nil {
		return err
	}
	if err := saveSnapshot(ctx, b, id); err != nil {
		return err
	}
	if err := h.BranchTo(ctx, id, "a-t1-1"); err != nil {
		return err
	}
	if err := runTurn(ctx, h, id, "t3"); err != nil {
		return err
	}
	seed := events.Message{ID: "summary", Role: events.RoleSystem, Parts: textParts("sums were made")}
	_, err = h.OpenFrame(ctx, id, api.FrameRequest{Frame: "f2", Reason: "compaction", Keep: "u-t3", Nodes: []api.AppendNode{{Message: &seed}}})
	if err != nil {
		return err
	}
	return cancelTurn(ctx, h, id, "t4", hangs)
}

func runTurn(ctx context.Context, h *session.Host, id events.SessionID, turn events.TurnID) error {
	_, err := h.Run(ctx, id, api.TurnRequest{ID: turn, Input: events.TurnInput{Parts: textParts("please do " + string(turn))}})
	return err
}

func cancelTurn(ctx context.Context, h *session.Host, id events.SessionID, turn events.TurnID, hangs <-chan struct{}) error {
	ended := make(chan error, 1)
	go func() { ended <- runTurn(ctx, h, id, turn) }()
	select {
	case <-hangs:
	case err := <-ended:
		return errors.Join(errors.New("the turn ended by itself"), err)
	}
	if _, _, err := h.Cancel(ctx, id, turn, api.CancelRequest{ID: "cancel-1", Reason: "enough"}); err != nil {
		return err
	}
	return <-ended
}

func saveSnapshot(ctx context.Context, b *bus.Bus, id events.SessionID) error {
	s, err := follow.Whole(ctx, b, id)
	if err != nil {
		return err
	}
	_, err = follow.Save(ctx, b, s)
	return err
}

// makeLong makes a session with so many nodes that its snapshot has segments.
func makeLong(ctx context.Context, b *bus.Bus, h *session.Host) error {
	req := api.CreateRequest{ID: "long"}
	for i := range 150 {
		m := events.Message{ID: events.MessageID(fmt.Sprintf("m%03d", i)), Role: events.RoleUser, Parts: textParts("note")}
		req.Nodes = append(req.Nodes, api.AppendNode{Message: &m})
	}
	if _, err := h.Create(ctx, req); err != nil {
		return err
	}
	return saveSnapshot(ctx, b, "long")
}

// withOther DIR ARGS: lash-replay with ARGS while a server without keys, which has the store in DIR, listens where that of .lash did; {url} stands
// for its address.
func withOther(args []string) error {
	before, err := busembed.ReadAccess(".lash")
	if err != nil {
		return err
	}
	u, err := url.Parse(before.URL)
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		return err
	}
	return replayDuringServer(busembed.Config{Listen: true, Port: port}, args)
}

// withServer DIR ARGS runs lash-replay with ARGS while a node's server uses the store; {url} stands for its address.
func withServer(args []string) error {
	return replayDuringServer(busembed.Config{Listen: true, Keyed: true}, args)
}

func replayDuringServer(cfg busembed.Config, args []string) error {
	server, b, err := openTestStore(args[0], cfg)
	if err != nil {
		return err
	}
	b.Close()
	list := append([]string(nil), args[1:]...)
	for i := range list {
		list[i] = strings.ReplaceAll(list[i], "{url}", server.URL())
	}
	code := run(context.Background(), list, &program.Streams{Out: os.Stdout, Err: os.Stderr, Env: os.Getenv})
	server.Stop()
	os.Exit(code)
	return nil
}
