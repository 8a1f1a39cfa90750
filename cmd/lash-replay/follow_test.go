package main

import (
	"bufio"
	"io"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// TestEventsFollow lists commits that are appended while tail runs, until the session is closed.
func TestEventsFollow(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{Listen: true})
	b, err := bus.Open(t.Context(), bus.Config{URL: server.URL()})
	runtest.NoError(t, err)
	t.Cleanup(b.Close)
	at := events.Seq(0)
	add := func(p events.Payload) {
		t.Helper()
		c := &events.Commit{
			ID: events.CommitID(ulid.Make().String()), Session: "s", At: 1_700_000_000_000, Actor: events.Actor{Kind: events.ActorClient, ID: "me"},
			Events: []events.Event{events.Of("", p)},
		}
		if at, err = b.Log().Append(t.Context(), c, at); err != nil {
			t.Fatal(err)
		}
	}
	add(&events.SessionOpened{})
	add(&events.SessionConfigured{Config: events.Config{Model: "m1"}})
	read, write := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(t.Context(), []string{"events", "s", "--follow", "--from", "2", "--nats", server.URL()}, &program.Streams{Out: write, Err: t.Output(), Env: func(string) string { return "" }})
		_ = write.Close()
	}()
	lines := bufio.NewScanner(read)
	for i, step := range []struct {
		want string
		then events.Payload
	}{
		{"2.0     2023-11-14T22:13:20.000Z session.configured", &events.SessionConfigured{Config: events.Config{Model: "m2"}}},
		{"3.0     2023-11-14T22:13:20.000Z session.configured", &events.SessionClosed{Reason: "enough"}},
		{"4.0     2023-11-14T22:13:20.000Z session.closed", nil},
	} {
		if !lines.Scan() || !strings.HasPrefix(lines.Text(), step.want) {
			t.Fatalf("line %d: got %q, want %q", i, lines.Text(), step.want)
		}
		if step.then != nil {
			add(step.then)
		}
	}
	if lines.Scan() {
		t.Errorf("got %q after the session's close", lines.Text())
	}
	if code := <-ended; code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
}

// TestFollowOfReplacedHistory replaces the history that events --follow follows by a longer one. It lists nothing of that, and fails.
func TestFollowOfReplacedHistory(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{Listen: true})
	b := bustest.Open(t, server)
	bustest.Write(t, b, "s", 0, 3, "old")
	read, write := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(t.Context(), []string{"events", "s", "--follow", "--from", "3", "--nats", server.URL()}, &program.Streams{Out: write, Err: t.Output(), Env: func(string) string { return "" }})
		_ = write.Close()
	}()
	lines := bufio.NewScanner(read)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "3.0 ") {
		t.Fatalf("got %q, want the third commit", lines.Text())
	}
	js, err := jetstream.New(b.Conn())
	if err == nil {
		err = js.DeleteStream(t.Context(), "lash-s-s")
	}
	runtest.NoError(t, err)
	bustest.Write(t, b, "s", 0, 5, "new")
	if lines.Scan() {
		t.Errorf("got %q of another history", lines.Text())
	}
	if code := <-ended; code == 0 {
		t.Error("got exit code 0, want an error")
	}
}
