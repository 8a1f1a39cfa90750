package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/check"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
)

// derivedID matches the ids that nodes derive from other sessions' ids. A caller that created such a session first
// would receive another caller's turns.
var derivedID = regexp.MustCompile(`^(branch|agent|p)-[0-9a-f]{32}$`)

// Create opens a session and returns its id. Of concurrent creators of one id exactly one succeeds; the others get
// [api.ErrExists].
func (h *Host) Create(ctx context.Context, req api.CreateRequest) (events.SessionID, error) {
	handle, err := h.CreateFrom(ctx, "", req)
	return handle.Session, err
}

// CreateFrom opens a session on behalf of another session, its creator, which may be empty. A session that starts
// from a state copies its graph and frames, with ids, protocol options and execution state. Its counters and ledger
// start at zero.
func (h *Host) CreateFrom(ctx context.Context, creator events.SessionID, req api.CreateRequest) (api.Handle, error) {
	ctx, reqMeta, err := api.TakeRequest(ctx, &req)
	id := chooseID(req.ID, reqMeta)
	if err != nil {
		return api.Handle{}, fmt.Errorf("create session %s: %w", id, err)
	}
	if err := events.CheckToken("session", id); err != nil {
		return api.Handle{}, fmt.Errorf("create session: %w", err)
	}
	if _, hasCaller := api.CallerOf(ctx); hasCaller && derivedID.MatchString(string(id)) {
		return api.Handle{}, &events.FieldError{Field: "id", Reason: "has the form of what nodes make: branch-, agent- or p- and 32 hex digits", Err: events.ErrInvalid}
	}
	if err := check.Create(&req); err != nil {
		return api.Handle{}, fmt.Errorf("create session %s: %w", id, err)
	}
	if id == creator {
		return api.Handle{}, fmt.Errorf("create session %s: %w", id, api.ErrExists)
	}
	o := &creation{h: h, id: id, req: req, reqMeta: reqMeta, creators: []string{reqMeta.Actor}}
	if err := o.setCommitMeta(); err != nil {
		return api.Handle{}, fmt.Errorf("create session %s: %w", id, err)
	}
	opened, err := o.createOrResume(ctx, creator)
	for reqMeta.Key != "" && errors.As(err, new(*events.ConflictError)) { // another process repeats the request at the same time
		opened, err = o.createOrResume(ctx, creator)
	}
	if errors.As(err, new(*events.ConflictError)) {
		err = api.ErrExists
	}
	if err != nil {
		return api.Handle{}, fmt.Errorf("create session %s: %w", id, err)
	}
	if req.Plugins == api.PluginsFork && o.creator != nil {
		h.stacks.KeepOverlays(id, h.stacks.Overlays(o.creator.Session)...)
	}
	return api.Handle{Session: id, Parent: opened.Parent, Config: opened.Config}, nil
}

// createOrResume creates the session, or the missing part of one that the same request left unfinished before. Errors:
// [api.ErrExists], and [*events.ConflictError] where another process creates it meanwhile.
func (o *creation) createOrResume(ctx context.Context, creator events.SessionID) (*events.SessionOpened, error) {
	partial, err := o.findPartial(ctx)
	if err != nil || partial != nil && partial.state.Status != projector.StatusOpening {
		return partial.openedEvent(), err
	}
	if err := o.loadSources(ctx, creator); err != nil {
		return nil, err
	}
	opened := o.openedEvent()
	if partial != nil {
		opened = partial.opened
		if opened.Base.IsZero() && !opened.Forked.IsZero() {
			return nil, fmt.Errorf("%w: an earlier version began the copy", api.ErrOpening)
		}
		if !opened.Forked.IsZero() && o.req.Start != api.StartSnapshot { // it may have moved since
			if o.base, err = o.h.StateAt(ctx, opened.Forked.Session, opened.Forked.Seq); err == nil {
				err = o.reduceToPath(ctx)
			}
		}
	}
	if err != nil {
		return nil, err
	}
	nodes, err := o.newNodes(ctx)
	if err != nil {
		return nil, err
	}
	if partial == nil && o.h.quota != nil {
		return opened, o.createCounted(ctx, opened, nodes)
	}
	return opened, o.create(ctx, partial, opened, nodes)
}

// partialSession is an unfinished session that an earlier copy of the request opened.
type partialSession struct {
	opened *events.SessionOpened
	state  *projector.State
}

func (b *partialSession) openedEvent() *events.SessionOpened {
	if b == nil {
		return nil
	}
	return b.opened
}

// findPartial returns the request's unfinished session, found by its id; nil where none exists.
func (o *creation) findPartial(ctx context.Context) (*partialSession, error) {
	if o.meta.key == "" {
		return nil, nil //nolint:nilnil // without an id and key every request is a new one
	}
	s, err := o.h.State(ctx, o.id)
	if errors.Is(err, events.ErrNoSession) {
		return nil, nil //nolint:nilnil // the session does not exist
	}
	if err != nil {
		return nil, err
	}
	if seq, err := o.meta.committedAt(s); err != nil || seq == 0 {
		return nil, cmp.Or(err, api.ErrExists)
	}
	for entry, err := range o.h.log.Read(ctx, o.id, 1) {
		if err != nil {
			return nil, err
		}
		if opened, ok := entry.Commit.Events[0].Payload.(*events.SessionOpened); ok {
			return &partialSession{opened: opened, state: s}, nil
		}
		break
	}
	return nil, api.ErrExists
}

// creation is a session before its first commit.
type creation struct {
	h        *Host
	id       events.SessionID
	reqMeta  api.RequestMeta
	creators []string         // callers on whose behalf the session is created
	grantsOf *projector.State // the state whose grants count; nil: those of the base
	meta     commitMeta
	req      api.CreateRequest
	creator  *projector.State // nil: none
	base     *projector.State // nil: empty; may be partial
}

// setCommitMeta sets the metadata of the commits, from the full content of the request.
func (o *creation) setCommitMeta() (err error) {
	body := struct {
		Request  api.CreateRequest `msgpack:"r"`
		Snapshot events.SessionID  `msgpack:"s,omitempty"`
		At       events.Seq        `msgpack:"q,omitempty"`
	}{Request: o.req}
	body.Request.ID = o.id
	if s := o.req.Snapshot; s != nil {
		body.Snapshot, body.At = s.Session, s.Seq
	}
	o.meta, err = o.h.keyedMeta(requestContent{operation.Create.Name, "create", &body}, o.reqMeta)
	return err
}

func (o *creation) loadSources(ctx context.Context, creator events.SessionID) (err error) {
	if creator == "" {
		creator = o.req.Parent
	} else if o.req.Relation != events.RelationRoot && o.req.Parent == "" {
		o.req.Parent = creator
	}
	caller, _ := api.CallerOf(ctx)
	if creator != "" {
		elsewhere := o.req.Start != api.StartCurrent && o.req.Plugins == "" && !caller.Own // a parent that the caller cannot reach gets no children
		if o.creator, err = o.h.State(api.WithSession(ctx, creator), creator); errors.Is(err, events.ErrNoSession) && elsewhere {
			o.creator, err = nil, nil // the parent is not in this deployment
		}
		if err != nil {
			return err
		}
	}
	if err := o.h.checkParents(ctx, o.id, o.req.Parent); err != nil {
		return err
	}
	switch o.req.Start {
	case api.StartEmpty:
	case api.StartCurrent:
		if o.creator != nil {
			o.base, err = o.h.reader.Open(api.WithSession(ctx, creator), creator)
		}
	case api.StartExisting:
		o.base, err = o.h.reader.Open(api.WithSession(ctx, o.req.From), o.req.From)
	case api.StartSnapshot:
		if o.req.Snapshot != nil {
			o.base, err = o.h.reader.OfSnapshot(ctx, o.req.Snapshot)
		}
	default:
		return &events.FieldError{Field: "start", Reason: fmt.Sprintf("unknown %q", o.req.Start), Err: events.ErrInvalid}
	}
	if err == nil && o.req.Start != api.StartEmpty && o.base == nil {
		err = &events.FieldError{Field: "start", Reason: fmt.Sprintf("%q without a state to start from", o.req.Start), Err: events.ErrInvalid}
	}
	if err == nil {
		err = o.reduceToPath(ctx)
	}
	if err == nil {
		err = o.applyLocks(ctx)
	}
	if err == nil && o.req.Plugins == api.PluginsFork && o.creator == nil {
		err = &events.FieldError{Field: "plugins", Reason: "fork without a creator", Err: events.ErrInvalid}
	}
	return err
}

// applyLocks applies the operator's locks to the request, and refuses an unknown model or protocol. What the session copies
// from a session that is older than a lock, the nodes check.
func (o *creation) applyLocks(ctx context.Context) (err error) {
	if err := o.h.checkModel(ctx, o.req.Config); err != nil {
		return err
	}
	if !o.req.Config.IsZero() {
		if o.req.Config, err = o.h.locks.Config(o.req.Config); err != nil {
			return err
		}
	}
	if o.h.plugins != nil && o.req.Config.Protocol != "" {
		if err := o.h.plugins.CheckConfig(plugin.BuildContext{Session: o.id, Parent: o.req.Parent, Config: o.req.Config, Options: o.h.locks.Open(o.req.Options)}); err != nil {
			return err
		}
	}
	for id, text := range o.req.Options {
		if o.creator != nil && o.creator.Options[id] == text {
			continue
		}
		if err := o.h.locks.Options("options", map[string]string{id: text}); err != nil {
			return err
		}
	}
	return nil
}

// TakeFirstTurnInput returns the first turn's input once; nil after that, and for unknown sessions.
func (h *Host) TakeFirstTurnInput(ctx context.Context, id events.SessionID) (first *events.Message, err error) {
	ctx, reqMeta := api.TakeRequestMeta(ctx)
	err = h.decideRequest(ctx, id, requestContent{operation.TakeFirstInput.Name, "take first turn input", &struct{}{}}, reqMeta, func(s *projector.State) ([]events.Event, error) {
		first = nil
		if s.First.IsZero() || s.Status == projector.StatusClosed {
			return nil, nil
		}
		if err := api.CheckRead(ctx, s); err != nil {
			return nil, err
		}
		m := s.First
		first = &m
		return []events.Event{events.Of("", &events.SessionFirstInputTaken{By: h.newCommitMeta("", reqMeta).actor.ID})}, nil
	})
	switch {
	case errors.Is(err, events.ErrNoSession):
		return nil, nil //nolint:nilnil // an unknown session has no first input
	case err != nil:
		return nil, err
	}
	if first != nil {
		first.Parts, err = blob.FillParts(ctx, h.b, first.Parts)
	}
	return first, err
}

// create appends the opening commit, and further commits for what does not fit in it. Until the last of them the
// session is opening and starts no turn. Of an unfinished session it appends the missing commits.
func (o *creation) create(ctx context.Context, partial *partialSession, opened *events.SessionOpened, nodes []events.NewNode) error {
	chunks, err := blob.Chunks(ctx, o.h.b, nodes)
	if err != nil {
		return err
	}
	inherited, err := o.inheritedEvents(ctx)
	if err != nil {
		return err
	}
	commits := [][]events.Event{append([]events.Event{events.Of("", opened)}, inherited...)}
	if _, grants := o.ownership(); len(grants) > 0 {
		commits[0] = append(commits[0], grants...)
	}
	for i, chunk := range chunks {
		if i == 0 {
			commits[0] = append(commits[0], events.Of("", chunk))
			continue
		}
		commits = append(commits, []events.Event{events.Of("", chunk)})
	}
	s, err := o.h.states.Lock(ctx, o.id)
	if err != nil {
		return err
	}
	defer s.Unlock()
	if partial == nil {
		opened.Commits = int64(len(commits) - 1)
		s.State = projector.New(o.id)
		if err := o.storeBase(ctx, opened, s.State); err != nil {
			s.State = nil
			return err
		}
	} else {
		s.State = partial.state
		commits = commits[max(0, len(commits)-int(partial.state.Opening)):]
	}
	for _, list := range commits {
		if err := o.h.appendLocked(ctx, s, o.meta, list); err != nil {
			s.State = nil
			return err
		}
	}
	if len(s.State.Missing()) > 0 {
		s.State = nil // the next use loads it
	}
	return nil
}

// createTime limits the append of a session that counts against a limit.
const createTime = 30 * time.Second

// createCounted is create under the owner's limit of open sessions.
func (o *creation) createCounted(ctx context.Context, opened *events.SessionOpened, nodes []events.NewNode) error {
	release, err := o.h.quota.Reserve(ctx, opened.Owner, o.id)
	if err != nil {
		return err
	}
	defer release()
	// The caller's cancel does not apply: the counter records the outcome of the append before the release.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), createTime)
	defer cancel()
	return o.create(ctx, nil, opened, nodes)
}

// Fork opens a new session with the nodes of another session's active path, with the same node ids, leaf and frames.
// Its ledger is empty.
func (h *Host) Fork(ctx context.Context, from events.SessionID, req api.CreateRequest) (events.SessionID, error) {
	req.Start, req.From, req.PathOnly = api.StartExisting, from, true
	return h.Create(ctx, req)
}
