package session

import (
	"context"
	"fmt"
	"math"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/internal/check"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/task"
)

// RegisterMonitor adds a monitor, or replaces the specification that it uses from its next start on. An unchanged
// specification appends nothing. An armed monitor starts at the next poll, which is [Host.TakeMonitorUpdates] or a
// turn on a node.
func (h *Host) RegisterMonitor(ctx context.Context, id events.SessionID, spec events.MonitorSpec) error {
	if err := h.checkMonitor(&spec); err != nil {
		return err
	}
	return h.decideMonitors(ctx, api.RequestMeta{}, id, requestContent{cause: "register monitor"}, func(s *projector.State) ([]events.Event, error) {
		return task.RegisterMonitor(s, spec)
	})
}

// StartMonitor registers and arms a monitor. When it returns nil that is durable, and a worker runs the monitor soon.
// A running monitor continues.
func (h *Host) StartMonitor(ctx context.Context, id events.SessionID, spec events.MonitorSpec) error {
	if err := h.checkMonitor(&spec); err != nil {
		return err
	}
	ctx, reqMeta := api.TakeRequestMeta(ctx)
	err := h.decideMonitors(ctx, reqMeta, id, requestContent{operation.StartMonitor.Name, "start monitor", &spec}, func(s *projector.State) ([]events.Event, error) {
		list, err := task.StartMonitor(s, spec)
		return task.OnBehalf(s, list, reqMeta.Actor), err
	})
	if err != nil {
		return err
	}
	_, err = h.rewakeTask(ctx, id, events.TaskOf(spec.ID))
	return err
}

// checkMonitor refuses an environment that is locked, or not there.
func (h *Host) checkMonitor(spec *events.MonitorSpec) error {
	if spec.Environment == "" {
		return nil
	}
	if err := h.cfg.Locks.Environment("environment", spec.Environment); err != nil {
		return err
	}
	return h.checkEnvironment("environment", spec.Environment)
}

// StopMonitor stops a monitor, whether it runs or not. It stays stopped until the next StartMonitor. An unknown
// monitor is [api.ErrUnknownMonitor]. The worker that runs it kills its processes when it receives the stop.
func (h *Host) StopMonitor(ctx context.Context, id events.SessionID, monitor events.MonitorID) error {
	ctx, reqMeta := api.TakeRequestMeta(ctx)
	return h.decideMonitors(ctx, reqMeta, id, requestContent{operation.StopMonitor.Name, "stop monitor", &monitor}, func(s *projector.State) ([]events.Event, error) {
		return task.StopMonitor(s, monitor)
	})
}

// AckMonitorWakes acknowledges pending wakes for a host that delivers the lines by itself: it cancels their inputs.
func (h *Host) AckMonitorWakes(ctx context.Context, id events.SessionID, ids []events.MonitorID) error {
	return h.decideMonitors(ctx, api.RequestMeta{}, id, requestContent{cause: "acknowledge wakes"}, func(s *projector.State) ([]events.Event, error) {
		return task.AckWakes(s, ids), nil
	})
}

func (h *Host) decideMonitors(ctx context.Context, reqMeta api.RequestMeta, id events.SessionID, c requestContent, d decideFunc) error {
	err := h.decideByKey(ctx, id, c, reqMeta, func(s *projector.State) ([]events.Event, error) {
		if err := check.Open(s); err != nil {
			return nil, err
		}
		return d(s)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", c.cause, err)
	}
	return nil
}

// MonitorSnapshot returns the state of the session's monitors. It starts none.
func (h *Host) MonitorSnapshot(ctx context.Context, id events.SessionID) (api.MonitorSnapshot, error) {
	s, err := h.State(ctx, id)
	if err != nil {
		return api.MonitorSnapshot{}, fmt.Errorf("monitor snapshot: %w", err)
	}
	return api.MonitorSnapshot{Revision: s.Feed.Revision, Active: countActive(s), Monitors: s.Monitors}, nil
}

func countActive(s *projector.State) int {
	n := 0
	for i := range s.Monitors {
		if s.Monitors[i].State == events.MonitorRunning {
			n++
		}
	}
	return n
}

// TakeMonitorUpdates starts armed monitors that do not run, and drains the updates. For a caller without
// [api.RightCommand] it starts none.
func (h *Host) TakeMonitorUpdates(ctx context.Context, id events.SessionID) (api.MonitorUpdates, error) {
	return h.TakeMonitorUpdatesTo(ctx, id, math.MaxInt64)
}

// TakeMonitorUpdatesTo is [Host.TakeMonitorUpdates] up to and including the update with sequence upto. A delayed
// request therefore drains no later updates.
func (h *Host) TakeMonitorUpdatesTo(ctx context.Context, id events.SessionID, upto int64) (api.MonitorUpdates, error) {
	ctx, reqMeta := api.TakeRequestMeta(ctx)
	if err := h.startArmed(ctx, id); err != nil {
		return api.MonitorUpdates{}, fmt.Errorf("take monitor updates: %w", err)
	}
	var u api.MonitorUpdates
	err := h.decideByKey(ctx, id, requestContent{operation.TakeMonitorUpdates.Name, "take monitor updates", &upto}, reqMeta, func(s *projector.State) ([]events.Event, error) {
		u = api.MonitorUpdates{Revision: s.Feed.Revision, Active: countActive(s)}
		list, taken := task.TakeUpdates(s, upto)
		if len(list) > 0 {
			if err := api.CheckRead(ctx, s); err != nil {
				return nil, err
			}
		}
		for _, up := range list {
			e := api.MonitorEvent{Sequence: up.Sequence, Monitor: up.Monitor, Message: up.Message, Stderr: up.Stderr, Input: up.Wake}
			if up.Wake != "" {
				e.Text = task.WakeText(up.Monitor, up.Message)
			}
			u.Events = append(u.Events, e)
		}
		return taken, nil
	})
	return u, err
}

// startArmed registers the tasks of armed monitors that have none, and publishes a wake for those that no worker has
// claimed. For a caller without [api.RightCommand] it does nothing.
func (h *Host) startArmed(ctx context.Context, id events.SessionID) error {
	s, err := h.State(ctx, id)
	if err != nil || !api.Allows(ctx, api.RightCommand, s) {
		return err
	}
	ctx = api.WithNeeds(ctx, api.RightCommand)
	specs, err := h.declared(ctx, id)
	if err != nil {
		return err
	}
	then := func(s *projector.State, _ bool) error {
		for i := range s.Tasks {
			if t := &s.Tasks[i]; t.Of == events.TaskMonitor && t.Attempt == 0 {
				h.hints.Task(s, t.ID)
			}
		}
		return nil
	}
	_, reqMeta := api.TakeRequestMeta(ctx)
	o := decideOptions{meta: h.followingMeta(ctx, "start armed monitors"), then: then}
	return h.decideUntilAppended(ctx, id, o, func(s *projector.State) ([]events.Event, error) {
		if s.Status != projector.StatusOpen {
			return nil, nil
		}
		list, err := task.Declare(s, specs)
		return task.OnBehalf(s, list, reqMeta.Actor), err
	})
}

// declared are the monitors that the session's plugins declare; none where this host has no plugins.
func (h *Host) declared(ctx context.Context, id events.SessionID) (specs []events.MonitorSpec, err error) {
	if h.plugins == nil {
		return nil, nil
	}
	err = h.withStack(ctx, id, func(p *plugin.Stack, _ *projector.State) error {
		specs = p.Monitors()
		return nil
	})
	return specs, err
}
