package busembed_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

func open(ctx context.Context, s *busembed.Server) (*bus.Bus, error) {
	return bus.Open(ctx, bus.Config{Options: []nats.Option{s.InProcess()}})
}

func commit(n int) *events.Commit {
	return &events.Commit{
		ID: events.CommitID(fmt.Sprintf("c%d", n)), Session: "s", At: events.Millis(n),
		Actor: events.Actor{Kind: events.ActorSystem}, Events: []events.Event{events.Of("", &events.SessionClosed{Reason: fmt.Sprint(n)})},
	}
}

// wantCommits requires the commits 1 to n in the store, and at most the one after them, whose ack may be lost. It
// returns their number.
func wantCommits(t *testing.T, dir string, n int) int {
	t.Helper()
	s, err := busembed.Start(busembed.Config{StoreDir: dir})
	runtest.NoError(t, err)
	defer s.Stop()
	b, err := open(t.Context(), s)
	runtest.NoError(t, err)
	defer b.Close()
	seen := 0
	for entry, err := range b.Log().Read(t.Context(), "s", 1) {
		runtest.NoError(t, err)
		seen++
		if entry.Commit.ID != commit(seen).ID {
			t.Fatalf("at %d: got %s, want %s", entry.Seq, entry.Commit.ID, commit(seen).ID)
		}
	}
	if seen < n || seen > n+1 {
		t.Errorf("commits: got %d, want the %d acknowledged, and at most one more", seen, n)
	}
	return seen
}

func TestStopAndStart(t *testing.T) {
	t.Parallel()
	for _, profile := range []busembed.Profile{busembed.ProfileInterval, busembed.ProfileAlways} {
		t.Run(string(profile), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			appendRange(t, dir, profile, 0, 20)
			runtest.Equal(t, "commits", wantCommits(t, dir, 20), 20)
		})
	}
}

// appendForEver is the child process: it appends from the end of the store on, and prints each acknowledged sequence.
func appendForEver(dir string) error {
	ctx := context.Background()
	s, err := busembed.Start(busembed.Config{StoreDir: dir})
	if err != nil {
		return err
	}
	b, err := open(ctx, s)
	if err != nil {
		return err
	}
	last, err := b.Log().Last(ctx, "s")
	if err != nil && !errors.Is(err, events.ErrNoSession) {
		return err
	}
	for n := int(last); ; n++ {
		if _, err := b.Log().Append(ctx, commit(n+1), events.Seq(n)); err != nil {
			return err
		}
		fmt.Println(n + 1)
	}
}

func TestKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stored := 0
	for round := range 4 {
		acknowledged := runKilledChild(t, dir, stored+50*(round+1))
		stored = wantCommits(t, dir, acknowledged)
	}
}

// runKilledChild runs the child until it has acknowledged n appends, then kills it. It returns the last acknowledged
// one.
func runKilledChild(t *testing.T, dir string, n int) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	runtest.NoError(t, err)
	runtest.NoError(t, cmd.Start())
	last := 0
	for lines := bufio.NewScanner(out); lines.Scan(); { // the last lines of a killed process are still in the pipe
		if last, err = strconv.Atoi(lines.Text()); err != nil {
			t.Fatal(err)
		}
		if last == n {
			runtest.NoError(t, cmd.Process.Kill())
		}
	}
	_ = cmd.Wait() // the error is the kill
	if last < n {
		t.Fatalf("the child acknowledged %d appends, want at least %d", last, n)
	}
	return last
}

// TestHalfMadeStream has a server killed while it created a session's stream, between two of its files: with an empty
// store, and with messages that a later start wrote.
func TestHalfMadeStream(t *testing.T) {
	t.Parallel()
	for name, messages := range map[string]bool{"empty": false, "filled": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			appendRange(t, dir, busembed.ProfileInterval, 0, 3)
			stream := filepath.Join(dir, "jetstream", "$G", "streams", "lash-s-s")
			gone := []string{"meta.sum"}
			if !messages {
				gone = append(gone, "msgs")
			}
			for _, file := range gone {
				runtest.NoError(t, os.RemoveAll(filepath.Join(stream, file)))
			}
			appendRange(t, dir, busembed.ProfileInterval, 0, 3) // the stream is created again; where its messages exist, the same appends find their commits
			runtest.Equal(t, "commits", wantCommits(t, dir, 3), 3)
			appendRange(t, dir, busembed.ProfileInterval, 3, 5)
			runtest.Equal(t, "commits", wantCommits(t, dir, 5), 5)
		})
	}
}

// TestHalfWrittenSettings has a server killed between the two files of a stream's new settings.
func TestHalfWrittenSettings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	appendRange(t, dir, busembed.ProfileInterval, 0, 3)
	sum := filepath.Join(dir, "jetstream", "$G", "streams", "lash-s-s", "meta.sum")
	runtest.NoError(t, os.WriteFile(sum, []byte("8ab4f37e01c2d569"), 0o600))
	runtest.Equal(t, "commits", wantCommits(t, dir, 3), 3)
}

// appendRange appends the commits from+1 to n, on a server that it starts and stops.
func appendRange(t *testing.T, dir string, profile busembed.Profile, from, n int) {
	t.Helper()
	s, err := busembed.Start(busembed.Config{StoreDir: dir, Profile: profile})
	runtest.NoError(t, err)
	defer s.Stop()
	b, err := open(t.Context(), s)
	runtest.NoError(t, err)
	defer b.Close()
	for i := from; i < n; i++ {
		_, err = b.Log().Append(t.Context(), commit(i+1), events.Seq(i))
		runtest.NoError(t, err)
	}
}

// TestStoreInUse: a store has one server, in this process or any other.
func TestStoreInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := busembed.Start(busembed.Config{StoreDir: dir})
	runtest.NoError(t, err)
	defer s.Stop()
	_, err = busembed.Start(busembed.Config{StoreDir: filepath.Join(dir, ".")})
	runtest.WantError(t, "second start", err, busembed.ErrInUse)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+dir)
	out, err := cmd.CombinedOutput()
	if _, failed := errors.AsType[*exec.ExitError](err); !failed {
		t.Errorf("start in another process: got %v, %s, want a refusal", err, out)
	}
	b, err := open(t.Context(), s)
	runtest.NoError(t, err)
	defer b.Close()
	_, err = b.Log().Append(t.Context(), commit(1), 0)
	runtest.WantError(t, "append after the refusals", err, nil)
	b.Close()
	s.Stop() // the cleanup stops it a second time
	wantCommits(t, dir, 1)
}

func TestStartRefuses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	runtest.NoError(t, os.WriteFile(file, nil, 0o600))
	for name, cfg := range map[string]busembed.Config{
		"no_directory": {}, "a_file": {StoreDir: file}, "route": {StoreDir: t.TempDir(), Routes: []string{"a b:%"}},
	} {
		if s, err := busembed.Start(cfg); err == nil {
			s.Stop()
			t.Errorf("%s: got no error", name)
		}
	}
}

func TestGuarantees(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{"": true, busembed.Profile("other").Guarantee(): true}
	for _, p := range []busembed.Profile{busembed.ProfileInterval, busembed.ProfileAlways, busembed.ProfileCluster} {
		if seen[p.Guarantee()] {
			t.Errorf("%s: got %q, want a promise of its own", p, p.Guarantee())
		}
		seen[p.Guarantee()] = true
	}
}

// TestStartTaken: the error says why a server cannot listen, and Start does not wait for the server.
func TestStartTaken(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	runtest.NoError(t, err)
	defer taken.Close() //nolint:errcheck // no connection to lose
	port := taken.Addr().(*net.TCPAddr).Port
	for name, cfg := range map[string]busembed.Config{
		"clients": {StoreDir: t.TempDir(), Listen: true, Port: port},
		"cluster": {StoreDir: t.TempDir(), Name: "s1", ClusterName: "c", ClusterPort: port, Routes: []string{taken.Addr().String()}},
	} {
		if s, err := busembed.Start(cfg); err == nil {
			s.Stop()
			t.Errorf("%s: got a server, want an error", name)
		} else if !strings.Contains(err.Error(), "address already in use") || !strings.Contains(err.Error(), strconv.Itoa(port)) {
			t.Errorf("%s: got %v, want that the port is taken", name, err)
		}
	}
}
