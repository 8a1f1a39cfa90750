package mcp

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/schema"
)

// ID is that of the plugin that offers the tools of all servers. The source of each tool is the name of its server.
const ID = "mcp_servers"

// Config of the servers of a node.
type Config struct {
	Servers []Server // each name once
	Bus     *bus.Bus // by which nodes tell each other of their servers. nil: there is no other node
	Logger  *zap.Logger
	Quiet   bool // other nodes do not send calls here: this one has no tool role
	// Tell receives what people should read: why a server does not run, and which tools are left out, once each. It must
	// not block. nil: only the log has it.
	Tell func(line string)
}

// Servers are the servers of a node, and what it knows of those of other nodes. It is a [plugin.Factory].
type Servers struct {
	cfg     Config
	log     *zap.Logger
	own     map[string]*Source // by name
	node    events.WorkerID
	changed chan struct{} // has an element when the node's own servers have changed
	work    sync.WaitGroup
	leave   func() // the other nodes

	mu     sync.Mutex
	offers map[string]*offer       // what is offered of each server, by name
	list   *catalogue              // of offers
	older  []*catalogue            // that turns may still have, the newest first
	others map[string]announcement // the last one of each node
	asking map[string]bool         // hashes of offers that are being asked for
}

// catalogue is what sessions get of all servers.
type catalogue struct {
	hash    string        // empty: no server has listed its tools
	tools   *plugin.Tools // of every session
	sources map[string]*plugin.Tools
	leftOut []api.LeftOutTool

	instructions []events.Contribution // of servers whose tools every session has
}

// maxOlder is how many catalogues a node keeps for turns that began with them.
const maxOlder = 8

// New checks the configuration. Errors: [*events.FieldError].
func New(cfg Config) (*Servers, error) {
	s := &Servers{
		cfg: cfg, log: cfg.Logger, own: make(map[string]*Source), node: events.WorkerID("mcp-" + rand.Text()), changed: make(chan struct{}, 1), leave: func() {},
		offers: make(map[string]*offer), list: &catalogue{tools: plugin.NewTools()}, others: make(map[string]announcement), asking: make(map[string]bool),
	}
	if s.log == nil {
		s.log = zap.NewNop()
	}
	s.log = s.log.Named("mcp")
	if s.cfg.Tell == nil {
		s.cfg.Tell = func(string) {}
	}
	for i := range cfg.Servers {
		server := cfg.Servers[i]
		if err := server.check("servers."+server.Name, ""); err != nil {
			return nil, err
		}
		s.own[server.Name] = s.newSource(&server)
	}
	return s, checkNames(cfg.Servers)
}

// Start starts the servers, and tells other nodes of them, until [Servers.Stop]. It does not wait for them.
func (s *Servers) Start(ctx context.Context) error {
	if err := s.join(ctx); err != nil {
		return err
	}
	for _, source := range s.own {
		source.start(ctx)
	}
	return nil
}

// Source is the server of a name; nil: this node has none.
func (s *Servers) Source(name string) *Source { return s.own[name] }

// Settle waits until each server has listed its tools, or has failed once, or until ctx ends. It returns the names of those
// that have done neither.
func (s *Servers) Settle(ctx context.Context) (late []string) {
	for _, name := range slices.Sorted(maps.Keys(s.own)) {
		select {
		case <-s.own[name].settled:
		case <-ctx.Done():
			late = append(late, name)
		}
	}
	return late
}

// Stop ends the servers, with the calls that run. Errors: the cause of ctx's end, before they have ended.
func (s *Servers) Stop(ctx context.Context) error {
	s.leave()
	for _, source := range s.own {
		if source.stop != nil {
			source.stop() // all at once
		}
	}
	var errs []error
	for _, source := range s.own {
		errs = append(errs, source.Stop(ctx))
	}
	return errors.Join(errs...)
}

// take makes an offer that of its server, for turns that begin from now on. One of this node goes before one of another.
func (s *Servers) take(o *offer) {
	s.mu.Lock()
	before := s.offers[o.Server]
	if before != nil && before.hash == o.hash && before.Instructions == o.Instructions {
		s.mu.Unlock()
		return
	}
	s.offers[o.Server] = o
	s.older = slices.Concat([]*catalogue{s.list}, s.older[:min(len(s.older), maxOlder-1)])
	known := s.list.leftOut
	s.list = s.compileLocked()
	leftOut := s.list.leftOut
	s.mu.Unlock()
	s.log.Info("tools are offered", zap.String("server", o.Server), zap.Int("tools", len(o.Tools)), zap.Int("left_out", len(o.LeftOut)))
	for _, t := range leftOut {
		if slices.Contains(known, t) {
			continue
		}
		s.log.Warn("a tool is left out", zap.String("server", t.Source), zap.String("tool", t.Name), zap.String("reason", t.Reason))
		s.cfg.Tell("MCP server " + t.Source + ": tool " + t.Name + " is left out: " + t.Reason)
	}
}

// compileLocked makes the catalogue of all offers.
func (s *Servers) compileLocked() *catalogue {
	c := &catalogue{tools: plugin.NewTools(), sources: make(map[string]*plugin.Tools)}
	sum := sha256.New()
	sizes, instructions := make([]int, 0, len(s.offers)), make([]int, 0, len(s.offers))
	for _, o := range s.offers {
		sizes, instructions = append(sizes, o.size((*tool).recorded)), append(instructions, len(o.Instructions))
	}
	limit, shown := share(sizes, maxAllBytes), share(instructions, maxAllInstructions)
	for _, name := range slices.Sorted(maps.Keys(s.offers)) {
		o := s.offers[name]
		sum.Write([]byte(name + " " + o.hash + o.Instructions + "\n"))
		c.leftOut = append(c.leftOut, o.LeftOut...)
		into := c.tools
		if o.BySession {
			into = plugin.NewTools()
			c.sources[name] = into
		} else if o.Instructions != "" {
			c.instructions = append(c.instructions, events.Contribution{Slot: events.SlotGuidance, Title: "What the MCP server " + name + " says of its tools", Content: events.Clip(o.Instructions, shown, "...")})
		}
		bytes := 0
		for i := range o.Tools {
			if bytes += o.Tools[i].recorded(); bytes > limit {
				c.leftOut = append(c.leftOut, api.LeftOutTool{Source: name, Name: o.Tools[i].Of, Reason: fmt.Sprintf(
					"names and descriptions of the tools of %d servers do not fit in a commit of the history, where this one has %d bytes: name those to offer, in the field lash.tools", len(sizes), limit)})
				continue
			}
			if err := s.bind(into, o, &o.Tools[i]); err != nil { // it was compiled when it was listed; a node of another version may differ
				c.leftOut = append(c.leftOut, api.LeftOutTool{Source: name, Name: o.Tools[i].Of, Reason: err.Error()})
			}
		}
	}
	c.hash = hex.EncodeToString(sum.Sum(nil)[:8])
	return c
}

// maxAllBytes limits what the history has of all tools: a catalogue is in one commit, with the tools of plugins.
const maxAllBytes = 512 << 10

// share is what each of several sizes may have of a sum: where all do not fit, those that need less than an equal part keep theirs, and the
// others share the rest. So no server loses its tools to another one, whatever the order of their starts.
func share(sizes []int, all int) int {
	slices.Sort(sizes)
	for i, size := range sizes {
		if equal := all / (len(sizes) - i); size > equal {
			return equal
		}
		all -= size
	}
	return math.MaxInt
}

// bind adds a tool to a set, with the handler that calls it.
func (s *Servers) bind(into *plugin.Tools, o *offer, t *tool) error {
	parsed, err := schema.Parse("inputSchema", t.Schema)
	if err != nil {
		return err
	}
	declared := plugin.Tool{
		Name: t.Name, Description: t.Description, Effects: t.Effects, Source: o.Server, Schema: parsed, Stays: true,
		Grace: cancelGrace, Retry: plugin.Retry{Attempts: 2},
		Where: func() plugin.Where { return s.where(o.Server) },
	}
	return into.Add(declared, func(ctx context.Context, call plugin.Call, args json.RawMessage) (plugin.Result, error) {
		source := s.own[o.Server]
		if source == nil {
			return plugin.Result{}, unavailable(o.Server, "does not run on this node")
		}
		return source.call(ctx, t, call, args)
	})
}

// cancelGrace is how long a call may take to return after its turn was cancelled: the server is told, and may answer.
const cancelGrace = 2 * time.Second

// where is where the calls of a server run: here, where this node has it and it runs, and no other node's does.
func (s *Servers) where(server string) plugin.Where {
	own := s.own[server]
	switch {
	case own != nil && own.running():
		return plugin.WhereHere
	case s.elsewhere(server):
		return plugin.WhereElsewhere
	case own != nil: // it may start, and it knows why not
		return plugin.WhereHere
	}
	return plugin.WhereNowhere
}

// ID implements [plugin.Factory].
func (*Servers) ID() string { return ID }

// pin is what the history has of the servers in a session: the catalogue of the turn.
type pin struct {
	Catalogue string `json:"catalogue,omitempty"` // hash; empty: there was none
}

func pinned(in plugin.BuildContext) string {
	var at pin
	_ = json.Unmarshal(in.State(ID), &at) // without a state, none
	return at.Catalogue
}

// Revision implements [plugin.Revised].
func (s *Servers) Revision(in plugin.BuildContext) string {
	if in.InTurn {
		return pinned(in)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list.hash
}

// Build implements [plugin.Factory]. While a turn runs the session has the catalogue that the turn began with; on a node that
// does not know that one, the current one.
func (s *Servers) Build(in plugin.BuildContext) (plugin.Plugin, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if hash := pinned(in); in.InTurn && hash != s.list.hash {
		for _, c := range s.older {
			if c.hash == hash {
				return &sessionTools{list: c, log: s.log}, nil
			}
		}
	}
	return &sessionTools{list: s.list, log: s.log}, nil
}

// LeftOut implements [plugin.LeavesOut].
func (s *Servers) LeftOut() []api.LeftOutTool {
	s.mu.Lock()
	list := slices.Clone(s.list.leftOut)
	s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.own)) {
		if why := s.own[name].trouble(); why != "" {
			list = append(list, api.LeftOutTool{Source: name, Reason: why})
		}
	}
	return list
}

// sessionTools are the tools of all servers in one session.
type sessionTools struct {
	plugin.State[pin]
	list *catalogue
	log  *zap.Logger
}

// Register implements [plugin.Plugin]. It leaves out tools whose names earlier plugins of the stack have: a server must not
// keep sessions from running.
func (t *sessionTools) Register(r *plugin.Registrar) error {
	if err := r.Tools(t.list.tools); err != nil {
		t.log.Warn("tools are left out", zap.Error(err))
	}
	r.Prompt(func(context.Context, plugin.PromptContext) ([]events.Contribution, error) {
		return t.list.instructions, nil
	})
	for name, set := range t.list.sources {
		r.Source(name, func(context.Context) (*plugin.Tools, error) { return set, nil })
	}
	return nil
}

// TurnStarts implements [plugin.TurnStarter].
func (t *sessionTools) TurnStarts() {
	if t.Load().Catalogue != t.list.hash {
		t.Update(func(at *pin) { at.Catalogue = t.list.hash })
	}
}

func unavailable(server, what string) *plugin.Failure {
	return failure(plugin.ClassUnavailable, "the server "+server+" "+what)
}

func failure(class, message string) *plugin.Failure {
	f := &plugin.Failure{Class: class, Message: events.Clip(strings.ToValidUTF8(message, "\uFFFD"), maxFailure, "...")}
	if class == plugin.ClassUnavailable {
		f.Code = plugin.CodeUnavailable
	}
	return f
}

// maxFailure limits the message of a failure, in bytes.
const maxFailure = 16<<10 - 4
