package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/internal/check"
	"github.com/lash-go/lash/session/internal/nodes"
	"github.com/lash-go/lash/session/operation"
)

// openingFrame is the cause of a commit that opens a frame.
const openingFrame = "open frame"

// OpenFrame starts a new frame, with an empty prompt over the same graph. opened is false, and nothing changes, when
// the id is blank or the session has had a frame with it.
func (h *Host) OpenFrame(ctx context.Context, id events.SessionID, req api.FrameRequest) (opened bool, err error) {
	ctx, reqMeta, err := api.TakeRequest(ctx, &req)
	if err != nil {
		return false, fmt.Errorf("open frame: %w", err)
	}
	if err := events.CheckReason("reason", req.Reason); err != nil {
		return false, fmt.Errorf("open frame %s: %w", req.Frame, err)
	}
	d := keepingSystem(ctx, openFrame(&req, &opened))
	err = h.decideByKey(ctx, id, requestContent{operation.OpenFrame.Name, openingFrame, &req}, reqMeta, d)
	return opened && err == nil, err
}

// openFrame decides on a frame, and sets opened where it opens it.
func openFrame(req *api.FrameRequest, opened *bool) decideFunc {
	return func(s *projector.State) ([]events.Event, error) {
		*opened = false
		if err := check.Open(s); err != nil {
			return nil, err
		}
		if req.Frame == "" || hasFrame(s, req.Frame) {
			return nil, nil
		}
		if req.Keep != "" {
			if on, err := s.OnPath(req.Keep); err != nil || !on {
				return nil, errors.Join(err, &api.StaleBranchError{Required: req.Keep, Leaf: s.Leaf})
			}
		}
		added, err := nodes.New(s, req.Nodes)
		if err != nil {
			return nil, err
		}
		*opened = true
		return []events.Event{events.Of("", &events.FrameOpened{Frame: req.Frame, Reason: req.Reason, Keep: req.Keep, Nodes: added})}, nil
	}
}

// hasFrame reports whether the session has had the frame: a repeat of an old request opens nothing.
func hasFrame(s *projector.State, id events.FrameID) bool {
	for _, f := range s.Frames {
		if f.ID == id {
			return true
		}
	}
	return false
}
