package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/cmd/internal/connect"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
)

// errLost: commits of a session are lost; the other sessions were read.
var errLost = errors.New("not all sessions were read")

// lostIn returns the error of a session whose commits are lost, which does not hide the other sessions.
func lostIn(err error, id events.SessionID) (lost *bus.CutOffError, ok bool) {
	lost, ok = errors.AsType[*bus.CutOffError](err)
	return lost, ok && lost.Session == id
}

// each visits the sessions of targets, or all sessions of the source. Without a source flag targets are archives. Where commits of a
// session are lost, it says so, visits the others, and returns errLost.
func (e *env) each(ctx context.Context, targets []string, visit func(source, events.SessionID) error) error {
	e.source.defaults(targets...)
	if e.source.count() == 0 && len(targets) > 0 {
		count := e.Counts(e.quiet, "read", len(targets), "archive")
		defer count.Stop()
		for _, file := range targets {
			src, id, err := e.openTarget(ctx, file)
			if err != nil {
				return err
			}
			if err := visit(src, id); err != nil {
				return err
			}
			count.Add()
		}
		return nil
	}
	src, ids, err := e.sessions(ctx, targets)
	if err != nil {
		return err
	}
	defer src.Close()
	count := e.Counts(e.quiet, "read", len(ids), "session")
	defer count.Stop()
	unread := 0
	for _, id := range ids {
		err := e.mustBeThere(ctx, src, id)
		if _, lost := lostIn(err, id); err == nil || lost {
			err = visit(src, id)
		}
		if lost, ok := lostIn(err, id); ok {
			unread++
			e.Printf("%v", connect.Advised(lost))
		} else if err != nil {
			return err
		}
		count.Add()
	}
	if unread > 0 {
		return fmt.Errorf("%w: commits of %s are lost", errLost, program.Number(int64(unread), "session"))
	}
	return nil
}

// sessions opens the source of the flags, and lists the targets, or all sessions.
func (e *env) sessions(ctx context.Context, targets []string) (src source, ids []events.SessionID, err error) {
	if src, err = e.open(ctx, ""); err != nil {
		return nil, nil, err
	}
	for _, t := range targets {
		ids = append(ids, events.SessionID(t))
	}
	if src, err = e.cutAt(ctx, src, ids...); err == nil && len(targets) == 0 {
		ids, err = src.Sessions(ctx)
	}
	if err != nil {
		src.Close()
	}
	return src, ids, err
}

// withErased adds the erased sessions, sorted.
func withErased(ctx context.Context, src source, ids []events.SessionID) ([]events.SessionID, error) {
	ids = slices.Clone(ids)
	for id, err := range src.Erased(ctx) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}
