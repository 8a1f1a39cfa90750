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
)

// single is a server that nobody repairs, on a store that outlives it.
type single struct {
	store string
	*server.Server
}

func (s *single) start(t *testing.T) *bus.Bus {
	t.Helper()
	var err error
	s.Server, err = server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: s.store, NoSigs: true, NoAuthUser: "all",
		Users: []*server.User{{Username: "all"}, {Username: "archiver", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Deny: []string{"$JS.API.STREAM.UPDATE.lash-s-s"}},
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server is not ready")
	}
	b, err := bus.Open(t.Context(), bus.Config{URL: s.ClientURL()})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// killedWhile ends the server as one that was killed while it wrote new
// settings of the session's stream: the checksum is what it was before.
func (s *single) killedWhile(t *testing.T, b *bus.Bus, change func(cfg *jetstream.StreamConfig)) {
	t.Helper()
	hot := streams(t, b)
	if len(hot) != 1 {
		t.Fatalf("streams: got %v, want one", hot)
	}
	js, err := jetstream.New(b.Conn())
	if err != nil {
		t.Fatal(err)
	}
	sum := filepath.Join(s.store, "jetstream", "$G", "streams", hot[0], "meta.sum")
	before, err := os.ReadFile(sum) //nolint:gosec // of this test
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), hot[0])
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	change(&cfg)
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	s.stop(b)
	if err := os.WriteFile(sum, before, 0o600); err != nil {
		t.Fatal(err)
	}
}

// archiverDies archives the session up to where it is sealed.
func (s *single) archiverDies(t *testing.T, last events.Seq) {
	t.Helper()
	silent := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
	b, err := bus.Open(t.Context(), bus.Config{URL: s.ClientURL(), Options: []nats.Option{nats.UserInfo("archiver", ""), silent}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := b.Archive(ctx, "s", last); err == nil {
		t.Fatal("the archiver went on: got no error")
	}
}

func (s *single) stop(b *bus.Bus) {
	b.Close()
	s.Shutdown()
	s.WaitForShutdown()
}

// TestServerForgetsStream has a single server that skips a session's stream
// after it was killed in the middle of the archiver's seal, in each life of the
// session: nothing is lost, and the server has the stream for good after the next append.
func TestServerForgetsStream(t *testing.T) {
	t.Parallel()
	s := &single{store: t.TempDir()}
	b := s.start(t)
	defer func() { s.stop(b) }()
	var want []string
	for life := 1; life <= 3; life++ {
		want = say(t, b, "s", want, 10*life)
		if life == 1 { // later ones have their entry
			s.archiverDies(t, events.Seq(len(want)))
		}
		put, err := b.Sleeper(t.Context(), "s") // an archiver that sees the seal, and puts the entry late
		if err != nil {
			t.Fatal(err)
		}
		s.killedWhile(t, b, func(cfg *jetstream.StreamConfig) { cfg.Sealed = true })
		b = s.start(t)
		if got := streams(t, b); len(got) != 0 {
			t.Fatalf("life %d: the server has %v: it need not be made again", life, got)
		}
		if got := said(t, b, "s", 0); !slices.Equal(got, want) {
			t.Fatalf("life %d: got %v, want %v", life, got, want)
		}
		if err := put(b); !errors.Is(err, bus.ErrStale) {
			t.Errorf("life %d: an archiver that saw the lost seal: got %v, want %v", life, err, bus.ErrStale)
		}
		want = say(t, b, "s", want, len(want)+1)
		s.stop(b)
		b = s.start(t)
		if got := streams(t, b); len(got) != 1 {
			t.Errorf("life %d: after an append and a restart: got streams %v, want one", life, got)
		}
		if got := said(t, b, "s", 0); !slices.Equal(got, want) {
			t.Errorf("life %d: after an append and a restart: got %v, want %v", life, got, want)
		}
		if err := goCold(t.Context(), b, "s", events.Seq(len(want))); err != nil {
			t.Fatal(err)
		}
	}
	if got := said(t, b, "s", 0); !slices.Equal(got, want) {
		t.Errorf("cold: got %v, want %v", got, want)
	}
}
