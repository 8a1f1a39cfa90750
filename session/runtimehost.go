package session

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/turn"
)

// runtimeHost has the capabilities of one session for its plugins. They work on any node, because each is a decision on
// the session's history.
type runtimeHost struct {
	capabilities // The host, seen through an interface: a plugin cannot reach its other methods by a type assertion.
	h            *Host
	id           events.SessionID
	working      Working         // nil reads the history
	effect       events.EffectID // the calling effect, or empty; it names what must happen only once
}

// capabilities are those that the host itself has.
type capabilities interface {
	plugin.CatalogHost
	plugin.GraphHost
	plugin.OutputHost
	plugin.TimerHost
	plugin.ClockHost

	ToolState(ctx context.Context, id events.SessionID) (api.ToolState, error)
	ApplyToolState(ctx context.Context, id events.SessionID, state api.ToolState) (int64, error)
	SetToolsAvailability(ctx context.Context, id events.SessionID, names []string, level events.Override) (int64, error)
	ToolSources(ctx context.Context, id events.SessionID) ([]api.ToolSource, error)
	AddToolSource(ctx context.Context, id events.SessionID, source string) (int64, error)
	RemoveToolSource(ctx context.Context, id events.SessionID, source string) (int64, error)
	RefreshCatalog(ctx context.Context, id events.SessionID) (int64, error)
	TakeFirstTurnInput(ctx context.Context, id events.SessionID) (*events.Message, error)

	RegisterTask(ctx context.Context, id events.SessionID, req api.TaskRequest) (projector.Task, error)
	UnregisterTask(ctx context.Context, id events.SessionID, task events.TaskID) error
	EndTask(ctx context.Context, id events.SessionID, task events.TaskID, state events.TaskState, summary string) error
	TransitionTask(ctx context.Context, id events.SessionID, task events.TaskID, to events.TaskState) error
	Tasks(ctx context.Context, id events.SessionID) ([]projector.Task, error)
	CancelTask(ctx context.Context, id events.SessionID, task events.TaskID) (projector.Task, error)
	CancelTaskIfKnown(ctx context.Context, id events.SessionID, task events.TaskID) error
	CheckTasks(ctx context.Context, id events.SessionID, tasks []events.TaskID) error
	TransferTasks(ctx context.Context, from, to events.SessionID, tasks []events.TaskID) error
	TakeMonitorUpdates(ctx context.Context, id events.SessionID) (api.MonitorUpdates, error)
}

// Working is the working state of the effects that start together.
type Working interface {
	// State is for reading alone.
	State() *projector.State
	// Whole is a copy of the state, whose views have every body. All copies share the bodies.
	Whole(ctx context.Context) (*projector.State, error)
}

// RuntimeHost returns a session's capabilities for its plugins. working may be nil. effect names the caller: a repeated call of the same effect creates and requests the same things.
func (w Worker) RuntimeHost(id events.SessionID, working Working, effect events.EffectID) plugin.RuntimeHost {
	return &runtimeHost{capabilities: w.Host, h: w.Host, id: id, working: working, effect: effect}
}

var _ plugin.RuntimeHost = (*runtimeHost)(nil)

// Now implements [plugin.ClockHost]: an effect has the time that the history has for it.
func (s *runtimeHost) Now() time.Time {
	if s.working != nil && s.effect != "" {
		if at := turn.Since(s.working.State(), s.effect); at > 0 {
			return at.Time()
		}
	}
	return s.capabilities.Now()
}

func (s *runtimeHost) SnapshotCurrent(ctx context.Context) (*projector.State, error) {
	if s.working != nil {
		return s.working.Whole(ctx)
	}
	state, err := s.current(ctx)
	if err != nil {
		return nil, err
	}
	return state, s.fill(ctx, state)
}

// current is the state for reading alone, without bodies.
func (s *runtimeHost) current(ctx context.Context) (*projector.State, error) {
	if s.working != nil {
		return s.working.State(), nil
	}
	return s.h.State(ctx, s.id)
}

// fill reads the bodies of a state, and the contracts of its tools.
func (s *runtimeHost) fill(ctx context.Context, state *projector.State) (err error) {
	if state.Catalog.Tools, err = blob.Contracts(ctx, s.h.b, state.Catalog.Tools, nil); err != nil {
		return err
	}
	return blob.FillState(ctx, s.h.b, state)
}

func (s *runtimeHost) SnapshotSession(ctx context.Context, id events.SessionID) (*projector.State, error) {
	if id == s.id {
		return s.SnapshotCurrent(ctx)
	}
	state, err := s.h.State(ctx, id)
	if err != nil {
		return nil, err
	}
	return state, s.fill(ctx, state)
}

func (s *runtimeHost) SetToolAvailability(ctx context.Context, id events.SessionID, name string, level events.Override) (int64, error) {
	return s.SetToolsAvailability(ctx, id, []string{name}, level)
}

func (s *runtimeHost) InjectTurnInput(ctx context.Context, id events.SessionID, req api.InjectRequest) error {
	_, err := s.h.Inject(ctx, id, req)
	return err
}

func (s *runtimeHost) CreateSession(ctx context.Context, req api.CreateRequest) (api.Handle, error) {
	return s.h.CreateFrom(ctx, s.id, req)
}

func (s *runtimeHost) CloseSession(ctx context.Context, id events.SessionID) error {
	if id == s.id {
		return fmt.Errorf("close session %s: %w", id, api.ErrCurrent)
	}
	return s.h.CloseSession(ctx, id, "closed by a plugin")
}

func (s *runtimeHost) AwaitTurn(ctx context.Context, id events.SessionID, turn events.TurnID) (api.AssembledTurn, error) {
	if _, err := s.h.Await(ctx, id, turn); err != nil {
		return api.AssembledTurn{}, err
	}
	return s.ended(ctx, id, turn)
}

// ended assembles a turn that has ended. It first charges the child's usage, so that the waiting turn's usage
// includes it.
func (s *runtimeHost) ended(ctx context.Context, id events.SessionID, turn events.TurnID) (api.AssembledTurn, error) {
	state, err := s.h.State(ctx, id)
	if err == nil && state.Parent == s.id {
		err = s.h.Worker().ChargeChild(ctx, state)
	}
	if err != nil {
		return api.AssembledTurn{}, err
	}
	return s.h.AssembledTurn(ctx, id, turn)
}

func (s *runtimeHost) CancelTurn(ctx context.Context, id events.SessionID, turn events.TurnID) error {
	_, _, err := s.h.Cancel(ctx, id, turn, api.CancelRequest{Origin: "plugin"})
	return err
}

// callers are the callers on whose behalf a plugin acts: those of the turn that its call belongs to, else of the
// running turn, else of the turn that ended last.
func (s *runtimeHost) callers(ctx context.Context) ([]string, error) {
	state, err := s.current(ctx)
	if err != nil {
		return nil, err
	}
	t := state.Turn()
	if id := turn.OfEffect(s.effect); id != "" && (t == nil || t.ID != id) {
		record, err := state.Record(id)
		if err != nil || record != nil {
			return callersIn(record), err
		}
	}
	if t != nil {
		return t.Callers, nil
	}
	return state.Callers, nil
}

func callersIn(record *projector.TurnRecord) []string {
	if record == nil {
		return nil
	}
	return strings.Fields(record.Callers)
}

func (s *runtimeHost) StartTurnStream(ctx context.Context, id events.SessionID, req api.TurnRequest) (events.TurnID, iter.Seq2[api.SessionEvent, error], error) {
	var err error
	if req.Callers, err = s.callers(ctx); err != nil {
		return "", nil, err
	}
	return s.h.StartTurnStream(s.traced(ctx), id, req)
}

func (s *runtimeHost) AnswerByTurn(ctx context.Context, key events.EffectID, child events.SessionID, req api.TurnRequest) error {
	state, err := s.h.State(ctx, child)
	if err == nil && state.Parent != s.id {
		err = fmt.Errorf("turn of session %s, which is no child of %s: %w", child, s.id, api.ErrForbidden)
	}
	if err == nil {
		req.Callers, err = s.callers(ctx)
	}
	if err != nil {
		return err
	}
	req.Answers = key
	if _, err = s.h.SubmitTurn(s.traced(ctx), child, req); err != nil {
		return err
	}
	if state, err = s.h.State(ctx, child); err != nil {
		return err
	}
	record, err := state.Record(req.ID)
	if err != nil || record == nil {
		return err
	}
	return s.h.Worker().AnswerParent(ctx, state, req.ID, key) // its end may have been told before this session had the call
}

func (s *runtimeHost) StartTurn(ctx context.Context, id events.SessionID, req api.TurnRequest) (api.AssembledTurn, error) {
	var err error
	if req.Callers, err = s.callers(ctx); err != nil {
		return api.AssembledTurn{}, err
	}
	r, err := s.h.Run(s.traced(ctx), id, req)
	if err != nil {
		return api.AssembledTurn{}, err
	}
	return s.ended(ctx, id, r.ID)
}
