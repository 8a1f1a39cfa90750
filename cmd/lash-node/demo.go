package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events/localfile"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/playback"
	"github.com/lash-go/lash/workers/recording"
	"github.com/lash-go/lash/workers/recording/recordingtest"
)

type demoCmd struct {
	Chats   []string         `help:"Recorded conversations: OpenAI-format chats (one JSON object a line) or pi session files, told apart by content. Repeatable. Without it a sample conversation runs." placeholder:"FILE" type:"path"`
	Store   string           `help:"Keep the histories here. A second run over the same directory goes on where the first was stopped. Without it they are gone at the end." placeholder:"DIR" type:"path"`
	Workers int              `help:"Workers, and conversations at once." default:"4"`
	Servers int              `help:"Embedded servers: 1, or 3 that replicate everything." default:"1" enum:"1,3"`
	Profile busembed.Profile `help:"What an acknowledged append survives: interval or always (one server)." default:"interval" enum:"interval,always"`
	Full    bool             `help:"Print texts whole instead of their beginnings."`
	JSON    bool             `help:"Print one JSON summary instead of transcripts." name:"json"`
}

func (c *demoCmd) Run(ctx context.Context, s *streams) error {
	if c.Workers < 1 || c.Workers > 256 {
		return fmt.Errorf("--workers %d: want 1 to 256", c.Workers)
	}
	s.Printf("demo starts, %s", program.Build())
	convs, err := c.read()
	if err != nil {
		return err
	}
	d, err := c.open(ctx, s)
	if err != nil {
		return err
	}
	defer d.close()
	return d.run(ctx, plansOf(convs))
}

// read parses every file before anything starts, so bad input leaves no partial run.
func (c *demoCmd) read() ([]recording.Conversation, error) {
	if len(c.Chats) == 0 {
		return recordingtest.Read(recordingtest.Demo()), nil
	}
	var all []recording.Conversation
	for _, name := range c.Chats {
		f, err := localfile.Open(name)
		if err != nil {
			return nil, fmt.Errorf("--chats: %w", err)
		}
		convs, err := recording.Read(filepath.Base(name), f)
		_ = f.Close()
		if err != nil {
			return nil, err
		}
		all = append(all, convs...)
	}
	return all, nil
}

// demo is a running demonstration.
type demo struct {
	cmd     *demoCmd
	s       *streams
	output  *demoOutput
	store   string
	servers []*busembed.Server
	buses   []*bus.Bus
	nodes   []*workers.Node
	player  *playback.Player
	host    *session.Host
}

func (c *demoCmd) open(ctx context.Context, s *streams) (d *demo, err error) {
	d = &demo{cmd: c, s: s, store: c.Store, output: newDemoOutput(c, s)}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if d.store == "" {
		if d.store, err = os.MkdirTemp("", "lash-demo-"); err != nil {
			return nil, err
		}
	}
	if err := d.startServers(); err != nil {
		return nil, err
	}
	b, err := d.connect(ctx)
	if err != nil {
		return nil, err
	}
	if d.host, err = session.New(session.Config{Bus: b, Actor: "demo", Plugins: session.NoPlugins()}); err != nil {
		return nil, err
	}
	d.player = playback.NewPlayer(d.host)
	return d, nil
}

func (d *demo) startServers() (err error) {
	if d.cmd.Servers == 3 {
		d.servers, err = busembed.StartCluster(d.store)
		return err
	}
	one, err := busembed.Start(busembed.Config{StoreDir: d.store, Profile: d.cmd.Profile})
	if err == nil {
		d.servers = []*busembed.Server{one}
	}
	return err
}

// connect opens a bus of its own, as another process would.
func (d *demo) connect(ctx context.Context) (*bus.Bus, error) {
	cfg := bus.Config{Options: []nats.Option{d.servers[0].InProcess()}}
	if d.cmd.Servers == 3 {
		cfg = bus.Config{URL: busembed.URLs(d.servers), Replicas: 3}
	}
	b, err := bus.Open(ctx, cfg)
	if err == nil {
		d.buses = append(d.buses, b)
	}
	return b, err
}

// startNodes starts the workers after the player has every plan: turns of the store may run at once.
func (d *demo) startNodes(ctx context.Context) error {
	for range d.cmd.Workers {
		b, err := d.connect(ctx)
		if err != nil {
			return err
		}
		node, err := workers.NewNode(workers.Config{
			Bus: b, Provider: "scripted", Tools: d.player.Tools,
			Providers: map[string]llm.Provider{"scripted": d.player.Provider()},
		})
		if err != nil {
			return err
		}
		if err := node.Start(ctx); err != nil {
			return err
		}
		d.nodes = append(d.nodes, node)
	}
	return nil
}

// stopGrace bounds how long running turns may continue before they return to the queue.
const stopGrace = 5 * time.Second

func (d *demo) close() {
	ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
	defer cancel()
	for _, n := range d.nodes {
		n.Stop(ctx)
	}
	for _, b := range d.buses {
		b.Close()
	}
	for _, s := range d.servers {
		s.Stop()
	}
	if d.cmd.Store == "" && d.store != "" {
		_ = os.RemoveAll(d.store)
	}
}

func (d *demo) run(ctx context.Context, plans []*playback.Plan) error {
	d.output.start(plans, d.promise())
	began := time.Now()
	for _, plan := range plans {
		if err := d.player.Add(plan); err != nil {
			return err
		}
	}
	if err := d.startNodes(ctx); err != nil {
		return err
	}
	results := make([]result, len(plans))
	next := make(chan int)
	var drivers sync.WaitGroup
	for range d.cmd.Workers {
		drivers.Go(func() {
			for i := range next {
				results[i] = d.drive(ctx, plans[i])
				d.output.finished(results[i])
			}
		})
	}
	for i := range plans {
		select {
		case next <- i:
		case <-ctx.Done():
			results[i].err = context.Cause(ctx)
		}
	}
	close(next)
	drivers.Wait()
	sum := summarize(results)
	for _, b := range d.buses {
		sum.Conflicts += b.Conflicts()
	}
	sum.DurationMillis = time.Since(began).Milliseconds()
	return d.output.end(sum, results)
}

func (d *demo) promise() string {
	profile := d.cmd.Profile
	if d.cmd.Servers == 3 {
		profile = busembed.ProfileCluster
	}
	return fmt.Sprintf("%s: %s", profile, profile.Guarantee())
}

// drive drives one conversation to its end and compares.
func (d *demo) drive(ctx context.Context, plan *playback.Plan) result {
	r := result{plan: plan}
	live := d.output.follow(plan, d.buses[0])
	r.err = d.player.Play(ctx, plan, func(step *playback.Step) {
		if s, err := d.host.State(ctx, plan.Session); err == nil {
			live.step(step, s)
		}
	})
	if r.err != nil {
		return r
	}
	if r.state, r.err = d.host.State(ctx, plan.Session); r.err != nil {
		return r
	}
	if err := r.state.Check(); err != nil {
		r.err = fmt.Errorf("session %s: broken invariant: %w", plan.Session, err)
		return r
	}
	var diff *playback.Difference
	diff, r.err = playback.Compare(ctx, d.buses[0], plan, r.state)
	if diff != nil {
		r.err = diff
	}
	// Project updates the rows of the session, so that the store is complete when the demo ends.
	return r.orErr(follow.NewProjector(d.buses[0], nil).Project(ctx, plan.Session))
}

func (r result) orErr(err error) result {
	r.err = errors.Join(r.err, err)
	return r
}

// write ignores errors: there is no other writer to report them to.
func write(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
