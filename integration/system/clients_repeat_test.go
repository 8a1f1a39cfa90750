package system

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
)

// copies sends one request that many times at once, to any node, and returns the responses.
func copies(t *testing.T, on *bus.Bus, op operation.Name, r api.Request, in any) []api.Response {
	t.Helper()
	var err error
	r.Format, r.Key = api.RequestFormat, "key-of-"+string(op)
	if r.Body, err = events.EncodePayload(in); err != nil {
		t.Fatal(err)
	}
	data, err := api.EncodeRequest(r)
	runtest.NoError(t, err)
	answers := make([]api.Response, 8)
	var sending sync.WaitGroup
	for i := range answers {
		sending.Go(func() {
			reply, err := on.Request(harness.Context(t), string(op), data, time.Minute, nil)
			if err == nil {
				err = events.DecodePayload(reply, &answers[i])
			}
			runtest.WantError(t, string(op), err, nil)
		})
	}
	sending.Wait()
	for _, a := range answers {
		if !a.Error.IsZero() || string(a.Body) != string(answers[0].Body) {
			t.Fatalf("%s: got %+v, want what another was answered: %+v", op, a, answers[0])
		}
	}
	return answers
}

// TestServiceCopiesAtOnce has two nodes work on copies of one request at the same time.
func TestServiceCopiesAtOnce(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	for range 2 {
		serving(t, bustest.Open(t, server))
	}
	on := harness.OpenReader(t, bus.Config{Options: []nats.Option{server.InProcess()}})
	c, ctx := harness.Dial(t, on), harness.Context(t)

	var texts []string
	for i := range 300 { // more than one commit
		texts = append(texts, fmt.Sprintf("n%d", i))
	}
	copies(t, on, operation.Create.Name, api.Request{}, &api.CreateArgs{Request: api.CreateRequest{ID: "s1", Nodes: harness.UserMessages(texts...)}})
	v, err := c.View(ctx, "s1")
	runtest.NoError(t, err)
	runtest.Equal(t, "messages", len(v.Messages), len(texts))

	last := func() events.Seq {
		s, err := c.State(ctx, "s1")
		runtest.NoError(t, err)
		return s.Seq
	}
	since := last()
	for i, step := range []struct {
		op operation.Name
		in any
	}{
		{operation.SetToolsAvailability.Name, &api.AvailabilityArgs{Names: []string{"later"}, Level: events.Override(events.AvailOff)}},
		{operation.AddToolSource.Name, new("more")},
		{operation.RefreshCatalog.Name, &struct{}{}},
		{operation.RemoveToolSource.Name, new("more")},
		{operation.OpenFrame.Name, &api.FrameRequest{Frame: "f2"}},
		{operation.AppendNodes.Name, &api.AppendNodesRequest{Nodes: harness.UserMessages("z"), IdempotencyKey: "k1"}},
		{operation.Inject.Name, &api.InjectRequest{ID: "i1", Parts: harness.UserMessages("x")[0].Message.Parts}},
		{operation.CancelInputs.Name, &[]events.InputID{"i1"}},
		{operation.Rewrite.Name, &[]api.RewriteMessage{{Message: *harness.UserMessages("r")[0].Message}}},
		{operation.Compact.Name, &struct{}{}},
		{operation.RegisterTask.Name, &api.TaskRequest{ID: "k1"}},
		{operation.ProgressTask.Name, &api.ProgressArgs{Task: "k1", Message: "on"}},
		{operation.TransitionOwnTask.Name, &api.TransitionArgs{Task: "k1", State: events.TaskWaiting}},
		{operation.RequestCancelTask.Name, &api.RequestCancelTaskArgs{Task: "k1"}},
		{operation.EndOwnTask.Name, &api.EndOwnTaskArgs{Task: "k1", State: events.TaskCancelled}},
		{operation.UnregisterOwnTask.Name, new(events.TaskID("k1"))},
		{operation.SetProtocolOptions.Name, &api.ProtocolOptionsArgs{Options: []byte("{}")}},
		{operation.Complete.Name, &operation.CompleteArgs{Request: plugin.CompletionRequest{Messages: []events.Message{plugin.Say(events.RoleUser, "x")}}, Source: "me"}},
	} {
		copies(t, on, step.op, api.Request{Session: "s1", Since: since}, step.in)
		runtest.Equal(t, string(step.op)+": last sequence", last(), since+events.Seq(i)+1)
	}
}

// TestClientLargeBodies refuses a body that is too large for a message, and accepts it as a blob.
func TestClientLargeBodies(t *testing.T) {
	t.Parallel()
	ctx := harness.Context(t)
	server := bustest.Server(t, busembed.Config{})
	on := bustest.Open(t, server)
	serving(t, on)
	c := harness.Dial(t, harness.OpenReader(t, bus.Config{Options: []nats.Option{server.InProcess()}}))
	id, err := c.Create(ctx, api.CreateRequest{})
	runtest.NoError(t, err)
	for e, err := range on.Log().Read(ctx, id, 1) {
		runtest.NoError(t, err)
		runtest.Equal(t, "actor of what the client asked for", e.Commit.Actor, events.Actor{Kind: events.ActorClient, ID: "ide"})
	}
	large := strings.Repeat("0123456789", 100<<10)
	_, err = c.Inject(ctx, id, api.InjectRequest{Parts: []events.Part{harness.Text(large)}})
	if field, ok := errors.AsType[*events.FieldError](err); !ok || field.Field != "request" || !errors.Is(err, events.ErrTooLarge) {
		t.Errorf("inject: got %v, want %v of field request", err, events.ErrTooLarge)
	}
	var parts []events.Part
	for _, half := range []string{large[:len(large)/2], large[len(large)/2:]} {
		ref, err := c.PutBlob(ctx, []byte(half))
		runtest.NoError(t, err)
		parts = append(parts, events.Part{Kind: events.PartText, Blob: ref})
	}
	r, err := c.Run(ctx, id, api.TurnRequest{Input: events.TurnInput{Parts: parts}})
	runtest.NoError(t, err)
	a, err := c.AssembledTurn(ctx, id, r.ID)
	runtest.NoError(t, err)
	runtest.Equal(t, "size of what the model read", len(a.Output.RawText), len("you said ")+len(large))
}
