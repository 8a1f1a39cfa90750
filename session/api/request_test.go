package api_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

func authorization() api.Request {
	return api.Request{Format: api.RequestFormat, Actor: "ide", Key: "k1", Since: 7, Session: "s1", Body: []byte{0xc0}}
}

func TestRequestTravels(t *testing.T) {
	t.Parallel()
	want := authorization()
	data, err := api.EncodeRequest(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := api.DecodeRequest(data)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v and %v, want %+v", got, err, want)
	}
}

func TestRequestRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*api.Request)
		field  string
		err    error
	}{
		"format":  {func(r *api.Request) { r.Format = 2 }, "format", events.ErrInvalid},
		"session": {func(r *api.Request) { r.Session = "a.>" }, "session", events.ErrInvalidID},
		"key":     {func(r *api.Request) { r.Key = "a b" }, "key", events.ErrInvalidID},
		"actor":   {func(r *api.Request) { r.Actor = strings.Repeat("x", 65) }, "actor", events.ErrInvalidID},
	} {
		r := authorization()
		c.change(&r)
		data, err := api.EncodeRequest(r)
		if err != nil {
			t.Fatal(err)
		}
		_, err = api.DecodeRequest(data)
		field, ok := errors.AsType[*events.FieldError](err)
		if !ok || field.Field != c.field || !errors.Is(err, c.err) {
			t.Errorf("%s: got %v, want %v of field %s", name, err, c.err, c.field)
		}
	}
}

func TestRequestTooLarge(t *testing.T) {
	t.Parallel()
	r := authorization()
	r.Body = make([]byte, api.MaxRequestBytes)
	_, err := api.EncodeRequest(r)
	if field, ok := errors.AsType[*events.FieldError](err); !ok || field.Field != "request" || !errors.Is(err, events.ErrTooLarge) ||
		!strings.Contains(err.Error(), "limit is 983040") || !strings.Contains(err.Error(), "blobs") {
		t.Errorf("got %v, want the field, the limit, and what to do", err)
	}
	if _, err := api.DecodeRequest(make([]byte, api.MaxRequestBytes+1)); !errors.Is(err, events.ErrTooLarge) {
		t.Errorf("got %v, want %v", err, events.ErrTooLarge)
	}
}

// TestRequestOfTheFuture decodes a request with an unknown field.
func TestRequestOfTheFuture(t *testing.T) {
	t.Parallel()
	data, err := events.EncodePayload(&struct {
		api.CancelRequest
		Also string `msgpack:"z"`
	}{api.CancelRequest{ID: "c"}, "this too"})
	if err != nil {
		t.Fatal(err)
	}
	const want = "z: is unknown: known are "
	if err := api.DecodeStrict(data, &api.CancelRequest{}); !errors.Is(err, events.ErrMalformed) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %v with %q", err, events.ErrMalformed, want)
	}
}

// FuzzDecodeRequest checks that no input panics, and that an accepted request encodes to the same bytes.
func FuzzDecodeRequest(f *testing.F) {
	for _, r := range []api.Request{authorization(), {Format: api.RequestFormat}} {
		data, err := api.EncodeRequest(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte{0xdf, 0xff, 0xff, 0xff, 0xff})
	targets := []func() any{
		func() any { return &api.CreateArgs{} }, func() any { return &api.ConfigureArgs{} }, func() any { return &api.TurnRequest{} },
		func() any { return &api.CancelArgs{} }, func() any { return &api.InjectRequest{} }, func() any { return &api.AppendNodesRequest{} },
		func() any { return &api.FrameRequest{} }, func() any { return &[]api.RewriteMessage{} }, func() any { return &api.ResolveArgs{} },
		func() any { return &api.ToolState{} }, func() any { return &api.AvailabilityArgs{} }, func() any { return &events.MonitorSpec{} },
		func() any { return &events.ToolApprovalGiven{} }, func() any { return &api.ActionArgs{} }, func() any { return &api.ErrorBody{} },
		func() any { return &api.SubmitAtArgs{} }, func() any { return &api.TaskRequest{} }, func() any { return &api.EndOwnTaskArgs{} }, func() any { return &api.TransferArgs{} },
		func() any { return &api.ProgressArgs{} }, func() any { return &api.RequestCancelTaskArgs{} }, func() any { return &api.ProtocolOptionsArgs{} }, func() any { return &events.Extension{} },
		func() any { return new(events.InputID) }, func() any { return &[]events.InputID{} },
		func() any { return new(events.TaskID) }, func() any { return new(events.MonitorID) }, func() any { return new(events.NodeID) },
		func() any { return new(events.TurnID) }, func() any { return new(events.Seq) }, func() any { return new(string) }, func() any { return &[]byte{} },
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := api.DecodeRequest(data)
		if err == nil {
			again, err := api.EncodeRequest(r)
			if err != nil || !bytes.Equal(again, data) {
				t.Fatalf("got %x and %v, want %x", again, err, data)
			}
		}
		for _, target := range targets {
			v := target()
			if api.DecodeStrict(data, v) == nil {
				again, err := events.EncodePayload(v)
				if err != nil || !bytes.Equal(again, data) {
					t.Fatalf("%T: got %x and %v, want %x", v, again, err, data)
				}
			}
		}
	})
}
