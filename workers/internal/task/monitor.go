package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/task"
	"github.com/lash-go/lash/workers/internal/process"
)

const (
	// monitorTimeout limits a command that sets no limit.
	monitorTimeout = 300 * time.Second
	// gatherFor is the time in which further lines join a commit.
	gatherFor = 20 * time.Millisecond
	// gatherLines limits the lines of one commit.
	gatherLines = 128
)

// monitor runs a monitor's command and records its lines and its end.
func (r *taskRun) monitor(ctx context.Context) taskEnd {
	name, _ := events.MonitorOf(r.claim.Task)
	s, err := r.t.cfg.Worker.Host.State(ctx, r.session)
	if err != nil {
		return taskEnd{err: err}
	}
	m, ok := s.Monitor(name)
	if !ok {
		return taskEnd{err: api.ErrUnknownMonitor}
	}
	spec := m.Spec
	lines := make(chan task.Line, gatherLines)
	read := func(stderr bool) func(io.Reader) {
		return func(from io.Reader) { readLines(ctx, from, stderr, lines) }
	}
	where, err := r.t.cfg.Calls.Environments.Find(cmp.Or(spec.Environment, s.Config.Environment))
	var p *process.Process
	if err == nil {
		dir := spec.Cwd
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(where.Dir, dir)
		}
		p, err = process.Start(ctx, process.Command{Script: spec.Command, Dir: dir, Place: spec.Place, Env: spec.Env, In: where}, read(false), read(true))
	}
	if err != nil {
		return r.endMonitor(ctx, events.MonitorEnded{State: events.MonitorFailed, Exit: -1, Error: "start: " + err.Error()})
	}
	reported := make(chan struct{})
	go func() { defer close(reported); r.report(ctx, lines) }() // ends when lines is closed, below
	end := attend(ctx, p, &spec, where.MaxTime)
	close(lines)
	<-reported
	if ctx.Err() != nil {
		return taskEnd{err: context.Cause(ctx)}
	}
	return r.endMonitor(ctx, end)
}

// attend waits for the end of the command, and stops it at its time limit or when ctx ends.
// longest is the limit of the environment; 0: none.
func attend(ctx context.Context, p *process.Process, spec *events.MonitorSpec, longest time.Duration) events.MonitorEnded {
	limit := cmp.Or(time.Duration(spec.TimeoutMillis)*time.Millisecond, monitorTimeout)
	if longest > 0 {
		limit = min(limit, longest)
	}
	if !spec.Persistent {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	exit := p.Attend(ctx)
	if exit.Killed {
		return events.MonitorEnded{State: events.MonitorFailed, Exit: -1, Error: fmt.Sprintf("timed out after %v", limit)}
	}
	return ended(exit)
}

func ended(exit process.Exit) events.MonitorEnded {
	switch {
	case exit.Err != nil || exit.Signal != 0:
		return events.MonitorEnded{State: events.MonitorFailed, Exit: -1, Error: exit.How()}
	case exit.Status == 0:
		return events.MonitorEnded{State: events.MonitorExited}
	}
	return events.MonitorEnded{State: events.MonitorFailed, Exit: int64(exit.Status)}
}

func (r *taskRun) endMonitor(ctx context.Context, end events.MonitorEnded) taskEnd {
	err := r.retry(ctx, func(ctx context.Context) error { return r.t.cfg.Worker.EndMonitor(ctx, r.session, r.claim, end) })
	return taskEnd{recorded: err == nil, err: err}
}

// retry retries until do succeeds, the claim is lost or ctx ends.
func (r *taskRun) retry(ctx context.Context, do func(context.Context) error) error {
	for {
		err := do(ctx)
		if err == nil || errors.Is(err, api.ErrTaskTaken) {
			return err
		}
		r.t.log.Warn("record monitor", zap.String("session", string(r.session)), zap.Error(err))
		if !delay.Sleep(ctx, 200*time.Millisecond) {
			return err
		}
	}
}

// report commits lines until the channel is closed. After the loss of the claim it drops them.
func (r *taskRun) report(ctx context.Context, lines <-chan task.Line) {
	lost := false
	var first task.Line
	pending := false
	for {
		if !pending {
			var more bool
			if first, more = <-lines; !more {
				return
			}
		}
		var batch []task.Line
		batch, first, pending = gather(first, lines)
		if lost {
			continue
		}
		err := r.retry(ctx, func(ctx context.Context) error { return r.t.cfg.Worker.ReportMonitor(ctx, r.session, r.claim, batch) })
		if err != nil {
			lost = true
			r.notify()
		}
	}
}

// gather collects the lines that arrive within [gatherFor] and fit one event. It returns a line that does not fit as
// next.
func gather(first task.Line, lines <-chan task.Line) (batch []task.Line, next task.Line, pending bool) {
	batch = []task.Line{first}
	size := len(first.Text)
	moment := time.NewTimer(gatherFor)
	defer moment.Stop()
	for len(batch) < gatherLines {
		select {
		case <-moment.C:
			return batch, task.Line{}, false
		case l, ok := <-lines:
			if !ok {
				return batch, task.Line{}, false
			}
			if size += len(l.Text); size > events.MaxMonitorBatch {
				return batch, l, true
			}
			batch = append(batch, l)
		}
	}
	return batch, task.Line{}, false
}
