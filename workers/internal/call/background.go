package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/plugin"
)

// startTool starts a tool as a background task of this process. The task's id follows from the call, so code that
// runs again starts no second task.
func (d *dispatch) startTool(ctx context.Context, n int, tool string, args json.RawMessage) (string, error) {
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	started := newDispatch(d.at, d.stack, d.catalog, d.innerCall(n, tool, args))
	started.inner, started.cannotWait = true, true
	id := events.TaskID(events.DerivedID("tool-", string(d.at.session), string(started.call.Effect)))
	_, err := d.env.Worker.Host.Task(ctx, d.at.session, id)
	if err == nil {
		return string(id), nil // an earlier run started it
	}
	if !errors.Is(err, api.ErrUnknownTask) {
		return "", err
	}
	release := d.env.Worker.HoldStack(d.at.session)
	err = d.env.Worker.SpawnTool(ctx, d.at.session, api.TaskRequest{ID: id, Of: events.TaskTool, Producer: tool, Close: events.CloseCancel}, func(ctx context.Context) (string, error) {
		defer release()
		return started.background(ctx)
	})
	if err == nil {
		return string(id), nil
	}
	release()
	switch {
	case errors.Is(err, api.ErrTaskRunning):
		return string(id), nil
	case errors.Is(err, plugin.ErrUnavailable):
		return "", &plugin.Failure{Class: plugin.ClassUnavailable, Code: plugin.CodeUnavailable, Message: "no tools can be started here"}
	}
	return "", err
}

var errNoNesting = errors.New("a tool that was started cannot call tools")

// background runs a started tool, with the hooks around it, and returns the summary of its task.
func (d *dispatch) background(ctx context.Context) (string, error) {
	var out *events.ToolResult
	got := d.at.hooksBefore(ctx, d.stack, d.pluginCall(), d.call.Tool, d.call.Args)
	switch {
	case got.result != nil:
		out = got.result
	case got.question != "":
		return "", errors.New("the call needs an approval, which a tool that was started cannot have")
	default:
		d.call.Places = got.places
		if got.args != nil {
			d.call.Args = got.args
		}
		pending := false
		if out, pending = d.run(ctx); pending {
			return "", errPendingNested
		}
		d.tellRecorded() // no other worker runs it
	}
	switch {
	case out == nil:
		return "", context.Cause(ctx)
	case out.Outcome != events.OutcomeSuccess:
		return "", errors.New(out.Text)
	}
	return d.env.summary(ctx, out.Text)
}

// blobMark is the prefix of summaries that refer to a text outside the log.
const blobMark = "[blob] "

// summary converts a result's text to a task summary. A text above the limit of summaries goes to a blob.
func (e *Env) summary(ctx context.Context, text string) (string, error) {
	text, err := blob.FilterText(ctx, e.Blobs, text)
	if err != nil {
		return "", err
	}
	if len(text) <= events.MaxTaskText && !strings.HasPrefix(text, blobMark) {
		return text, nil
	}
	ref, err := e.Blobs.PutBlob(ctx, []byte(text))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s%s %d", blobMark, ref.Digest, ref.Size), nil
}

// resolveSummary returns the text of a summary, also from a blob.
func (e *Env) resolveSummary(ctx context.Context, summary string) (string, error) {
	rest, kept := strings.CutPrefix(summary, blobMark)
	if !kept {
		return summary, nil
	}
	var ref events.BlobRef
	if _, err := fmt.Sscanf(rest, "%s %d", &ref.Digest, &ref.Size); err != nil {
		return "", fmt.Errorf("summary of a task: %w", err)
	}
	text, err := blob.Body(ctx, e.Blobs, nil, ref)
	return string(text), err
}

// awaitTool waits for a started tool. Any node may run it.
func (d *dispatch) awaitTool(ctx context.Context, handle string) (plugin.Result, error) {
	waiter, err := d.env.Worker.Subscribe(d.at.session, func(m bus.LiveMessage) bool { return m.AboutTasks })
	if err != nil {
		return plugin.Result{}, err
	}
	defer waiter.Close()
	var ended projector.Task
	err = waiter.Wait(ctx, 0, func(s *projector.State) (bool, error) {
		t, known := s.Task(events.TaskID(handle))
		switch {
		case !known:
			return false, unavailable("there is no task " + handle + ", or its result was forgotten")
		case t.To != "":
			return false, unavailable(fmt.Sprintf("task %s is session %s's now", handle, t.To))
		}
		ended = *t
		return !t.Live(), nil
	})
	if err != nil {
		return plugin.Result{}, err
	}
	return d.endedTask(ctx, &ended)
}

func unavailable(message string) error {
	return &plugin.Failure{Class: plugin.ClassUnavailable, Code: plugin.CodeUnavailable, Message: message}
}

// endedTask is the result of a task that has ended.
func (d *dispatch) endedTask(ctx context.Context, t *projector.Task) (plugin.Result, error) {
	if t.State == events.TaskCompleted {
		text, err := d.env.resolveSummary(ctx, t.Summary)
		return plugin.Result{Text: text}, err
	}
	r := plugin.Result{Outcome: events.OutcomeFailure, Text: t.Summary, Class: plugin.ClassExecution, Code: plugin.CodeTaskFailed}
	if t.State == events.TaskCancelled {
		r.Outcome, r.Text = events.OutcomeCancelled, "the task was cancelled"
	}
	return r, nil
}
