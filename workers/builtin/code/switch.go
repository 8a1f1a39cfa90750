package code

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/code/internal/sandbox"
)

// seedType is the type of the node with the first variables of a frame.
const seedType = "code.seed"

// seedOf are the first variables of the frame; nil if there are none.
func seedOf(in plugin.ExecContext) []byte {
	for i := range in.Chronology {
		if n := in.Chronology[i].Node; n != nil && n.Kind == events.NodeProtocol && n.Type == seedType {
			return n.Body
		}
	}
	return nil
}

// switchTo continues with a task in a new frame. The frame's id follows from the turn's: a turn switches once.
func switchTo(session events.SessionID, turn events.TurnID, task string, names []string, seed events.NewNode) *events.FrameSwitch {
	s := &events.FrameSwitch{Frame: events.FrameID(fmt.Sprintf("%s:frame:code:%s", session, turn)), Task: task}
	if len(names) == 0 {
		return s
	}
	seed.ID, seed.Kind, seed.Type = events.NodeID("code-seed-"+string(turn)), events.NodeProtocol, seedType
	notice := plugin.Say(events.RoleUser, "These variables are there from before: "+strings.Join(names, ", "))
	notice.ID, notice.Origin = events.MessageID("code-names-"+string(turn)), ID
	s.Nodes = []events.NewNode{seed, {ID: events.NodeID(notice.ID), Kind: events.NodeMessage, Message: notice}}
	return s
}

// continueAs moves the seed of a program, with the tasks that it refers to, to a new frame.
func continueAs(ctx context.Context, in plugin.ExecContext, c *sandbox.Continuation) (*events.FrameSwitch, error) {
	handles, err := sandbox.Handles(c.State)
	if err != nil {
		return nil, err
	}
	tasks, err := in.Host.Tasks(ctx, in.Session)
	if err != nil {
		return nil, err
	}
	var keptTasks []events.TaskID
	for _, h := range handles {
		id := events.TaskID(h)
		ended := slices.ContainsFunc(tasks, func(t projector.Task) bool { return t.ID == id && !t.Live() })
		if !ended { // an ended task needs no owner, and can be waited for as before
			keptTasks = append(keptTasks, id)
		}
	}
	if err := in.Host.CheckTasks(ctx, in.Session, keptTasks); err != nil {
		return nil, err
	}
	now, err := in.Host.SnapshotCurrent(ctx)
	if err != nil {
		return nil, err
	}
	if t := now.Turn(); t != nil && t.Switches < events.MaxSwitches { // at the limit the turn ends here
		if _, err := in.Host.CancelTasksExcept(ctx, in.Session, keptTasks); err != nil {
			return nil, err
		}
	}
	return switchTo(in.Session, in.Turn, c.Task, c.Names, events.NewNode{Body: c.State}), nil
}

const continuation = `The conversation is about to be cut off here, because it has become long. Write the task for whoever goes on, who will read nothing of the above: what the user wants, what has been done and found out, and what is left to do. The variables stay; say what is in those that matter. Answer with the task only, without code.`

// BeforeModelCall continues in a new frame when the conversation fills the window.
func (*protocol) BeforeModelCall(ctx context.Context, in plugin.ModelCallContext) (*events.FrameSwitch, error) {
	o, err := ParseOptions(in.Options)
	if err != nil {
		return nil, err
	}
	if o.ContinueAt == 0 || in.Window <= 0 || in.LastPrompt*100 < in.Window*o.ContinueAt || !hasReply(in.View) {
		return nil, nil //nolint:nilnil // no switch, no error
	}
	messages := renderPrograms(in.Prompt.Messages)
	if in.Prompt.System != "" {
		messages = append([]events.Message{plugin.Say(events.RoleSystem, in.Prompt.System)}, messages...)
	}
	got, err := in.Host.Complete(ctx, plugin.CompletionRequest{
		Key: "continue", Messages: append(messages, plugin.Say(events.RoleUser, continuation)),
	}, "continuation")
	if err != nil {
		return nil, err
	}
	task := strings.TrimSpace(got.Text)
	if task == "" {
		return nil, nil //nolint:nilnil // no task to continue with: the turn continues here
	}
	seed, names, err := carried(in.View)
	if err != nil {
		return nil, err
	}
	return switchTo(in.Session, in.Turn, task, names, seed), nil
}

// hasReply reports whether the frame has a reply of the model. A frame without one is never full, whatever the size of
// the last prompt.
func hasReply(v projector.ReadView) bool {
	return slices.ContainsFunc(v.Messages, func(m events.Message) bool { return m.Role == events.RoleAssistant })
}

// carried are all variables of the current frame.
func carried(v projector.ReadView) (events.NewNode, []string, error) {
	seed := events.NewNode{Body: v.Frame.State, Blob: v.Frame.Blob}
	if len(seed.Body) == 0 && seed.Blob.IsZero() {
		for _, n := range v.Nodes {
			if n.Kind == events.NodeProtocol && n.Type == seedType {
				seed.Body, seed.Blob = n.Body, n.Blob
			}
		}
	}
	if !seed.Blob.IsZero() {
		return seed, []string{"all of your own"}, nil
	}
	names, err := sandbox.Names(seed.Body)
	return seed, names, err
}
