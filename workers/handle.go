package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// startTool begins a tool as a background task of this process. The task's id
// follows from the call, so that code which runs again begins nothing twice.
func (d *dispatch) startTool(ctx context.Context, n int, tool string, args json.RawMessage) (string, error) {
	effect := events.EffectID(fmt.Sprintf("%s/%d", d.call.Effect, n))
	id := events.TaskID(events.DerivedID("tool-", string(d.session), string(effect)))
	_, err := d.w.host.Task(ctx, d.session, id)
	if err == nil {
		return string(id), nil // an earlier run began it
	}
	if !errors.Is(err, session.ErrUnknownTask) {
		return "", err
	}
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	entry, known := d.seen.state.Catalog.Tool(tool)
	inner := &dispatch{
		w: d.w, session: d.session, turn: d.turn, call: d.call, seen: d.seen, stack: d.stack, tools: d.tools,
		callable: known && entry.Callable(), facts: noFacts, parked: new(parking), inner: true, fixed: true,
	}
	inner.call.Effect, inner.call.Tool, inner.call.Args, inner.call.Blob = effect, tool, args, events.BlobRef{}
	inner.call.Answer, inner.call.Resolved = nil, nil
	release := d.w.host.HoldStack(d.session)
	_, err = d.w.tasks.SpawnManaged(ctx, d.session, api.TaskRequest{ID: id, Of: events.TaskTool, Producer: tool},
		func(ctx context.Context, _ *RunningTask) (string, error) {
			defer release()
			return inner.background(ctx)
		})
	switch {
	case err == nil:
		return string(id), nil
	case errors.Is(err, session.ErrTaskRunning):
		release()
		return string(id), nil
	case errors.Is(err, ErrNotStarted):
		release()
		return "", &plugin.Failure{Class: plugin.ClassUnavailable, Code: plugin.CodeUnavailable, Message: "no tools can be started here"}
	}
	release()
	return "", err
}

var errNoNesting = errors.New("a tool that was started cannot call tools")

// noFacts is for calls that no turn waits for.
func noFacts(context.Context, ...events.Payload) error { return errNoNesting }

// background runs a started tool, with the hooks around it, and gives the summary of its task.
func (d *dispatch) background(ctx context.Context) (string, error) {
	var out *events.ToolResult
	got := d.seen.askBefore(ctx, d.stack, d.plain(), d.call.Tool, d.call.Args)
	switch {
	case got.result != nil:
		out = got.result
	case got.ask != "":
		return "", errors.New("the call needs an approval, which a tool that was started cannot have")
	default:
		if got.args != nil {
			d.call.Args = got.args
		}
		pending := false
		if out, pending = d.run(ctx); pending {
			return "", errPendingNested
		}
	}
	switch {
	case out == nil:
		return "", context.Cause(ctx)
	case out.Outcome != events.OutcomeSuccess:
		return "", errors.New(out.Text)
	}
	return d.w.summary(ctx, out.Text)
}

// blobMark begins the summary of a task whose result is kept outside of the history.
const blobMark = "[blob] "

// summary is a result's text as a task carries it: texts that are too long go to a blob.
func (w *Worker) summary(ctx context.Context, text string) (string, error) {
	if len(text) <= events.MaxTaskText && !strings.HasPrefix(text, blobMark) {
		return text, nil
	}
	ref, err := w.blobs.PutBlob(ctx, []byte(text))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s%s %d", blobMark, ref.Digest, ref.Size), nil
}

// summarised is the text that a summary stands for.
func (w *Worker) summarised(ctx context.Context, summary string) (string, error) {
	rest, kept := strings.CutPrefix(summary, blobMark)
	if !kept {
		return summary, nil
	}
	var ref events.BlobRef
	if _, err := fmt.Sscanf(rest, "%s %d", &ref.Digest, &ref.Size); err != nil {
		return "", fmt.Errorf("summary of a task: %w", err)
	}
	text, err := w.blobs.Blob(ctx, ref)
	return string(text), err
}

// handleLook is how long the wait for a task trusts the silence of the live subject.
const handleLook = 5 * time.Second

// awaitTool waits for a started tool, whichever node runs it.
func (d *dispatch) awaitTool(ctx context.Context, handle string) (plugin.Result, error) {
	live, err := d.w.cfg.Bus.Live(d.session, 64)
	if err != nil {
		return plugin.Result{}, err
	}
	defer live.Close()
	look := time.NewTicker(handleLook)
	defer look.Stop()
	for {
		t, err := d.w.host.Task(ctx, d.session, events.TaskID(handle))
		switch {
		case errors.Is(err, session.ErrUnknownTask):
			return plugin.Result{}, gone("there is no task " + handle + ", or its result was forgotten")
		case err != nil:
			return plugin.Result{}, err
		case t.To != "":
			return plugin.Result{}, gone(fmt.Sprintf("task %s is session %s's now", handle, t.To))
		case !t.Live():
			return d.endedTask(ctx, &t)
		}
		if err := changed(ctx, live, look.C); err != nil {
			return plugin.Result{}, err
		}
	}
}

func gone(message string) error {
	return &plugin.Failure{Class: plugin.ClassUnavailable, Code: plugin.CodeUnavailable, Message: message}
}

// changed waits for a commit of the session, or for the time to look.
func changed(ctx context.Context, live *bus.Live, look <-chan time.Time) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-look:
			return nil
		case <-live.Back:
			return nil
		case msg := <-live.C:
			if bus.ParseLive(msg).Seq != 0 {
				return nil
			}
		}
	}
}

// endedTask is what a task came to.
func (d *dispatch) endedTask(ctx context.Context, t *projector.Task) (plugin.Result, error) {
	if t.State == events.TaskCompleted {
		text, err := d.w.summarised(ctx, t.Summary)
		return plugin.Result{Text: text}, err
	}
	r := plugin.Result{Outcome: events.OutcomeFailure, Text: t.Summary, Class: plugin.ClassExecution, Code: plugin.CodeTaskFailed}
	if t.State == events.TaskCancelled {
		r.Outcome, r.Text = events.OutcomeCancelled, "the task was cancelled"
	}
	return r, nil
}
