package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/embedded"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// makeSigned DIR makes a store whose node signs heads, with the session signed of three turns.
func makeSigned(args []string) error {
	return makeSignedTurns(args[0], map[events.SessionID]int{"signed": 3})
}

// makeSignedTurns makes a store with sessions of so many turns. Every second turn has a call.
func makeSignedTurns(dir string, sessions map[events.SessionID]int) error {
	ctx := context.Background()
	provider := scripted.New(func(_ context.Context, req llm.Request) (scripted.Answer, error) {
		reply := llm.Response{Parts: textParts("answer"), Stop: events.StopEnd}
		if n := req.Turn[len(req.Turn)-1]; n%2 == 0 && req.Iteration == 0 {
			reply = llm.Response{Parts: calls("add"), Stop: events.StopToolUse}
		}
		return scripted.Answer{Response: reply}, nil
	})
	add := plugin.OfTool(plugin.Tool{Name: "add"}, func(context.Context, plugin.Call, struct{}) (int, error) { return 3, nil })
	l, err := embedded.Start(ctx, embedded.Config{Provider: provider, Model: "m1", StoreDir: dir}, add)
	if err != nil {
		return err
	}
	defer l.Stop()
	for id, turns := range sessions {
		if _, err := l.Create(ctx, api.CreateRequest{ID: id}); err != nil {
			return err
		}
		for i := range turns {
			req := api.Ask(fmt.Sprint("question ", i+1))
			req.ID = events.TurnID(fmt.Sprint("t", i+1))
			if _, err := l.Run(ctx, id, req); err != nil {
				return err
			}
		}
	}
	return nil
}

// forgeArchive FROM TO CHANGE rewrites an archive with this program's own encoder.
func forgeArchive(args []string) error {
	f, err := os.Open(filepath.Clean(args[0]))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	a, err := events.ReadArchive(f, 1<<30)
	if err != nil {
		return err
	}
	var list []events.Entry
	for e, err := range a.Log.Read(context.Background(), a.Session, 1) {
		if err != nil {
			return err
		}
		list = append(list, e)
	}
	switch args[2] {
	case "alter":
		list[2].Commit.Cause, list[2].Data = "x", nil
	case "remove":
		list = append(list[:2:2], list[3:]...)
	case "swap":
		list[1], list[2] = list[2], list[1]
	case "insert":
		c := *list[2].Commit
		c.ID = "01JD6Z0000000000000000000A"
		list = append(list[:3:3], append([]events.Entry{{Commit: &c}}, list[3:]...)...)
	case "cut":
		list = list[:len(list)-1]
	case "strip":
		for i := range list {
			last := len(list[i].Commit.Events) - 1
			if list[i].Commit.Events[last].Kind == events.KindAuditHeadSigned {
				list[i].Commit.Events, list[i].Data = list[i].Commit.Events[:last], nil
			}
		}
	case "reason":
		a.Redactions[0].Reason = "nobody asked"
	case "unrecorded":
		a.Redactions = nil
	default:
		return errors.New("unknown change")
	}
	out, err := os.Create(filepath.Clean(args[1]))
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	w, err := events.NewArchiveWriter(out, a.Session, 1, a.Redactions...)
	if err != nil {
		return err
	}
	for i := range list {
		list[i].Seq = events.Seq(i + 1)
		if err := w.Commit(list[i]); err != nil {
			return err
		}
	}
	for _, body := range a.Blobs {
		if err := w.Blob(body); err != nil {
			return err
		}
	}
	return w.Close()
}
