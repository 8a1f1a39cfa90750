package service

import (
	"context"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

// FuzzAnswer sends arbitrary bytes, and arbitrary bodies in a proper request,
// to every operation of a host with a session. Nothing panics, and whatever
// comes is answered with an [api.Answer] that says the code which it is counted under.
func FuzzAnswer(f *testing.F) {
	b := bustest.Start(f)
	h, err := session.New(session.Config{Bus: b})
	if err != nil {
		f.Fatal(err)
	}
	if _, err := h.Create(f.Context(), api.CreateRequest{ID: "s1"}); err != nil {
		f.Fatal(err)
	}
	d := &door{b: b, h: h, log: zap.NewNop()}
	operations := d.operations()
	for op, in := range map[api.Operation]any{
		api.OpCreate: &api.CreateArgs{Head: []byte{1}}, api.OpConfigure: &api.ConfigureArgs{}, api.OpSubmit: &api.TurnRequest{ID: "t1"},
		api.OpSubmitAt: &api.SubmitAtArgs{At: 1, Request: api.TurnRequest{ID: "t1"}}, api.OpInject: &api.InjectRequest{ID: "i1"},
		api.OpCancelInputs: &[]events.InputID{"i1"}, api.OpResolveTool: &api.ResolveArgs{Key: "t1/0/0"}, api.OpRewrite: &[]api.RewriteArg{{}},
		api.OpApplyToolState: &api.ToolState{Generation: 1}, api.OpPutBlob: &[]byte{1}, api.OpCancelTask: new(events.TaskID),
		api.OpRegisterTask: &api.TaskRequest{ID: "k1", Args: []byte("{}")}, api.OpComplete: &session.CompleteArgs{Source: "x"}, api.OpTransferTasks: &api.TransferArgs{To: "s2", Tasks: []events.TaskID{"k1"}},
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
	f.Add(string(api.OpActions), []byte{0xdf, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, name string, body []byte) {
		op := api.Operation(name)
		if operations[op] == nil {
			t.Skip("no such operation")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		proper, err := api.EncodeRequest(api.Request{Format: api.RequestFormat, Session: "s1", Body: body})
		if err != nil {
			t.Skip("more than a request takes")
		}
		for _, data := range [][]byte{body, proper} {
			out, code := d.answer(ctx, op, d.watched(t, operations[op]), "", data)
			var a api.Answer
			if err := events.DecodePayload(out, &a); err != nil || a.Error.Code != code {
				t.Errorf("%s: got %x counted under %q and %v, want an answer of that code", op, out, code, err)
			}
		}
	})
}

// watched fails the test where the operation panics, which [door.do] would contain.
func (d *door) watched(t *testing.T, run operation) operation {
	return func(ctx context.Context, session events.SessionID, body []byte) ([]byte, error) {
		defer func() {
			if p := recover(); p != nil {
				t.Errorf("got a panic: %v", p)
			}
		}()
		return run(ctx, session, body)
	}
}
