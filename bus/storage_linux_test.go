package bus_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// smallDisk mounts a file system of some MB in memory.
func smallDisk(t *testing.T) string {
	t.Helper()
	runtest.Root(t)
	dir := t.TempDir()
	runtest.NoError(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=32m"))
	t.Cleanup(func() {
		runtest.WantError(t, "unmount", syscall.Unmount(dir, syscall.MNT_DETACH), nil)
	})
	return dir
}

// startOn starts a server on a directory, with a client that connects to it again after a restart.
func startOn(t *testing.T, dir string) (*busembed.Server, *bus.Bus) {
	t.Helper()
	server := bustest.Server(t, busembed.Config{StoreDir: dir, Listen: true})
	b, err := bus.Open(t.Context(), bustest.WithKeys(t, bus.Config{URL: server.URL(), Timeout: time.Second}))
	runtest.NoError(t, err)
	t.Cleanup(b.Close)
	return server, b
}

// large is a commit of some size.
func large(id events.SessionID, n events.Seq) *events.Commit {
	c := commit(id, int(n))
	c.Events = []events.Event{events.Of("", &events.SessionClosed{Reason: strings.Repeat("x", 128<<10)})}
	return c
}

// refuses appends to a session until Ready names its stream.
func refuses(t *testing.T, b *bus.Bus, id events.SessionID, want ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	appended := make(chan error, 1)
	go func() {
		at, err := b.Log().Last(ctx, id)
		for err == nil {
			at, err = b.Log().Append(ctx, large(id, at+1), at)
		}
		appended <- err
	}()
	bustest.Eventually(t, "the readiness names the stream", func() bool {
		err := b.Ready(t.Context())
		if !errors.Is(err, events.ErrStorage) || !strings.Contains(err.Error(), want[0]) {
			return false
		}
		for _, text := range want {
			runtest.Contains(t, "err", err.Error(), text)
		}
		return true
	})
	cancel()
	if err := <-appended; !events.OfServers(err) {
		t.Errorf("append: got %v, want a fault of the servers", err)
	}
}

// takesAgain appends a commit, after which the bus is ready.
func takesAgain(t *testing.T, b *bus.Bus, id events.SessionID) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var at events.Seq
	bustest.Eventually(t, "the server answers", func() bool {
		var err error
		at, err = b.Log().Last(ctx, id)
		return err == nil
	})
	_, err := b.Log().Append(ctx, large(id, at+1), at)
	runtest.WantError(t, "append", err, nil)
	if _, err := b.RecreateMissing(t.Context()); err != nil { // a server that restarts has lost what it had in memory
		t.Error(err)
	}
	bustest.Eventually(t, "the bus is ready", func() bool { return b.Ready(t.Context()) == nil })
}

// TestLongReadyNamesFullDisk fills the disk under a server. The stream that met that takes no append until the server restarts, also when
// there is space again, and the readiness says so.
func TestLongReadyNamesFullDisk(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t)
	server, b := startOn(t, dir)
	mustCreate(t, b, "s")
	runtest.NoError(t, b.Ready(t.Context()))
	filler := filepath.Join(dir, "filler")
	if err := fill(filler); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("fill the disk: got %v, want %v", err, syscall.ENOSPC)
	}
	refuses(t, b, "s", "stream lash-s-s answers no append", "make space, then restart the server")
	runtest.NoError(t, os.Remove(filler))
	refuses(t, b, "s", "stream lash-s-s answers no append")
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL(), "nats://"), ":")
	server.Stop()
	bustest.Server(t, busembed.Config{StoreDir: dir, Listen: true, Port: portOf(t, port)})
	takesAgain(t, b, "s")
}

// fillTo writes a file until the disk has less than that free.
func fillTo(t *testing.T, server *busembed.Server, name string, least int64) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	for free := least; err == nil && free >= least; {
		if _, err = f.Write(make([]byte, 64<<10)); err == nil {
			free, err = server.Free()
		}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestFullDiskIsNotReached fills the disk of a store whose space this process knows, at last to the last byte: requests are refused before
// anything is sent, first those that store much, and every stream takes them again once there is space, without a restart. A session can be
// erased, which makes space.
func TestFullDiskIsNotReached(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t)
	server := bustest.Server(t, busembed.Config{StoreDir: dir})
	b, err := bus.Open(t.Context(), bustest.WithKeys(t, bus.Config{Options: []nats.Option{server.InProcess()}, Free: server.Free}))
	runtest.NoError(t, err)
	t.Cleanup(b.Close)
	mustCreate(t, b, "s")
	mustCreate(t, b, "old")
	const at = 1
	trial := bus.TrialKey{Session: "s", Of: bus.TrialFold}
	snapshots, sent := b.Snapshots(), 0
	row := func(size int) error {
		sent++
		_, err := snapshots.Put(t.Context(), events.SessionID(fmt.Sprint("row", sent)), make([]byte, size), 0)
		return err
	}
	much := map[string]func() error{
		"append":    func() error { _, err := b.Log().Append(t.Context(), large("s", at+1), at); return err },
		"create":    func() error { return createSession(t, b, "new") },
		"large row": func() error { return row(128 << 10) },
	}
	little := map[string]func() error{
		"row":          func() error { return row(3) },
		"wake":         func() error { return b.PublishWake(turnKey("s"), bus.WakeHint{}) },
		"stored wake":  func() error { return b.StoreWake(t.Context(), turnKey("s"), bus.WakeHint{}) },
		"timer":        func() error { return b.SetTimer("s", inMillis(1e9)) },
		"stored timer": func() error { return b.StoreTimer(t.Context(), "s", inMillis(1e9)) },
		"trial":        func() error { return b.PutTrial(t.Context(), trial, bus.Trial{Count: 1}) },
		"dead letter":  func() error { return b.PutDeadLetter(t.Context(), &bus.DeadLetter{Session: "s"}) },
		"sweep":        func() error { return b.PutSweepRow(t.Context(), fmt.Sprint("suspects-", sent), []byte("row"), 0) },
	}
	refused := func(list map[string]func() error) {
		t.Helper()
		before := b.Conn().Stats().OutMsgs
		for name, request := range list {
			if err := request(); !errors.Is(err, events.ErrStorage) || errors.Is(err, events.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "stream ") {
				t.Errorf("%s: got %v, want %v of a stream", name, err, events.ErrStorage)
			}
		}
		if now := b.Conn().Stats().OutMsgs; now != before {
			t.Errorf("got %d messages sent, want none", now-before)
		}
		_, err := b.PutBlob(t.Context(), make([]byte, 1<<20))
		runtest.WantError(t, "body", err, events.ErrStorage)
		runtest.WantError(t, "ready", b.Ready(t.Context()), events.ErrStorage)
	}
	accepted := func(list map[string]func() error) {
		t.Helper()
		for name, request := range list {
			runtest.WantError(t, name, request(), nil)
		}
	}
	filler := filepath.Join(dir, "filler")
	fillTo(t, server, filler, bus.KeptFree)
	refused(much)
	accepted(little)
	runtest.WantError(t, "erase", erase(t.Context(), b, "old"), nil)
	fillTo(t, server, filler, bus.KeptFree/4)
	refused(much)
	refused(little)
	if err := fill(filepath.Join(dir, "rest")); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("fill the disk: got %v, want %v", err, syscall.ENOSPC)
	}
	refused(much)
	refused(little)
	runtest.NoError(t, errors.Join(os.Remove(filler), os.Remove(filepath.Join(dir, "rest"))))
	accepted(much)
	sent++
	accepted(little)
	runtest.WantError(t, "ready with space", b.Ready(t.Context()), nil)
	if wakes, err := b.Wakes(t.Context()); err != nil || !wakes[turnKey("s")] {
		t.Errorf("wakes with space: got %v, %v", wakes, err)
	}
}

// TestLongReadyNamesFullStore reaches the server's limit of bytes. After sessions were erased the stream takes appends.
func TestLongReadyNamesFullStore(t *testing.T) {
	t.Parallel()
	_, b := startOn(t, smallDisk(t)) // a server takes three quarters of the free space as its limit
	mustCreate(t, b, "s")
	mustCreate(t, b, "big")
	refuses(t, b, "big", "stream lash-s-big refuses appends", "raise the limit of the account or of the server, or erase sessions")
	refuses(t, b, "s", "stream lash-s-s refuses appends")
	runtest.NoError(t, jetStream(t, b).DeleteStream(t.Context(), "lash-s-big"))
	bustest.Eventually(t, "the bus is ready before somebody appends", func() bool { return b.Ready(t.Context()) == nil })
	takesAgain(t, b, "s")
}

// fill writes a file until an error.
func fill(name string) error {
	f, err := os.Create(name)
	for err == nil {
		_, err = f.Write(make([]byte, 4<<10))
	}
	return errors.Join(err, f.Close())
}

func mustCreate(t *testing.T, b *bus.Bus, id events.SessionID) {
	t.Helper()
	runtest.NoError(t, createSession(t, b, id))
}

func portOf(t *testing.T, text string) int {
	t.Helper()
	port, err := strconv.Atoi(text)
	runtest.NoError(t, err)
	return port
}
