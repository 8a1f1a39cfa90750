package service

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
)

// FuzzAnswer sends arbitrary bytes, and arbitrary bodies in a valid request, to every operation of a host with a
// session. None panics. Each answer is an [api.Response] whose code is the one that is counted.
func FuzzAnswer(f *testing.F) {
	b := bustest.Start(f)
	h, err := session.New(session.Config{Bus: b, Plugins: session.NoPlugins()})
	if err != nil {
		f.Fatal(err)
	}
	if _, err := h.Create(f.Context(), api.CreateRequest{ID: "s1"}); err != nil {
		f.Fatal(err)
	}
	core, logged := observer.New(zap.ErrorLevel)
	d := &server{host: h, log: zap.New(core)}
	operations := operation.Named()
	for op, in := range map[operation.Name]any{
		operation.Create.Name: &api.CreateArgs{Head: []byte{1}}, operation.Configure.Name: &api.ConfigureArgs{}, operation.Submit.Name: &api.TurnRequest{ID: "t1"},
		operation.SubmitAt.Name: &api.SubmitAtArgs{At: 1, Request: api.TurnRequest{ID: "t1"}}, operation.Inject.Name: &api.InjectRequest{ID: "i1"},
		operation.CancelInputs.Name: &[]events.InputID{"i1"}, operation.ResolveTool.Name: &api.ResolveArgs{Key: "t1/0/0"}, operation.Rewrite.Name: &[]api.RewriteMessage{{}},
		operation.ApplyToolState.Name: &api.ToolState{Generation: 1}, operation.StoreBlob.Name: &[]byte{1}, operation.CancelTask.Name: new(events.TaskID),
		operation.RegisterTask.Name: &api.TaskRequest{ID: "k1", Args: []byte("{}")}, operation.Complete.Name: &operation.CompleteArgs{Source: "x"}, operation.TransferTasks.Name: &api.TransferArgs{To: "s2", Tasks: []events.TaskID{"k1"}},
	} {
		body, err := events.EncodePayload(in)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(op), body)
		data, err := api.EncodeRequest(api.Request{Format: api.RequestFormat, Session: "s1", Key: "k1", Body: body})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(op), data)
	}
	f.Add(string(operation.Actions.Name), []byte{0xdf, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, name string, body []byte) {
		op := operation.Name(name)
		if operations[op] == nil {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		proper, err := api.EncodeRequest(api.Request{Format: api.RequestFormat, Session: "s1", Body: body})
		if err != nil {
			return
		}
		for _, data := range [][]byte{body, proper} {
			out, code := d.handle(ctx, operations[op], "", data)
			var a api.Response
			if err := events.DecodePayload(out, &a); err != nil || a.Error.Code != code {
				t.Errorf("%s: got %x counted under %q and %v, want an answer of that code", op, out, code, err)
			}
			for _, entry := range logged.TakeAll() {
				if text := fmt.Sprint(entry.ContextMap()["error"]); strings.Contains(text, errPanicked.Error()) {
					t.Errorf("%s: got a panic: %s", op, text)
				}
			}
		}
	})
}
