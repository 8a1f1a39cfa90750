package bus_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
)

// continued makes a session of five commits, of which the archive has three, with a row, and deletes its stream.
func continued(t *testing.T, b *bus.Bus, id events.SessionID, row events.Seq) {
	t.Helper()
	want := appendUpTo(t, b, id, nil, 3)
	mustMakeCold(t, b, id, 3)
	appendUpTo(t, b, id, want, 5)
	value, err := json.Marshal(bus.DirectorySeq{Seq: row})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Directory().Put(t.Context(), id, value, 0); err != nil {
		t.Fatal(err)
	}
	for _, name := range streams(t, b) {
		if strings.HasPrefix(name, "lash-s-"+string(id)) {
			if err := jetStream(t, b).DeleteStream(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestLostStreamIsNoticed deletes the stream of a session that continued after its archive. Every request for the session names
// the commits that are lost, also the first one and on other processes, until an operator accepts the loss.
func TestLostStreamIsNoticed(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b, other := bustest.Open(t, server), bustest.Open(t, server)
	continued(t, b, "s", 5)
	want := bus.CutOffError{Session: "s", Last: 3, Known: 5}
	for try := range 2 {
		for name, on := range map[string]*bus.Bus{"owner": b, "other": other} {
			read := func() (err error) {
				for _, err = range on.Log().Read(t.Context(), "s", 5) {
					break
				}
				return err
			}
			_, lastErr := on.Log().Last(t.Context(), "s")
			_, appendErr := on.Log().Append(t.Context(), commit("s", 6), 5)
			_, shortErr := on.Log().Append(t.Context(), commit("s", 4), 3)
			for what, err := range map[string]error{"last": lastErr, "append": appendErr, "append after the archive": shortErr, "read": read()} {
				got, ok := errors.AsType[*bus.CutOffError](err)
				if !ok || got.Session != want.Session || got.Last != want.Last || got.Known != want.Known || !strings.Contains(err.Error(), "commits 4 to 5 are lost") {
					t.Errorf("%s, try %d: %s: got %v, want %v", name, try, what, err, &want)
				}
			}
		}
	}
	record := func(lost *bus.CutOffError) *events.Commit { return bustest.LossRecord(lost, "record") }
	lost, err := other.AcceptLoss(t.Context(), "s", record)
	if err != nil || lost.Last != 3 || lost.Known != 5 {
		t.Fatalf("accept: got %v, %v", lost, err)
	}
	if _, err := other.AcceptLoss(t.Context(), "s", record); !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("accept again: got %v, want %v", err, bus.ErrNotFound)
	}
	for name, on := range map[string]*bus.Bus{"owner": b, "other": other} {
		if last, err := on.Log().Last(t.Context(), "s"); err != nil || last != 4 {
			t.Errorf("%s: end after the loss was accepted: got %d, %v, want 4", name, last, err)
		}
	}
	if seq, err := b.Log().Append(t.Context(), commit("s", 5), 4); err != nil || seq != 5 {
		t.Errorf("append after the loss was accepted: got %d, %v", seq, err)
	}
	for entry, err := range b.Log().Read(t.Context(), "s", 4) {
		if err != nil {
			t.Fatal(err)
		}
		if p, ok := entry.Commit.Events[0].Payload.(*events.SessionLossAccepted); !ok || p.After != 3 || p.UpTo != 5 || p.By != "ops" {
			t.Errorf("commit 4: got %+v, want the record of the loss", entry.Commit.Events[0])
		}
		break
	}
}

// TestReaderAcceptsLoss accepts a loss, and erases a session, of which no node has noticed that the server lost the stream: the program
// is a reader, which otherwise makes no stream.
func TestReaderAcceptsLoss(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b := bustest.Open(t, server)
	continued(t, b, "s", 5)
	reader, err := bus.OpenReader(t.Context(), bustest.WithKeys(t, bus.Config{Options: []nats.Option{server.InProcess()}}))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if _, err := reader.Log().Last(t.Context(), "s"); !errors.Is(err, events.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "lash-node dead accept-loss s") {
		t.Errorf("read: got %v, want what makes the stream again", err)
	}
	if end := bustest.AcceptLoss(t, reader, "s"); end != 4 {
		t.Errorf("end: got %d, want 4", end)
	}
}

// TestLongReaderKeepsReplicas accepts a loss with a reader of a cluster: the stream has as many replicas as the others.
func TestLongReaderKeepsReplicas(t *testing.T) {
	t.Parallel()
	cluster := bustest.StartCluster(t)
	b := cluster.Open(t)
	continued(t, b, "s", 5)
	reader, err := bus.OpenReader(t.Context(), bustest.WithKeys(t, bus.Config{Options: []nats.Option{cluster.Servers[0].InProcess()}}))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	bustest.AcceptLoss(t, reader, "s")
	if got, want := reader.Replicas(), b.Replicas(); got != want {
		t.Errorf("got %d replicas, want %d", got, want)
	}
	for info := range jetStream(t, b).ListStreams(t.Context()).Info() {
		if strings.HasPrefix(info.Config.Name, "lash-s-") && info.Config.Replicas != b.Replicas() {
			t.Errorf("%s: got %d replicas, want %d", info.Config.Name, info.Config.Replicas, b.Replicas())
		}
	}
}

// TestLongAcceptLossDies kills the program that accepts a loss, of one commit and of two, at each request. The session is refused, and the request can
// be repeated, or it continues with the record. Until then it takes no other commit. There is one record in the end.
func TestLongAcceptLossDies(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b := bustest.Open(t, server)
	refused, continues := 0, 0
	for k, known, ended := 1, events.Seq(4), 0; ended < 2; k++ {
		id := events.SessionID(fmt.Sprint("s", known, "-", k))
		continued(t, b, id, known)
		accept := func(ctx context.Context, on *bus.Bus) error {
			_, err := on.AcceptLoss(ctx, id, func(lost *bus.CutOffError) *events.Commit { return bustest.LossRecord(lost, "record") })
			return err
		}
		done := bustest.KilledAt(t, server, k, false, accept)
		_, err := b.Log().Last(t.Context(), id)
		switch {
		case errors.As(err, new(*bus.CutOffError)):
			refused++
			for _, at := range []events.Seq{3, 4} {
				c := commit(id, int(at)+1)
				c.ID += "-other"
				if seq, err := b.Log().Append(t.Context(), c, at); err == nil {
					t.Errorf("%s: append at %d: got %d, want a refusal", id, at, seq)
				}
			}
			if err := accept(t.Context(), b); err != nil {
				t.Errorf("%s: repeated: %v", id, err)
			}
		case err == nil:
			continues++
		default:
			t.Errorf("%s: %v", id, err)
		}
		if seq, err := b.Log().Append(t.Context(), commit(id, 5), 4); err != nil || seq != 5 {
			t.Errorf("%s: append after the record: got %d, %v", id, seq, err)
		}
		if got := records(t, b, id); len(got) != 1 || got[0].After != 3 || got[0].UpTo != known {
			t.Errorf("%s: got the records %+v, want one of commits 4 to %d", id, got, known)
		}
		if done {
			k, known, ended = 0, 5, ended+1
		}
	}
	if refused < 4 || continues < 2 {
		t.Errorf("got %d refused and %d continued sessions, want several", refused, continues)
	}
}

// TestAcceptLossAtOnce has three programs accept one loss while others append. The accepted loss has a record.
func TestAcceptLossAtOnce(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b := bustest.Open(t, server)
	for round := range 5 {
		id := events.SessionID(fmt.Sprint("s", round))
		continued(t, b, id, 5)
		var all sync.WaitGroup
		var accepted atomic.Int64
		for n := range 3 {
			on := bustest.Open(t, server)
			all.Go(func() {
				_, err := on.AcceptLoss(t.Context(), id, func(lost *bus.CutOffError) *events.Commit {
					return bustest.LossRecord(lost, events.CommitID(fmt.Sprint("record-", n)))
				})
				if err == nil {
					accepted.Add(1)
				} else if !errors.Is(err, bus.ErrNotFound) {
					t.Errorf("accept: %v", err)
				}
			})
			all.Go(func() {
				c := commit(id, 4)
				c.ID = events.CommitID(fmt.Sprint("other-", n))
				_, err := on.Log().Append(t.Context(), c, 3)
				if err != nil && !errors.As(err, new(*bus.CutOffError)) && !errors.As(err, new(*events.ConflictError)) {
					t.Errorf("append: %v", err)
				}
			})
		}
		all.Wait()
		if n := int64(len(records(t, b, id))); n > accepted.Load() || n == 0 { // a program that finds the record of another appends none
			t.Errorf("%s: got %d records for %d accepted losses", id, n, accepted.Load())
		}
	}
}

// records are those of accepted losses in a history.
func records(t *testing.T, b *bus.Bus, id events.SessionID) (list []*events.SessionLossAccepted) {
	t.Helper()
	for entry, err := range b.Log().Read(t.Context(), id, 1) {
		if err != nil {
			t.Fatal(err)
		}
		if p, ok := entry.Commit.Events[0].Payload.(*events.SessionLossAccepted); ok {
			list = append(list, p)
		}
	}
	return list
}

// TestStreamWithoutLoss deletes a stream whose session has no row of later commits: it continues after its archive, as before. Nothing is
// there to accept, neither in a session that is hot nor in one that does not exist.
func TestStreamWithoutLoss(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	continued(t, b, "s", 3)
	if seq, err := b.Log().Append(t.Context(), commit("s", 4), 3); err != nil || seq != 4 {
		t.Errorf("append: got %d, %v", seq, err)
	}
	if _, err := b.AcceptLoss(t.Context(), "s", nil); !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("accept: got %v, want %v", err, bus.ErrNotFound)
	}
	if _, err := b.AcceptLoss(t.Context(), "none", nil); !errors.Is(err, events.ErrNoSession) {
		t.Errorf("accept in no session: got %v, want %v", err, events.ErrNoSession)
	}
}
