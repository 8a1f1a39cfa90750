package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/cmd/internal/connect"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
)

// errLost: commits of a session are lost; what is left of it and the other sessions were read.
var errLost = errors.New("not all commits were read")

// lostIn returns the error of a session whose commits are lost, which does not hide the other sessions.
func lostIn(err error, id events.SessionID) (lost *bus.CutOffError, ok bool) {
	lost, ok = errors.AsType[*bus.CutOffError](err)
	return lost, ok && lost.Session == id
}

// visitor gets a session of a command, or the error of one that cannot be opened. Its error ends the command. file: of an archive.
type visitor func(file string, src source, id events.SessionID, err error) error

// each visits the sessions of targets, or all sessions of the source. Without a source flag targets are archives, or folders of them.
func (e *env) each(ctx context.Context, verb string, targets []string, visit visitor) error {
	e.source.defaults(targets...)
	if !e.source.named() && len(targets) > 0 {
		files, err := program.Archives(targets)
		if err != nil {
			return err
		}
		count := e.Counts(e.quiet, verb, len(files), "archive")
		defer count.Stop()
		for _, file := range files {
			src, id, err := e.openTarget(ctx, file)
			if err := visit(file, src, id, err); err != nil {
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
	count := e.Counts(e.quiet, verb, len(ids), "session")
	defer count.Stop()
	for _, id := range ids {
		if err := visit("", src, id, e.mustBeThere(ctx, src, id)); err != nil {
			return err
		}
		count.Add()
	}
	return nil
}

// eachReadable visits what can be read of each. Where commits of a session are lost, it says so, and returns errLost.
func (e *env) eachReadable(ctx context.Context, targets []string, visit func(source, events.SessionID) error) error {
	unread := 0
	err := e.each(ctx, "read", targets, func(_ string, src source, id events.SessionID, err error) error {
		if err == nil {
			err = cmp.Or(visit(src, id), src.Lost(ctx, id))
		}
		if lost, ok := lostIn(err, id); ok {
			unread++
			e.Printf("%v", connect.Advised(lost))
			return nil
		}
		return err
	})
	if err == nil && unread > 0 {
		err = fmt.Errorf("%w: commits of %s are lost", errLost, program.Number(int64(unread), "session"))
	}
	return err
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
