package bus_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/internal/runtest"
)

// waitMessages are the messages of [bus.Config.Waiting].
type waitMessages struct {
	mu   sync.Mutex
	list []string
	at   []time.Time
	more chan struct{}
}

func newWaitMessages() *waitMessages { return &waitMessages{more: make(chan struct{}, 1024)} }

func (w *waitMessages) add(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list, w.at = append(w.list, what), append(w.at, time.Now())
	w.more <- struct{}{}
}

// TestLongOpenWaits opens a bus before its servers run, and a reader before the first node: both wait, report what for,
// and open.
func TestLongOpenWaits(t *testing.T) {
	t.Parallel()
	ports, err := busembed.FreePorts(1)
	runtest.NoError(t, err)
	url := fmt.Sprintf("nats://me:secret@127.0.0.1:%d", ports[0])
	messages, opened := newWaitMessages(), make(chan error, 2)
	open := func(as func(context.Context, bus.Config) (*bus.Bus, error)) {
		b, err := as(t.Context(), bus.Config{URL: url, Wait: true, Waiting: messages.add, Timeout: time.Minute})
		if err == nil {
			b.Close()
		}
		opened <- err
	}
	go open(bus.OpenReader)
	for range 2 {
		<-messages.more
	}
	s := bustest.Server(t, busembed.Config{Listen: true, Port: ports[0]})
	for waits := false; !waits; {
		<-messages.more
		messages.mu.Lock()
		waits = strings.HasPrefix(messages.list[len(messages.list)-1], "wait for the first node: ")
		messages.mu.Unlock()
	}
	select {
	case err := <-opened:
		t.Fatalf("before the first node: got %v, want it to wait", err)
	default:
	}
	go open(bus.Open)
	for range 2 {
		runtest.WantError(t, "opened", <-opened, nil)
	}
	messages.mu.Lock()
	list, at := slices.Clone(messages.list), slices.Clone(messages.at)
	messages.mu.Unlock()
	for i, what := range list {
		if strings.Contains(what, "secret") || !strings.HasPrefix(what, "connect to nats://") && !strings.HasPrefix(what, "wait for the first node: ") {
			t.Errorf("got %q, want what it waits for, and no password", what)
		}
		if i > 0 && at[i].Sub(at[i-1]) < 900*time.Millisecond {
			t.Errorf("got %q %s after the message before", what, at[i].Sub(at[i-1]))
		}
	}
	s.Stop()
	if _, err := bus.Open(t.Context(), bus.Config{URL: url}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("without waiting: got %v, want an error at once", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-messages.more
		cancel()
	}()
	if _, err := bus.Open(ctx, bus.Config{URL: url, Wait: true, Waiting: messages.add}); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("given up: got %v, want what was waited for", err)
	}
}

// TestOpenFreshCluster opens a bus while the cluster elects its first leader: no request takes longer than the
// election.
func TestOpenFreshCluster(t *testing.T) {
	t.Parallel()
	c := bustest.StartCluster(t)
	messages := newWaitMessages()
	b, err := bus.Open(t.Context(), bus.Config{URL: c.URL, Replicas: 3, Waiting: messages.add})
	runtest.NoError(t, err)
	b.Close()
	t.Logf("waited for %q", messages.list)
}
