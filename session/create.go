package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/task"
)

// CreateRequest opens a session.
type CreateRequest struct {
	ID     events.SessionID // Defaults to a new one
	Config events.Config
	Parent events.SessionID
	Labels map[string]string
	Nodes  []AppendNode // initial nodes
}

// Create opens a session and returns its id. Of many creators of one id
// exactly one succeeds; the others get [ErrExists].
func (h *Host) Create(ctx context.Context, req CreateRequest) (events.SessionID, error) {
	id := req.ID
	if id == "" {
		id = events.SessionID(ulid.Make().String())
	}
	if err := events.CheckToken("session", id); err != nil {
		return "", fmt.Errorf("create session: %w", err)
	}
	opened := &events.SessionOpened{Config: req.Config, Parent: req.Parent, Labels: req.Labels}
	nodes, err := newNodes(projector.New(id), req.Nodes)
	if err != nil {
		return "", fmt.Errorf("create session %s: %w", id, err)
	}
	return id, h.create(ctx, id, opened, nodes)
}

// nodesPerCommit bounds the nodes that one commit of a creation carries.
const nodesPerCommit = 128

// create appends the opening commit, and what does not fit in it in further
// ones. Until the last of them the session is opening and starts no turn.
func (h *Host) create(ctx context.Context, id events.SessionID, opened *events.SessionOpened, nodes []events.NewNode) error {
	chunks, err := h.chunks(ctx, nodes)
	if err != nil {
		return fmt.Errorf("create session %s: %w", id, err)
	}
	list := []events.Event{events.Of("", opened)}
	if len(chunks) > 0 {
		list = append(list, events.Of("", chunks[0]))
		chunks = chunks[1:]
	}
	opened.Commits = int64(len(chunks))
	s := h.held(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = projector.New(id)
	err = h.appendLocked(ctx, s, "create", list)
	for _, chunk := range chunks {
		if err != nil {
			break
		}
		err = h.appendLocked(ctx, s, "create", []events.Event{events.Of("", chunk)})
	}
	if err != nil {
		s.state = nil
	}
	if errors.As(err, new(*events.ConflictError)) {
		return fmt.Errorf("create session %s: %w", id, ErrExists)
	}
	return err
}

// chunks splits nodes into events of at most nodesPerCommit nodes and a size that fits, bodies spilled.
func (h *Host) chunks(ctx context.Context, nodes []events.NewNode) ([]*events.GraphAppended, error) {
	var list []*events.GraphAppended
	for len(nodes) > 0 {
		n, size := 0, 0
		for n < len(nodes) && n < nodesPerCommit && (n == 0 || size < spillTotal) {
			size += totalSize(nodeBodies(nil, nodes[n:n+1]))
			n++
		}
		p, err := Spill(ctx, h.b, &events.GraphAppended{Nodes: nodes[:n]})
		if err != nil {
			return nil, err
		}
		list = append(list, p.(*events.GraphAppended))
		nodes = nodes[n:]
	}
	return list, nil
}

// Fork opens a new session with the nodes of the active path of another, the
// same ids and the same leaf. It starts with an empty ledger.
func (h *Host) Fork(ctx context.Context, from events.SessionID, req CreateRequest) (events.SessionID, error) {
	s, err := h.State(ctx, from)
	if err != nil {
		return "", fmt.Errorf("fork: %w", err)
	}
	path, err := s.Path()
	if err != nil {
		return "", fmt.Errorf("fork %s: %w", from, err)
	}
	nodes := make([]events.NewNode, len(path))
	for i, n := range path {
		nodes[i] = events.NewNode{ID: n.ID, Kind: n.Kind, Message: n.Message, Type: n.Type, Body: n.Body, Blob: n.Blob}
	}
	id := req.ID
	if id == "" {
		id = events.SessionID(ulid.Make().String())
	}
	opened := &events.SessionOpened{
		Config: s.Config, Parent: req.Parent, Labels: req.Labels,
		Forked: events.ForkedFrom{Session: from, Leaf: s.Leaf, Seq: s.Seq},
	}
	if req.Config != (events.Config{}) {
		opened.Config = req.Config
	}
	return id, h.create(ctx, id, opened, nodes)
}

// ConfigureRequest changes the configuration.
type ConfigureRequest struct {
	Change         func(events.Config) events.Config // gets the current one
	IdempotencyKey string                            // a retry of the newest change does nothing
}

// Configure replaces the configuration. Where that changes nothing, nothing is appended.
func (h *Host) Configure(ctx context.Context, id events.SessionID, req ConfigureRequest) error {
	return h.decide(ctx, id, "configure", func(s *projector.State) ([]events.Event, error) {
		if err := open(s); err != nil {
			return nil, err
		}
		next := req.Change(s.Config)
		if next == s.Config || (req.IdempotencyKey != "" && req.IdempotencyKey == s.ConfigKey) {
			return nil, nil
		}
		return []events.Event{events.Of("", &events.SessionConfigured{Config: next, Key: req.IdempotencyKey})}, nil
	})
}

// CloseSession ends a session and, in the same commit, its live tasks. A second close does nothing; a running turn refuses it with [ErrTurnRunning].
func (h *Host) CloseSession(ctx context.Context, id events.SessionID, reason string) error {
	return h.decide(ctx, id, "close", func(s *projector.State) ([]events.Event, error) {
		switch {
		case s.Status == projector.StatusClosed:
			return nil, nil
		case !s.Idle():
			return nil, fmt.Errorf("close session %s: %w", id, ErrTurnRunning)
		}
		list := task.CancelAll(s, task.Live(s), "session closed")
		return append(list, events.Of("", &events.SessionClosed{Reason: reason})), open(s)
	})
}

// FrameRequest opens a frame.
type FrameRequest struct {
	Frame  events.FrameID
	Reason string
	Keep   events.NodeID // nodes of the active path from here on stay visible
	Nodes  []AppendNode
}

// OpenFrame starts a fresh prompt over the same graph. It is false, and does
// nothing, when the id is blank or the current frame's.
func (h *Host) OpenFrame(ctx context.Context, id events.SessionID, req FrameRequest) (opened bool, err error) {
	err = h.decide(ctx, id, "open frame", func(s *projector.State) ([]events.Event, error) {
		opened = false
		if err := open(s); err != nil {
			return nil, err
		}
		if req.Frame == "" || hasFrame(s, req.Frame) {
			return nil, nil
		}
		if req.Keep != "" {
			if on, err := s.OnPath(req.Keep); err != nil || !on {
				return nil, errors.Join(err, &StaleBranchError{Required: req.Keep, Leaf: s.Leaf})
			}
		}
		nodes, err := newNodes(s, req.Nodes)
		if err != nil {
			return nil, err
		}
		opened = true
		return []events.Event{events.Of("", &events.FrameOpened{Frame: req.Frame, Reason: req.Reason, Keep: req.Keep, Nodes: nodes})}, nil
	})
	return opened && err == nil, err
}

// hasFrame reports whether the frame was ever opened: a retry of an old request opens nothing.
func hasFrame(s *projector.State, id events.FrameID) bool {
	for _, f := range s.Frames {
		if f.ID == id {
			return true
		}
	}
	return false
}
