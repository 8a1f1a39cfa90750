package bus_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// unrepairedServer is a server without the repair of package busembed, on a store that outlives it.
type unrepairedServer struct {
	store string
	*server.Server
}

func (s *unrepairedServer) start(t *testing.T) *bus.Bus {
	t.Helper()
	var err error
	s.Server, err = server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: s.store, NoSigs: true, NoAuthUser: "all",
		Users: []*server.User{{Username: "all"}, {Username: "archiver", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Deny: []string{"$JS.API.STREAM.UPDATE.lash-s-s"}},
		}}},
	})
	runtest.NoError(t, err)
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server is not ready")
	}
	b, err := bus.Open(t.Context(), bus.Config{URL: s.ClientURL()})
	runtest.NoError(t, err)
	return b
}

// killDuringUpdate leaves the store as a server does that is killed while it writes new settings of the session's
// stream: with the old checksum.
func (s *unrepairedServer) killDuringUpdate(t *testing.T, b *bus.Bus, change func(cfg *jetstream.StreamConfig)) {
	t.Helper()
	hot := streams(t, b)
	if len(hot) != 1 {
		t.Fatalf("streams: got %v, want one", hot)
	}
	js, err := jetstream.New(b.Conn())
	runtest.NoError(t, err)
	sum := filepath.Join(s.store, "jetstream", "$G", "streams", hot[0], "meta.sum")
	before, err := os.ReadFile(sum) //nolint:gosec // of this test
	runtest.NoError(t, err)
	stream, err := js.Stream(t.Context(), hot[0])
	runtest.NoError(t, err)
	cfg := stream.CachedInfo().Config
	change(&cfg)
	_, err = js.UpdateStream(t.Context(), cfg)
	runtest.NoError(t, err)
	s.stop(b)
	runtest.NoError(t, os.WriteFile(sum, before, 0o600))
}

// dieAfterSeal archives the session up to its seal.
func (s *unrepairedServer) dieAfterSeal(t *testing.T, last events.Seq) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	dies := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) { cancel() }) // at the entry, which it may not write
	b, err := bus.Open(t.Context(), bus.Config{URL: s.ClientURL(), Options: []nats.Option{nats.UserInfo("archiver", ""), dies}})
	runtest.NoError(t, err)
	defer b.Close()
	if err := b.Archive(ctx, "s", last); err == nil {
		t.Fatal("the archiver went on: got no error")
	}
}

func (s *unrepairedServer) stop(b *bus.Bus) {
	b.Close()
	s.Shutdown()
	s.WaitForShutdown()
}

// TestServerForgetsStream has a single server that skips a session's stream after it was killed in the middle of a
// seal, in each life of the session. No commit is lost, and the next append makes the server keep the stream.
func TestServerForgetsStream(t *testing.T) {
	t.Parallel()
	s := &unrepairedServer{store: t.TempDir()}
	b := s.start(t)
	defer func() { s.stop(b) }()
	var want []string
	for life := 1; life <= 3; life++ {
		want = appendUpTo(t, b, "s", want, 10*life)
		if life == 1 { // later lives have an entry
			s.dieAfterSeal(t, events.Seq(len(want)))
		}
		put, err := b.PausedPutEntry(t.Context(), "s") // an archiver that sees the seal, and puts the entry late
		runtest.NoError(t, err)
		s.killDuringUpdate(t, b, func(cfg *jetstream.StreamConfig) { cfg.Sealed = true })
		b = s.start(t)
		if got := streams(t, b); len(got) != 0 {
			t.Fatalf("life %d: the server has %v: it need not be made again", life, got)
		}
		if got := history(t, b, "s", 0); !slices.Equal(got, want) {
			t.Fatalf("life %d: got %v, want %v", life, got, want)
		}
		if err := put(b); !errors.Is(err, bus.ErrStale) {
			t.Errorf("life %d: an archiver that saw the lost seal: got %v, want %v", life, err, bus.ErrStale)
		}
		want = appendUpTo(t, b, "s", want, len(want)+1)
		s.stop(b)
		b = s.start(t)
		if got := streams(t, b); len(got) != 1 {
			t.Errorf("life %d: after an append and a restart: got streams %v, want one", life, got)
		}
		if got := history(t, b, "s", 0); !slices.Equal(got, want) {
			t.Errorf("life %d: after an append and a restart: got %v, want %v", life, got, want)
		}
		runtest.NoError(t, makeCold(t.Context(), b, "s", events.Seq(len(want))))
	}
	runtest.EqualLists(t, "cold", history(t, b, "s", 0), want)
}
