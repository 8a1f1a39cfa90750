package bus_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// TestLongRecreateMissing recreates shared streams on buses in use, also where it is cancelled at any request. Cold
// sessions stay, and the buckets can be read.
func TestLongRecreateMissing(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b := bustest.Open(t, server)
	appendUpTo(t, b, "s", nil, 3)
	mustMakeCold(t, b, "s", 3)
	ctx, cancel := context.WithCancel(t.Context())
	var looking sync.WaitGroup
	looking.Go(func() {
		for ctx.Err() == nil {
			if last, err := b.Log().Last(ctx, "s"); err == nil && last != 3 || errors.Is(err, events.ErrNoSession) {
				t.Errorf("the cold session: got %d, %v", last, err)
			}
			if _, err := b.Directory().Get(ctx, "s"); err != nil && !errors.Is(err, events.ErrOutcomeUnknown) && !errors.Is(err, bus.ErrNotFound) && ctx.Err() == nil {
				t.Logf("row: %v", err) // while the bucket is missing
			}
		}
	})
	js := jetStream(t, b)
	for k, whole := 1, false; !whole; k++ {
		for _, name := range []string{"lash-dead", "KV_lash-sessions", "OBJ_lash-blobs"} {
			if err := js.DeleteStream(t.Context(), name); err != nil && k == 1 {
				t.Fatal(err)
			}
		}
		whole = bustest.KilledAt(t, server, k, false, func(ctx context.Context, victim *bus.Bus) error {
			_, err := victim.RecreateMissing(ctx)
			return errors.Join(err, ctx.Err())
		})
	}
	_, err := b.RecreateMissing(t.Context())
	runtest.WantError(t, "recreate missing", err, nil)
	cancel()
	looking.Wait()
	if missing, err := b.MissingStreams(t.Context()); err != nil || len(missing) > 0 {
		t.Errorf("missing: got %v, %v", missing, err)
	}
	_, err = b.PutBlob(t.Context(), make([]byte, 1<<20))
	runtest.WantError(t, "a blob", err, nil)
}

// TestRecreateAfterRestart restarts a server: what it had in memory is made again, and no log line asks for a backup. A stream on
// disk that is gone is an error.
func TestRecreateAfterRestart(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.InfoLevel)
	server := bustest.Server(t, busembed.Config{})
	b, err := bus.Open(t.Context(), bus.Config{Options: []nats.Option{server.InProcess()}, Logger: zap.New(core)})
	runtest.NoError(t, err)
	defer b.Close()
	for _, step := range []struct {
		gone []string
		want zapcore.Level
	}{{[]string{"lash-dirty", "lash-delta"}, zap.InfoLevel}, {[]string{"lash-delta", "lash-dead"}, zap.ErrorLevel}} {
		for _, name := range step.gone {
			runtest.NoError(t, jetStream(t, b).DeleteStream(t.Context(), name))
		}
		made, err := b.RecreateMissing(t.Context())
		got := logs.FilterMessageSnippet("made again").FilterMessageSnippet("shared streams").All()
		logs.TakeAll()
		if err != nil || len(made) != len(step.gone) || len(got) != 1 || got[0].Level != step.want {
			t.Errorf("%v gone: made %v, %v, logged %v, want one line of level %v", step.gone, made, err, got, step.want)
		}
	}
}

// TestRecreateLeavesArchives deletes the stream of archives. It stays missing, and the state of a cold session is
// unknown, until a node starts.
func TestRecreateLeavesArchives(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b := bustest.Open(t, server)
	appendUpTo(t, b, "s", nil, 3)
	mustMakeCold(t, b, "s", 3)
	runtest.NoError(t, jetStream(t, b).DeleteStream(t.Context(), "lash-archive"))
	if made, err := b.RecreateMissing(t.Context()); err != nil || len(made) > 0 {
		t.Errorf("made %v, %v, want nothing", made, err)
	}
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond) // any error of that end is the unknown outcome
	defer cancel()
	_, err := b.Log().Last(short, "s")
	runtest.WantError(t, "the cold session", err, events.ErrOutcomeUnknown)
	runtest.WantError(t, "ready", b.Ready(t.Context()), bus.ErrNotFound)
	bustest.Open(t, server) // a node starts
	runtest.WantError(t, "ready, with another node", b.Ready(t.Context()), nil)
}
