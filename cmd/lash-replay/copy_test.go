package main

import (
	"context"
	"fmt"

	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
)

// makeCopies WHAT DIR makes copies of the session demo in a store, and changes them.
func makeCopies(args []string) error {
	b, h, end, err := openTestHost(args[1], nil)
	if err != nil {
		return err
	}
	defer end()
	ctx := context.Background()
	if _, err := h.Create(ctx, api.CreateRequest{ID: "whole", Start: api.StartExisting, From: "demo"}); err != nil {
		return err
	}
	if _, err := h.Fork(ctx, "demo", api.CreateRequest{ID: "path"}); err != nil {
		return err
	}
	switch args[0] {
	case "good":
		return nil
	case "forged":
		return forge(ctx, b)
	case "lost":
		return loseBase(ctx, b)
	case "erased":
		_, err := h.Erase(ctx, "demo", "asked to")
		return err
	}
	return fmt.Errorf("make-copies %s: no such thing", args[0])
}

// forge appends the opening of a session that claims to be a copy of demo, with one message more.
func forge(ctx context.Context, b *bus.Bus) error {
	s, err := follow.Whole(ctx, b, "demo")
	if err != nil {
		return err
	}
	forked := events.ForkedFrom{Session: s.Session, Leaf: s.Leaf, Seq: s.Seq}
	more := events.Message{ID: "more", Role: events.RoleUser, Parts: textParts("I never said this")}
	if err := s.Apply(events.Entry{Seq: s.Seq + 1, Commit: &events.Commit{Session: s.Session, Events: []events.Event{
		events.Of("", &events.GraphAppended{Nodes: []events.NewNode{{ID: "more", Kind: events.NodeMessage, Message: more}}}),
	}}}); err != nil {
		return err
	}
	ref, _, err := follow.SaveBase(ctx, b, s)
	if err != nil {
		return err
	}
	_, err = b.Log().Append(ctx, &events.Commit{
		ID: events.CommitID(ulid.Make().String()), Session: "forged", At: 1, Actor: events.Actor{Kind: events.ActorNode, ID: "w1"},
		Events: []events.Event{events.Of("", &events.SessionOpened{Forked: forked, Base: ref})},
	}, 0)
	return err
}

func loseBase(ctx context.Context, b *bus.Bus) error {
	for entry, err := range b.Log().Read(ctx, "whole", 1) {
		if err != nil {
			return err
		}
		return deleteBlob(ctx, b, projector.BaseOf(entry.Commit))
	}
	return nil
}
