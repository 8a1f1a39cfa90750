package httpapi_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/memory"
	"github.com/lash-go/lash/session/operation"
)

// lossy is a service that stops answering after a number of calls. A later call blocks until its context ends, and
// records the context.
type lossy struct {
	operation.Host
	mu      sync.Mutex
	answers int
	last    time.Duration // time to the deadline of the last context when it was received; negative: no deadline
}

func (l *lossy) ask(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.answers--; l.answers >= 0 {
		return nil
	}
	due, ends := ctx.Deadline()
	if l.last = time.Until(due); !ends {
		l.last = -1
	}
	return context.DeadlineExceeded // as if it were over
}

func (l *lossy) FindBlobs(ctx context.Context, _ events.SessionID, digests ...string) ([]events.BlobRef, error) {
	return []events.BlobRef{{Digest: digests[0], Size: 1}}, l.ask(ctx)
}

func (l *lossy) State(ctx context.Context, id events.SessionID) (*projector.State, error) {
	return projector.New(id), l.ask(ctx)
}

func (l *lossy) Submit(ctx context.Context, _ events.SessionID, req api.TurnRequest) (events.TurnID, error) {
	return req.ID, l.ask(ctx)
}

func (l *lossy) Run(ctx context.Context, _ events.SessionID, _ api.TurnRequest) (r api.TurnResult, err error) {
	return r, l.ask(ctx)
}

func (l *lossy) Await(ctx context.Context, _ events.SessionID, _ events.TurnID) (r api.TurnResult, err error) {
	return r, l.ask(ctx)
}

func (l *lossy) AssembledTurn(ctx context.Context, _ events.SessionID, _ events.TurnID) (t api.AssembledTurn, err error) {
	return t, l.ask(ctx)
}

// TestWaitBoundsEveryStep stops the service at each step of a request that waits for a turn, and of one that does
// not. The request ends soon after its wait, or at the request timeout.
func TestWaitBoundsEveryStep(t *testing.T) {
	t.Parallel()
	body := `{"id":"t1","parts":[{"type":"text","blob":{"digest":"` + strings.Repeat("0f", 32) + `","size":1}}]}`
	for wait, most := range map[string]time.Duration{"?wait=2": 3 * time.Second, "?wait=25": 26 * time.Second, "?wait=50": 50 * time.Second, "": 30 * time.Second} {
		for answers := range 5 {
			cfg := config(t)
			l := &lossy{Host: cfg.Service, answers: answers}
			cfg.Service, cfg.RequestTimeout = l, 30*time.Second
			w := ask(t, newServer(t, cfg), "POST", "/v1/sessions/s/turns"+wait, body)
			what := fmt.Sprintf("%q after %d answers", wait, answers)
			asked := min(answers, 2) < 2 || wait != "" // without a wait there are two steps
			if asked && (l.last <= 0 || l.last > most) {
				t.Errorf("%s: got a step with %s left, want at most %s", what, l.last, most)
			}
			want := 202
			if answers < 2 {
				want = 504
			}
			if w.Code != want {
				t.Errorf("%s: got %d %s, want %d", what, w.Code, w.Body, want)
			}
		}
	}
}

// forgetful has no memory for what became of a turn, which it accepts.
type forgetful struct {
	operation.Host
	pool *memory.Pool
	held error // why the memory of the request is not free while it waits
}

func (f *forgetful) State(_ context.Context, id events.SessionID) (*projector.State, error) {
	return projector.New(id), nil
}

func (f *forgetful) Submit(_ context.Context, _ events.SessionID, req api.TurnRequest) (events.TurnID, error) {
	return req.ID, nil
}

func (f *forgetful) Await(ctx context.Context, _ events.SessionID, _ events.TurnID) (r api.TurnResult, err error) {
	ctx, stop := context.WithCancel(ctx)
	stop()
	give, err := f.pool.Take(ctx, "me", 1<<20)
	if f.held = err; err == nil {
		give()
	}
	return r, nil
}

func (f *forgetful) AssembledTurn(context.Context, events.SessionID, events.TurnID) (t api.AssembledTurn, err error) {
	return t, api.ErrMemory
}

// TestAcceptedTurnIsNotRefused waits for a turn whose end the node has no memory for: the answer is not that of a request without effect. The
// request has no memory while it waits.
func TestAcceptedTurnIsNotRefused(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	f := &forgetful{Host: cfg.Service, pool: memory.NewPool(1<<20, 1<<20)}
	cfg.Service, cfg.Memory = f, f.pool
	w := ask(t, newServer(t, cfg), "POST", "/v1/sessions/s/turns?wait=2", `{"id":"t1","text":"`+strings.Repeat("x", 200<<10)+`"}`)
	if w.Code != 202 || w.Header().Get("Location") != "/v1/sessions/s/turns/t1" || f.held != nil {
		t.Errorf("got %d %s, and while it waits %v", w.Code, w.Body, f.held)
	}
}
