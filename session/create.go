package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/internal/check"
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
// from a state copies its graph and frames, with ids, protocol options and execution state, its plugin states and its
// tools. Its counters and ledger start at zero.
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
	if err := o.setCommitMeta(ctx); err != nil {
		return api.Handle{}, fmt.Errorf("create session %s: %w", id, err)
	}
	opened, err := o.createOrResume(ctx, creator)
	for reqMeta.Key != "" && errors.As(err, new(*events.ConflictError)) { // another process repeats the request at the same time
		opened, err = o.createOrResume(ctx, creator)
	}
	caller, _ := api.CallerOf(ctx)
	lost := errors.As(err, new(*events.LostError)) && caller.Bounded() // of a session that the caller may not reach
	if lost || errors.As(err, new(*events.ConflictError)) {
		err = api.ErrExists
	}
	if err != nil {
		return api.Handle{}, fmt.Errorf("create session %s: %w", id, err)
	}
	o.keepOverlays(ctx)
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
	opened := o.openedEvent(ctx)
	if partial != nil {
		opened = partial.opened
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
	if seq, err := o.meta.committedAt(ctx, s); err != nil || seq == 0 {
		return nil, cmp.Or(err, api.ErrExists)
	}
	entry, err := o.h.log.CommitAt(ctx, o.id, 1)
	if err != nil {
		return nil, err
	}
	if opened, ok := entry.Commit.Events[0].Payload.(*events.SessionOpened); ok {
		return &partialSession{opened: opened, state: s}, nil
	}
	return nil, api.ErrExists
}

// create appends the opening commit, and further commits for what does not fit in it. Until the last of them the
// session is opening and starts no turn. Of an unfinished session it appends the missing commits.
func (o *creation) create(ctx context.Context, partial *partialSession, opened *events.SessionOpened, nodes []events.NewNode) error {
	chunks, err := blob.Chunks(ctx, o.h.blobs, nodes)
	if err != nil {
		return err
	}
	inherited, err := o.inheritedEvents(ctx)
	if err != nil {
		return err
	}
	overlay, err := o.overlay(opened)
	if err != nil {
		return err
	}
	commits := [][]events.Event{slices.Concat([]events.Event{events.Of("", opened)}, inherited, overlay)}
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

// Fork opens a new session with the nodes of another session's active path, with the same node ids, leaf and frames, as
// they are, or as they were at [api.CreateRequest.At]. Its ledger is empty.
func (h *Host) Fork(ctx context.Context, from events.SessionID, req api.CreateRequest) (events.SessionID, error) {
	req.Start, req.From, req.PathOnly = api.StartExisting, from, true
	return h.Create(ctx, req)
}
