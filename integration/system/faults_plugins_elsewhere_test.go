package system

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// diary is a plugin that stores its notifications. Its older version cannot read the state of the newer one.
type diary struct {
	plugin.State[[]string]
	version string
	writes  func(ctx context.Context) string
}

func (d *diary) Version() string { return d.version }

func (d *diary) Restore(meta plugin.Meta, artifacts plugin.SnapshotReader) error {
	if len(meta.State) > 0 && meta.Version > d.version {
		return errors.New("the diary is of version " + meta.Version)
	}
	return d.State.Restore(meta, artifacts)
}

func (d *diary) Register(r *plugin.Registrar) error {
	plugin.AddTool(r, plugin.Tool{Name: "note", Effects: events.EffectsIdempotent}, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
		page := d.writes(ctx)
		d.Update(func(list *[]string) { *list = append(*list, page) })
		return "noted", ctx.Err()
	})
	return nil
}

// startNode starts a node with a version of the diary, and returns how to kill it.
func (s *site) startNode(version string, patience time.Duration, writes func(ctx context.Context) string) (*workers.Node, func()) {
	s.T.Helper()
	builder, err := plugin.NewBuilder(plugin.BuilderConfig{Builtins: workers.Builtins(), Factories: []plugin.Factory{
		plugin.New("diary", func(plugin.BuildContext) (plugin.Plugin, error) {
			return &diary{version: version, writes: writes}, nil
		}),
	}})
	runtest.WantError(s.T, "plugins", err, nil)
	on := s.connect()
	n, err := workers.NewNode(workers.Config{
		Bus: on, Plugins: builder, Provider: "scripted", Patience: patience,
		Providers: map[string]llm.Provider{"scripted": scripted.New(func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
			if last := req.Messages[len(req.Messages)-1]; last.Text() == "go" {
				return harness.Reply(harness.Call("k", "note", `{}`))(ctx, req)
			}
			return harness.Reply(harness.Text("done"))(ctx, req)
		})},
	})
	runtest.WantError(s.T, "node", err, nil)
	return n, s.ends(on, n)
}

// page is a text that is too long for an event.
func page(context.Context) string { return strings.Repeat("dear diary ", 8<<10) }

// awaitNak waits until a node has released the session's wake.
func (s *site) awaitNak() {
	s.T.Helper()
	for lines := s.acked(); !strings.HasPrefix(harness.Receive(s.System, "a wake that is given back", lines), "-NAK"); {
	}
}

// written has a session whose diary was written by a node of version 2, which is gone.
func (s *site) written() events.SessionID {
	s.T.Helper()
	_, kill := s.startNode("2", time.Minute, page)
	id := s.Open(api.CreateRequest{})
	s.StartTurn(id, "t1", harness.Text("go"))
	runtest.Equal(s.T, "end", s.AwaitTurn(id, "t1").End, events.EndFinished)
	s.AwaitUnqueued(id)
	kill()
	return id
}

func (s *site) endsOn(id events.SessionID, turn events.TurnID, node *workers.Node) {
	s.T.Helper()
	runtest.Equal(s.T, "end", s.AwaitTurn(id, turn).End, events.EndFinished)
	var last events.WorkerID
	for _, ev := range s.History(id) {
		if p, ok := ev.Payload.(*events.TurnStarted); ok && ev.Turn == turn {
			last = p.Worker
		}
	}
	runtest.Equal(s.T, "worker", last, node.ID())
	s.AwaitUnqueued(id)
	harness.VerifyHistory(s.T, s.Bus, id)
}

// TestPluginsElsewhere has a node that cannot build a session's plugins, because they are older or their state is
// unreadable. It leaves turns, new ones and those of a dead node, to a node that can.
func TestPluginsElsewhere(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(s *site){
		"older": func(s *site) {
			id := s.written()
			s.startNode("1", time.Minute, page)
			s.StartTurn(id, "t2", harness.Text("go"))
			s.awaitNak()
			node, _ := s.startNode("2", time.Minute, page)
			s.endsOn(id, "t2", node)
		},
		"older_takes_over": func(s *site) {
			id := s.written()
			started := make(chan struct{}, 4)
			_, kill := s.startNode("2", time.Minute, func(ctx context.Context) string { started <- struct{}{}; <-ctx.Done(); return "" })
			s.StartTurn(id, "t2", harness.Text("go"))
			harness.Receive(s.System, "call", started)
			s.startNode("1", time.Minute, page)
			kill()
			s.awaitNak()
			node, _ := s.startNode("2", time.Minute, page)
			s.endsOn(id, "t2", node)
			runtest.Equal(s.T, "attempts", s.AwaitTurn(id, "t2").Attempts, 2)
		},
		"blob_gone": func(s *site) {
			id := s.written()
			put := s.withoutBlobs(id)
			s.startNode("2", time.Minute, page)
			s.StartTurn(id, "t2", harness.Text("go"))
			s.awaitNak()
			put()
			runtest.Equal(s.T, "end", s.AwaitTurn(id, "t2").End, events.EndFinished)
		},
		"nowhere": func(s *site) {
			id := s.written()
			s.startNode("1", 2*time.Second, page)
			s.StartTurn(id, "t2", harness.Text("go"))
			record := s.AwaitTurn(id, "t2")
			runtest.Equal(s.T, "end", record.End, events.EndFailed)
			runtest.Equal(s.T, "code", record.Issue.Code, "plugin_build")
			runtest.Contains(s.T, "message", record.Issue.Message, "the diary is of version 2")
			node, _ := s.startNode("2", time.Minute, page)
			s.StartTurn(id, "t3", harness.Text("go"))
			s.endsOn(id, "t3", node)
		},
		"nowhere_blob": func(s *site) {
			id := s.written()
			put := s.withoutBlobs(id)
			s.startNode("2", 2*time.Second, page)
			s.StartTurn(id, "t2", harness.Text("go"))
			record := s.AwaitTurn(id, "t2")
			runtest.Equal(s.T, "end", record.End, events.EndFailed)
			runtest.Equal(s.T, "code", record.Issue.Code, "plugin_build")
			put()
			s.StartTurn(id, "t3", harness.Text("go"))
			runtest.Equal(s.T, "end", s.AwaitTurn(id, "t3").End, events.EndFinished)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onSites(t, test)
		})
	}
}

// withoutBlobs deletes the blobs of the session's diary, until they are restored.
func (s *site) withoutBlobs(id events.SessionID) (put func()) {
	s.T.Helper()
	var ref events.BlobRef
	for _, p := range harness.Find[*events.PluginStateSaved](s.System, id) {
		if p.Plugin == "diary" {
			ref = p.Blob
		}
	}
	body, err := s.Bus.Blob(s.Ctx, ref)
	runtest.WantError(s.T, "blob", err, nil)
	if !json.Valid(body) {
		s.T.Fatalf("blob: got %.40q, want the diary", body)
	}
	store, err := harness.JetStreamOf(s.Bus).ObjectStore(s.Ctx, "lash-blobs")
	runtest.WantError(s.T, "blobs", err, nil)
	runtest.WantError(s.T, "delete", store.Delete(s.Ctx, ref.Digest), nil)
	_, err = s.Bus.Blob(s.Ctx, ref)
	runtest.WantError(s.T, "read", err, bus.ErrNotFound)
	return func() {
		_, err := s.Bus.PutBlob(s.Ctx, body)
		runtest.WantError(s.T, "put", err, nil)
	}
}
