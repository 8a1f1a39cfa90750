package api

import (
	"context"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// Reader reads sessions: one session at the end of its history or at a sequence, lists, and bodies. What it returns is
// a copy that nothing changes later. Errors of the methods with a session: [events.ErrNoSession], unless they say
// otherwise, and [ErrForbidden] for a caller that may not read it.
type Reader interface {
	Finder
	BodyReader

	// State returns the session's state at the end of its history.
	State(ctx context.Context, id events.SessionID) (*projector.State, error)
	// StateAt returns the session's state at a sequence. It folds the history from the beginning.
	StateAt(ctx context.Context, id events.SessionID, seq events.Seq) (*projector.State, error)
	// View returns the conversation in the current frame, with the settings of its turns.
	View(ctx context.Context, id events.SessionID) (projector.ReadView, error)

	// AssembledTurn returns an ended turn with its replies and calls. Errors: [ErrUnknownTurn], [ErrTurnRunning].
	AssembledTurn(ctx context.Context, id events.SessionID, turn events.TurnID) (AssembledTurn, error)
	// ToolOutput returns the whole output of a call that has returned, also where the model got another text. Errors:
	// [ErrUnknownCall].
	ToolOutput(ctx context.Context, id events.SessionID, call events.EffectID) (string, error)
	// Approvals lists the requests for approval of the running turn that wait for an answer, and then those of the agents that work
	// for the session, and of theirs. A caller that may not read an agent's session gets none of its requests.
	Approvals(ctx context.Context, id events.SessionID) ([]PendingApproval, error)

	// Tasks lists the session's tasks by creation, ended ones too. A session that does not exist has none.
	Tasks(ctx context.Context, id events.SessionID) ([]projector.Task, error)
	// Task returns the record of a task; of a transferred one it names the session that has it. Errors: [ErrUnknownTask].
	Task(ctx context.Context, id events.SessionID, name events.TaskID) (projector.Task, error)
}
