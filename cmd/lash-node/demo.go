package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events/localfile"
	"github.com/lash-go/lash/projector/follow"
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
	stage, err := playback.Open(ctx, playback.StageConfig{Dir: c.Store, Servers: c.Servers, Profile: c.Profile, Actor: "demo"})
	if err != nil {
		return err
	}
	defer stage.Close()
	d := &demo{Stage: stage, cmd: c, output: newDemoOutput(c, s)}
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
	*playback.Stage
	cmd    *demoCmd
	output *demoOutput
}

// stopGrace bounds how long running turns may continue before they return to the queue.
const stopGrace = 5 * time.Second

func (d *demo) run(ctx context.Context, plans []*playback.Plan) error {
	d.output.start(plans, d.promise())
	began := time.Now()
	for _, plan := range plans {
		if err := d.Player.Add(plan); err != nil {
			return err
		}
	}
	if err := d.Work(ctx, d.cmd.Workers); err != nil {
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
	sum.Conflicts = d.Conflicts()
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
	live := d.output.follow(plan, d.Bus)
	r.err = d.Player.Play(ctx, plan, func(step *playback.Step) {
		if s, err := d.Host.State(ctx, plan.Session); err == nil {
			live.step(step, s)
		}
	})
	if r.err != nil {
		return r
	}
	if r.state, r.err = d.Host.State(ctx, plan.Session); r.err != nil {
		return r
	}
	if err := r.state.Check(); err != nil {
		r.err = fmt.Errorf("session %s: broken invariant: %w", plan.Session, err)
		return r
	}
	diff, err := playback.Compare(ctx, d.Bus, plan, r.state)
	if diff != nil {
		err = diff
	}
	// Project updates the rows of the session, so that the store is complete when the demo ends.
	r.err = errors.Join(err, follow.NewProjector(d.Bus, nil).Project(ctx, plan.Session))
	return r
}

// write ignores errors: there is no other writer to report them to.
func write(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
