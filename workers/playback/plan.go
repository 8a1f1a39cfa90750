package playback

import (
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/recording"
)

// Plan is the actions of the client, the model and the tools that replay a conversation.
type Plan struct {
	Session events.SessionID
	Conv    *recording.Conversation
	Steps   []Step // of the client, in order
	Turns   map[events.TurnID]*Turn
	Tools   []string // names of the called tools
	// MayLose are the tools whose calls may be lost with their worker: the history may have a lost call in place of
	// the result.
	MayLose map[string]bool
}

// Step is one action of the client. Exactly one field is set.
type Step struct {
	Turn   *Turn
	action *action
}

// action is a change between turns, or inside a turn if a reply or a call has it.
type action struct {
	entry  int // index of the recorded entry
	node   *api.AppendNode
	inject *api.InjectRequest
	config *recording.Config
	frame  *api.FrameRequest
	keep   []events.NodeID // of the frame: the first of them on the active path stays visible, and what follows
	branch *events.NodeID
}

// Turn is a recorded turn.
type Turn struct {
	ID      events.TurnID
	input   events.TurnInput
	before  []action // inputs added while the session is idle
	Replies []*Reply // by iteration
	cancel  bool     // the client cancels once the model or a tool hangs
	end     events.TurnEnd
}

// Reply is a recorded reply of the model.
type Reply struct {
	entry    int
	before   []action // since the message before
	Response llm.Response
	hang     bool // aborted: the streamed part stays when the client cancels
	Calls    []*Call
}

// Call is a recorded tool call.
type Call struct {
	Result *recording.Result // nil: there is none
	Hang   bool              // waits for the client's cancel
	Inject []action          // user messages that arrived while it ran
}
