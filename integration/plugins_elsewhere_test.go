package integration

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// diary is a plugin that keeps what it is told. Its older version cannot read what the newer one keeps.
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

// keeps starts a node whose diary has a version, and gives how it is killed.
func (s *site) keeps(version string, patience time.Duration, writes func(ctx context.Context) string) (*workers.Node, func()) {
	s.t.Helper()
	stack, err := plugin.NewHost(plugin.HostConfig{Builtins: workers.Builtins(), Factories: []plugin.Factory{
		plugin.New("diary", func(plugin.BuildContext) (plugin.Plugin, error) {
			return &diary{version: version, writes: writes}, nil
		}),
	}})
	must(s.t, "plugins", err, nil)
	on := s.connect()
	n, err := workers.NewNode(workers.Config{
		Bus: on, Plugins: stack, Provider: "scripted", Patience: patience,
		Providers: map[string]llm.Provider{"scripted": scripted.New(func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
			if last := req.Messages[len(req.Messages)-1]; last.Text() == "go" {
				return reply(call("k", "note", `{}`))(ctx, req)
			}
			return reply(text("done"))(ctx, req)
		})},
	})
	must(s.t, "node", err, nil)
	return n, s.ends(on, n)
}

// page is what is too long to stay in an event.
func page(context.Context) string { return strings.Repeat("dear diary ", 8<<10) }

// leftToOthers waits until a node has given the session's wake back.
func (s *site) leftToOthers() {
	s.t.Helper()
	for said := s.acked(); !strings.HasPrefix(receive(s.bundle, "a wake that is given back", said), "-NAK"); {
	}
}

// written has a session whose diary a node of version 2 has written, which is gone.
func (s *site) written() events.SessionID {
	s.t.Helper()
	_, kill := s.keeps("2", time.Minute, page)
	id := s.open(api.CreateRequest{})
	s.submit(id, "t1", text("go"))
	equal(s.t, "end", s.ended(id, "t1").End, events.EndFinished)
	s.unqueued(id)
	kill()
	return id
}

func (s *site) endsOn(id events.SessionID, turn events.TurnID, node *workers.Node) {
	s.t.Helper()
	equal(s.t, "end", s.ended(id, turn).End, events.EndFinished)
	var last events.WorkerID
	for _, ev := range s.history(id) {
		if p, ok := ev.Payload.(*events.TurnStarted); ok && ev.Turn == turn {
			last = p.Worker
		}
	}
	equal(s.t, "worker", last, node.ID())
	s.unqueued(id)
	verified(s.t, s.bus, id)
}

// TestPluginsElsewhere has a node that cannot build a session's plugins, as they
// are older or their state cannot be read. It leaves turns, new ones and those of
// a dead node, to a node that can.
func TestPluginsElsewhere(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(s *site){
		"older": func(s *site) {
			id := s.written()
			s.keeps("1", time.Minute, page)
			s.submit(id, "t2", text("go"))
			s.leftToOthers()
			node, _ := s.keeps("2", time.Minute, page)
			s.endsOn(id, "t2", node)
		},
		"older_takes_over": func(s *site) {
			id := s.written()
			begun := make(chan struct{}, 4)
			_, kill := s.keeps("2", time.Minute, func(ctx context.Context) string { begun <- struct{}{}; <-ctx.Done(); return "" })
			s.submit(id, "t2", text("go"))
			receive(s.bundle, "call", begun)
			s.keeps("1", time.Minute, page)
			kill()
			s.leftToOthers()
			node, _ := s.keeps("2", time.Minute, page)
			s.endsOn(id, "t2", node)
			equal(s.t, "attempts", s.ended(id, "t2").Attempts, 2)
		},
		"blob_gone": func(s *site) {
			id := s.written()
			put := s.withoutBlobs(id)
			s.keeps("2", time.Minute, page)
			s.submit(id, "t2", text("go"))
			s.leftToOthers()
			put()
			equal(s.t, "end", s.ended(id, "t2").End, events.EndFinished)
		},
		"nowhere": func(s *site) {
			id := s.written()
			s.keeps("1", 2*time.Second, page)
			s.submit(id, "t2", text("go"))
			record := s.ended(id, "t2")
			equal(s.t, "end", record.End, events.EndFailed)
			equal(s.t, "code", record.Issue.Code, "plugin_build")
			if !strings.Contains(record.Issue.Message, "the diary is of version 2") {
				s.t.Errorf("message: got %q, want why", record.Issue.Message)
			}
			node, _ := s.keeps("2", time.Minute, page)
			s.submit(id, "t3", text("go"))
			s.endsOn(id, "t3", node)
		},
		"nowhere_blob": func(s *site) {
			id := s.written()
			put := s.withoutBlobs(id)
			s.keeps("2", 2*time.Second, page)
			s.submit(id, "t2", text("go"))
			record := s.ended(id, "t2")
			equal(s.t, "end", record.End, events.EndFailed)
			equal(s.t, "code", record.Issue.Code, "plugin_build")
			put()
			s.submit(id, "t3", text("go"))
			equal(s.t, "end", s.ended(id, "t3").End, events.EndFinished)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onSites(t, test)
		})
	}
}

// withoutBlobs takes away what the session's diary is kept in, until it is put back.
func (s *site) withoutBlobs(id events.SessionID) (put func()) {
	s.t.Helper()
	var ref events.BlobRef
	for _, p := range find[*events.PluginStateSaved](s.bundle, id) {
		if p.Plugin == "diary" {
			ref = p.Blob
		}
	}
	body, err := s.bus.Blob(s.ctx, ref)
	must(s.t, "blob", err, nil)
	if !json.Valid(body) {
		s.t.Fatalf("blob: got %.40q, want the diary", body)
	}
	store, err := jetstreamOf(s.bus).ObjectStore(s.ctx, "lash-blobs")
	must(s.t, "blobs", err, nil)
	must(s.t, "delete", store.Delete(s.ctx, ref.Digest), nil)
	_, err = s.bus.Blob(s.ctx, ref)
	must(s.t, "read", err, bus.ErrNotFound)
	return func() {
		_, err := s.bus.PutBlob(s.ctx, body)
		must(s.t, "put", err, nil)
	}
}
