package remote

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
)

// TestAttachmentsAreCounted returns any number of attachments: more than nodes take are a failure that names the limit.
func TestAttachmentsAreCounted(t *testing.T) {
	t.Parallel()
	one := events.Part{Kind: events.PartAttachment, MediaType: "image/png", Text: base64.StdEncoding.EncodeToString([]byte{1})}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.IntRange(0, 600), rapid.SampledFrom([]int{255, 256, 257, 20000})).Draw(t, "n")
		out := outcomeOf(&plugin.Result{Text: "t", Attachments: slices.Repeat([]events.Part{one}, n)}, nil)
		switch {
		case n <= 256 && (out.Failure != nil || len(out.Attachments) != n || out.Text != "t"):
			t.Errorf("%d attachments: got %+v, want all", n, out)
		case n > 256 && (out.Failure == nil || out.Failure.Class != plugin.ClassResourceLimit || out.Text != "" || len(out.Attachments) > 0 ||
			!strings.Contains(out.Failure.Message, fmt.Sprintf("has %d, limit is 256", n))):
			t.Errorf("%d attachments: got %+v, want a failure with the limit", n, out)
		}
	})
}

// TestAttachmentByReference returns a body that the session has: its bytes are not sent.
func TestAttachmentByReference(t *testing.T) {
	t.Parallel()
	ref := events.BlobRef{Digest: strings.Repeat("a", 64), Size: 7}
	out := outcomeOf(&plugin.Result{Attachments: []events.Part{{Kind: events.PartAttachment, MediaType: "image/png", Blob: ref}}}, nil)
	if want := []wire.Attachment{{MediaType: "image/png", Digest: ref.Digest, Size: ref.Size}}; out.Failure != nil || !reflect.DeepEqual(out.Attachments, want) {
		t.Errorf("got %+v, want %+v", out, want)
	}
}

// TestQuestionStaysOpen asks nodes of a version without questions, which answer with 404, until another node has the call.
// Other refusals are failures at once, and the end of the call ends the question.
func TestQuestionStaysOpen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		statuses []int // of the answers; the last one is repeated
		granted  bool
		code     string // of the failure
		asked    int
	}{
		"later_node": {[]int{404, 404, 404, 200}, true, "", 4},
		"this_node":  {[]int{200}, true, "", 1},
		"forbidden":  {[]int{403}, false, plugin.CodeUnavailable, 1},
		"conflict":   {[]int{404, 409}, false, plugin.CodeUnavailable, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				given, err := newCalls(time.Minute).asks(wire.CallID{}, func(_ context.Context, id, method, path string, _ json.RawMessage) (int, json.RawMessage, error) {
					if id != "q" || method != http.MethodPost || path != "/v1/ask" {
						t.Errorf("request: got %s %s %s", id, method, path)
					}
					status := c.statuses[min(asked, len(c.statuses)-1)]
					asked++
					return status, json.RawMessage(`{"granted":true,"by":"ann"}`), nil
				})(t.Context(), "q", "Which one?", nil)
				if refused, _ := err.(*plugin.Failure); given.Granted != c.granted || asked != c.asked || (refused == nil) != (c.code == "") || refused != nil && refused.Code != c.code { //nolint:errorlint // it is not wrapped
					t.Errorf("got %+v, %v after %d requests", given, err, asked)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		_, err := newCalls(time.Minute).asks(wire.CallID{}, func(context.Context, string, string, string, json.RawMessage) (int, json.RawMessage, error) {
			end()
			return http.StatusNotFound, nil, nil
		})(ctx, "q", "Which one?", nil)
		if err != context.Canceled { //nolint:errorlint // the cause itself
			t.Errorf("after the end of the call: got %v, want its cause", err)
		}
	})
}

// TestStopWaitsForAllWork starts work in several goroutines while Stop starts to wait. Work that started before ends before
// Stop returns, and none starts later.
func TestStopWaitsForAllWork(t *testing.T) {
	t.Parallel()
	for range 200 {
		i := &Instance{}
		var begun, ended atomic.Int64
		var senders sync.WaitGroup
		stopped := make(chan struct{})
		for range 4 {
			senders.Go(func() {
				for range 50 {
					if !i.begin(func() { ended.Add(1) }) {
						return
					}
					begun.Add(1)
				}
				<-stopped
				if i.begin(func() { ended.Add(1) }) {
					t.Error("work begins after the stop")
				}
			})
		}
		i.endWork()
		i.work.Wait()
		now := ended.Load()
		close(stopped)
		senders.Wait()
		if begun.Load() != ended.Load() || ended.Load() != now {
			t.Fatalf("got %d begun, %d ended, and %d at the end of the wait", begun.Load(), ended.Load(), now)
		}
	}
}

// TestLateMessages handles messages after the stop: nothing runs, and no hook is counted as one that runs.
func TestLateMessages(t *testing.T) {
	t.Parallel()
	i := &Instance{calls: newCalls(wire.KeepOutcome)}
	i.endWork()
	i.registerAgain(nil)
	i.hook(nil)
	i.work.Wait()
	if running, _, _ := i.calls.counts(); running != 0 || i.calls.hooks != 0 {
		t.Errorf("got %d calls and %d hooks, want none", running, i.calls.hooks)
	}
}
