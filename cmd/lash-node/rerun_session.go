package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/cmd/lash-node/serve"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/archive"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/exchange"
	"github.com/lash-go/lash/session/plugin"
)

// archiveBodies reads the bodies of an archive.
type archiveBodies map[string][]byte

func (m archiveBodies) Blob(_ context.Context, ref events.BlobRef) ([]byte, error) {
	if body, ok := m[ref.Digest]; ok {
		return body, nil
	}
	return nil, fmt.Errorf("body %s: %w", ref.Digest, bus.ErrNotFound)
}

// rerunPlan is what runs again of a session.
type rerunPlan struct {
	before  *projector.State // before the first turn
	doc     *exchange.Document
	turns   []events.TurnID
	inputs  []events.TurnInput
	skipped int
	model   string // of the first recorded reply
	results *recordedResults
}

// session reruns one archive.
func (c *rerunCmd) session(ctx context.Context, s *streams, file string, instructions *string) (*rerunResult, error) {
	r := &rerunResult{Session: events.SessionID(filepath.Base(file)), Turns: []rerunTurn{}}
	a, err := program.ReadArchive(file, 1024)
	if err != nil {
		return r, err
	}
	r.Session = a.Session
	plan, err := c.plan(ctx, a)
	if err != nil {
		return r, err
	}
	r.Skipped = plan.skipped
	dir, err := os.MkdirTemp("", "lash-rerun-")
	if err != nil {
		return r, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	const suffix = "-rerun"
	r.Fork = a.Session[:min(len(a.Session), events.MaxTokenBytes-len(suffix))] + suffix
	if err := c.run(ctx, s, dir, r.Fork, plan, instructions); err != nil {
		return r, err
	}
	r.Served, r.Missed = plan.results.served, plan.results.missed
	after, err := c.keep(ctx, dir, r)
	if err != nil {
		return r, err
	}
	for _, id := range plan.turns {
		r.Turns = append(r.Turns, rerunTurn{id, sideOf(plan.doc, id), sideOf(after, id)})
	}
	if c.Scorer != "" {
		r.Score, err = c.scoreOf(ctx, s, r)
	}
	return r, err
}

// plan finds the turns of hosts from --from on, and the state before them.
func (c *rerunCmd) plan(ctx context.Context, a *events.Archive) (*rerunPlan, error) {
	keys, err := c.BodiesKeys()
	if err != nil {
		return nil, err
	}
	texts := archive.DecryptedBodies(a.Blobs, keys)
	log, blobs := archive.Decrypted(a.Log, keys), archiveBodies(texts)
	doc, err := exchange.Read(ctx, log, blobs, a.Session)
	if err != nil {
		return nil, err
	}
	p := &rerunPlan{doc: doc, results: &recordedResults{tools: make(map[string]events.ToolEntry), results: make(map[string][]events.ToolResult), next: make(map[string]int)}}
	ended := make(map[events.TurnID]bool)
	for i := range doc.Turns {
		ended[doc.Turns[i].ID] = true
	}
	at := events.Seq(0)
	for i := range doc.Entries {
		if r := doc.Entries[i].Reply; r != nil {
			p.model = cmp.Or(p.model, r.Model)
		}
		ev := doc.Entries[i].Event
		if ev == nil {
			continue
		}
		switch e := ev.Payload.(type) {
		case *events.TurnRequested:
			if e.Switches > 0 || !ended[ev.Turn] || len(p.turns) == 0 && c.From != "" && ev.Turn != c.From {
				continue
			}
			if len(p.turns) == 0 {
				at = doc.Entries[i].Seq - 1
			}
			in, err := blob.FillInput(ctx, blobs, e.Input)
			if err != nil {
				return nil, err
			}
			p.turns, p.inputs = append(p.turns, ev.Turn), append(p.inputs, in)
		case *events.InputInjected:
			if len(p.turns) > 0 {
				p.skipped++
			}
		case *events.ToolStateApplied:
			tools, err := blob.Contracts(ctx, blobs, e.Tools, nil)
			if err != nil {
				return nil, err
			}
			for _, tool := range tools {
				p.results.tools[tool.Name] = tool
			}
		}
	}
	if len(p.turns) == 0 && c.From != "" {
		return nil, fmt.Errorf("--from %s: the session has no such turn that ended; lash-replay show lists them", c.From)
	}
	if len(p.turns) == 0 {
		return nil, errors.New("the session has no turn that ended: lash-replay show FILE shows what it has")
	}
	p.results.read(doc)
	if p.before, err = follow.ReadAt(ctx, log, blobs, a.Session, at); err == nil {
		err = blob.FillState(ctx, blobs, p.before)
	}
	return p, err
}

// run creates the fork on a node of its own, and runs the turns.
func (c *rerunCmd) run(ctx context.Context, s *streams, dir string, fork events.SessionID, p *rerunPlan, instructions *string) error {
	view, err := p.before.View()
	if err != nil {
		return err
	}
	config := p.before.Config
	config.Provider, config.Fallbacks = "", nil
	if c.Model != "" {
		config.Model = c.Model
	}
	if instructions != nil {
		config.Instructions = *instructions
	}
	model := cmp.Or(config.Model, p.model)
	config.Model = "" // the node's
	var adds serve.Config
	adds.Logger = zap.NewNop()
	names := c.Plugins
	if c.ToolResults == "recorded" {
		adds.Plugins = []plugin.Factory{p.results.factory(names)}
		names = append([]string{recordedPlugin}, names...)
		if len(names) == 2 && names[1] == "none" {
			names = names[:1]
		}
	}
	node, err := serve.Start(ctx, s, adds, func(flags *serve.Command) {
		flags.Store, flags.Listen, flags.Grace = dir, "127.0.0.1:0", stopGrace
		flags.Provider, flags.Model = c.Provider, model
		flags.Plugins, flags.Root, flags.Bodies = names, c.Root, c.Bodies
	})
	if err != nil {
		return err
	}
	defer node.Stop()
	nodes := make([]api.AppendNode, len(view.Messages))
	for i := range view.Messages {
		nodes[i].Message = &view.Messages[i]
	}
	h := node.Host()
	if _, err := h.Create(ctx, api.CreateRequest{ID: fork, Config: config, Nodes: nodes}); err != nil {
		return err
	}
	for i, id := range p.turns {
		over := s.NoteWait("turn %s, %d of %d", id, i+1, len(p.turns))
		_, err := h.Run(ctx, fork, api.TurnRequest{ID: id, Input: c.input(p.inputs[i])})
		over()
		if err != nil {
			return fmt.Errorf("turn %s: %w", id, err)
		}
	}
	return nil
}

// input is an input of the fork. Where tools run, it has no options for plugins: an archive must not loosen the rules here.
func (c *rerunCmd) input(in events.TurnInput) events.TurnInput {
	if c.ToolResults == "live" {
		in.Plugins = nil
	}
	return in
}

// keep reads the fork from its store, and writes its archive to -o.
func (c *rerunCmd) keep(ctx context.Context, dir string, r *rerunResult) (*exchange.Document, error) {
	server, err := busembed.Start(busembed.Config{StoreDir: dir})
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	keys, err := c.BodiesKeys()
	if err != nil {
		return nil, err
	}
	b, err := bus.Open(ctx, bus.Config{Options: []nats.Option{server.InProcess()}, Name: "lash-node", Keys: keys})
	if err != nil {
		return nil, err
	}
	defer b.Close()
	if c.Out != "" {
		var file bytes.Buffer
		if _, err := archive.Write(ctx, b.Log(), b, r.Fork, &file); err != nil {
			return nil, err
		}
		r.File = filepath.Join(c.Out, string(r.Fork)+".lash")
		if err := os.WriteFile(r.File, file.Bytes(), 0o600); err != nil {
			return nil, err
		}
	}
	return exchange.Read(ctx, b.Log(), b, r.Fork)
}

// sideOf is what a turn did in a session.
func sideOf(d *exchange.Document, id events.TurnID) turnSide {
	side := turnSide{Calls: []rerunCall{}}
	for i := range d.Turns {
		if d.Turns[i].ID == id {
			side.End = d.Turns[i].End
			if issue := d.Turns[i].Issue; !issue.IsZero() {
				side.Issue = issue.Code + " " + issue.Message
			}
		}
	}
	for i := range d.Entries {
		e := &d.Entries[i]
		if e.Turn != id || e.Reply == nil {
			continue
		}
		side.Tokens += e.Reply.Usage.Total()
		if e.Node == nil {
			continue
		}
		side.Answer = e.Node.Message.Text()
		for _, p := range e.Node.Message.Parts {
			if p.Kind == events.PartToolCall {
				args := json.RawMessage(p.Args)
				if !json.Valid(args) {
					args, _ = json.Marshal(string(p.Args)) // a text encodes
				}
				side.Calls = append(side.Calls, rerunCall{p.Tool, args})
			}
		}
	}
	return side
}

// scoreOf runs the scorer.
func (c *rerunCmd) scoreOf(ctx context.Context, s *streams, r *rerunResult) (*float64, error) {
	in, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", c.Scorer) //nolint:gosec // the user gives the command
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), s.Err
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("--scorer: %w", err)
	}
	score, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	if err != nil || math.IsNaN(score) || math.IsInf(score, 0) {
		return nil, fmt.Errorf("--scorer printed %q, want a number", events.Clip(string(out), 100, "…"))
	}
	return &score, nil
}
