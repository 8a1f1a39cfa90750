package bus_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// lossy dials connections that lose requests: these go to a subscriber that does not respond.
type lossy struct {
	dials  atomic.Int64
	pass   atomic.Int64 // requests to deliver first
	lose   atomic.Int64 // requests to lose after them
	broken atomic.Int64 // the first connections, so many, lose all requests
	plain  *bus.Bus     // loses nothing, and has the usual limit
}

// requestSubjects are parts of the subjects of requests; lostSubjects are their replacements on such a connection.
var requestSubjects, lostSubjects = [][]byte{[]byte("$JS.API."), []byte("$KV."), []byte("lash.s.")}, [][]byte{[]byte("$XX.API."), []byte("$XX."), []byte("$XX.ss.")}

func (l *lossy) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	return &lossyConn{c, l, l.dials.Add(1)}, err
}

type lossyConn struct {
	net.Conn
	l *lossy
	n int64
}

func (c *lossyConn) Write(p []byte) (int, error) {
	q := p
	isRequest := slices.ContainsFunc(requestSubjects, func(s []byte) bool { return bytes.Contains(p, s) })
	if isRequest && (c.n <= c.l.broken.Load() || c.l.pass.Add(-1) < 0 && c.l.lose.Add(-1) >= 0) {
		for i := range requestSubjects {
			q = bytes.ReplaceAll(q, requestSubjects[i], lostSubjects[i])
		}
	}
	if _, err := c.Conn.Write(q); err != nil {
		return 0, err
	}
	return len(p), nil
}

// openLossy opens a bus with a short limit of requests.
func openLossy(t *testing.T) (*bus.Bus, *lossy) {
	t.Helper()
	server := bustest.Server(t, busembed.Config{Listen: true})
	silent := bustest.Open(t, server)
	sub, err := silent.Conn().Subscribe("$XX.>", func(*nats.Msg) {})
	if err == nil {
		err = silent.Conn().Flush()
	}
	runtest.NoError(t, err)
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	l := &lossy{plain: silent}
	b, err := bus.Open(t.Context(), bus.Config{URL: server.URL(), Timeout: 300 * time.Millisecond, Options: []nats.Option{nats.SetCustomDialer(l), nats.Timeout(time.Minute)}})
	runtest.NoError(t, err)
	t.Cleanup(b.Close)
	return b, l
}

// repeatedRequests are the requests that the bus repeats until they are answered.
func repeatedRequests(t *testing.T, b *bus.Bus, id events.SessionID, ref events.BlobRef, body []byte) map[string]func(ctx context.Context) error {
	t.Helper()
	return map[string]func(ctx context.Context) error{
		"row": func(ctx context.Context) error {
			row, err := b.Snapshots().Get(ctx, id)
			if err == nil && string(row.Value) != "row" {
				t.Errorf("row: got %q", row.Value)
			}
			return err
		},
		"blob": func(ctx context.Context) error {
			got, err := b.Blob(ctx, ref)
			if err == nil && !bytes.Equal(got, body) {
				t.Errorf("blob: got %d other bytes", len(got))
			}
			return err
		},
		"stored blob": func(ctx context.Context) error {
			b.ForgetStored(ref)
			_, err := b.PutBlob(ctx, body)
			return err
		},
		"queue": func(ctx context.Context) error {
			_, err := b.Wakes(ctx)
			return err
		},
		"rows": func(ctx context.Context) error {
			for _, err := range b.Snapshots().All(ctx) {
				return err
			}
			return errors.New("no row")
		},
		"keys": func(ctx context.Context) error {
			for _, err := range b.Snapshots().Keys(ctx) {
				return err
			}
			return errors.New("no key")
		},
	}
}

// TestRequestLost loses one request of each kind, with no end of ctx: the request is repeated.
func TestRequestLost(t *testing.T) {
	t.Parallel()
	b, lossy := openLossy(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const id = events.SessionID("s")
	last := 0
	grow := func(ctx context.Context) error {
		_, err := b.Log().Append(ctx, commit(id, last+1), events.Seq(last))
		last++
		return err
	}
	runtest.NoError(t, grow(t.Context()))
	_, err := lossy.plain.Snapshots().Put(t.Context(), id, []byte("row"), 0)
	runtest.NoError(t, err)
	body := bytes.Repeat([]byte("body"), 1<<16)
	ref, err := b.PutBlob(t.Context(), body)
	runtest.NoError(t, err)
	requests := repeatedRequests(t, b, id, ref, body)
	requests["append"] = grow
	for name, request := range requests {
		lossy.lose.Store(1)
		runtest.WantError(t, name, request(ctx), nil)
		if left := lossy.lose.Load(); left >= 1 {
			t.Errorf("%s: no request was lost", name)
		}
	}
	// These are not repeated, but end.
	for name, request := range map[string]func(ctx context.Context) error{
		"end": func(ctx context.Context) error {
			_, err := b.Log().Last(ctx, id)
			return err
		},
		"replaced row": func(ctx context.Context) error {
			_, err := b.Snapshots().Put(ctx, id, []byte("other"), 1)
			return err
		},
	} {
		lossy.lose.Store(1)
		runtest.WantError(t, name, request(ctx), events.ErrOutcomeUnknown)
	}
	if ctx.Err() != nil {
		t.Error("a request waited for the end of its ctx")
	}
}

// TestRequestUnanswered sends requests until ctx ends, with no answer: each method returns a mapped error.
func TestRequestUnanswered(t *testing.T) {
	t.Parallel()
	b, lossy := openLossy(t)
	body := bytes.Repeat([]byte("body"), 1<<10)
	_, err := b.PutBlob(t.Context(), body)
	runtest.NoError(t, err)
	stored, err := b.Blobs(t.Context())
	if err != nil || len(stored) != 1 {
		t.Fatalf("got %d blobs, %v", len(stored), err)
	}
	lossy.lose.Store(1 << 30)
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	for name, request := range map[string]func() error{
		"put blob": func() error {
			_, err := b.PutBlob(ctx, []byte("other"))
			return err
		},
		"drop blob":       func() error { return b.DropBlob(ctx, stored[0]) },
		"drop chunks":     func() error { return b.DropBlob(ctx, bus.StoredBlob{}) },
		"join queue":      func() error { _, err := b.Queue(ctx, bus.ClassTurn); return err },
		"join timers":     func() error { _, err := b.Due(ctx); return err },
		"join projectors": func() error { _, err := b.Dirty(ctx); return err },
	} {
		runtest.WantError(t, name, request(), events.ErrOutcomeUnknown)
	}
}

// TestPullLost loses a pull: the fetch ends before its time.
func TestPullLost(t *testing.T) {
	t.Parallel()
	b, lossy := openLossy(t)
	queue, err := b.Queue(t.Context(), bus.ClassTurn)
	runtest.NoError(t, err)
	lossy.lose.Store(1)
	_, err = queue.Fetch(t.Context(), 1, time.Hour, func(*bus.Wake) {})
	runtest.WantError(t, "fetch", err, events.ErrOutcomeUnknown)
}

// TestServerSilent has a server that answers no request on a connection that is up: after a while the bus uses the
// next server.
func TestServerSilent(t *testing.T) {
	t.Parallel()
	b, lossy := openLossy(t)
	const id = events.SessionID("s")
	_, err := b.Log().Append(t.Context(), commit(id, 1), 0)
	runtest.NoError(t, err)
	lossy.broken.Store(lossy.dials.Load())
	_, err = b.Log().Append(t.Context(), commit(id, 2), 1)
	runtest.NoError(t, err)
	if n := b.Reconnects(); n < 1 { // more where that one has no time for its answer
		t.Errorf("connected %d times more, want once", n)
	}
}

// TestReadCut loses the first request of a long read, and cuts the connection in the middle of one: the read
// continues where it was.
func TestReadCut(t *testing.T) {
	t.Parallel()
	b, lossy := openLossy(t)
	const id, n = events.SessionID("s"), 600 // more than one batch
	grow(t, b.Log(), id, n)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for name, at := range map[string]events.Seq{"lost": 0, "cut": n / 2} {
		if lossy.pass.Store(1); at == 0 { // the end of the history is requested first
			lossy.lose.Store(1)
		}
		want := events.Seq(1)
		for unknown := true; unknown; { // where the first answers take longer than requests may
			unknown = false
			for entry, err := range b.Log().Read(ctx, id, 1) {
				if unknown = want == 1 && errors.Is(err, events.ErrOutcomeUnknown); unknown {
					break
				}
				if err == nil && entry.Seq == at {
					err = b.Conn().ForceReconnect()
				}
				if err != nil || entry.Seq != want {
					t.Fatalf("%s: got commit %d, %v, want %d", name, entry.Seq, err, want)
				}
				want++
			}
		}
		if want != n+1 {
			t.Errorf("%s: got %d commits, want %d", name, want-1, n)
		}
		if left := lossy.lose.Load(); left >= 1 {
			t.Errorf("%s: no request was lost", name)
		}
	}
}

// TestBlobWithoutChunks has the description of a blob without its chunks. Reading it fails soon, and storing it again
// repairs it.
func TestBlobWithoutChunks(t *testing.T) {
	t.Parallel()
	b, _ := openLossy(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	body := []byte("body")
	ref, err := b.PutBlob(ctx, body)
	runtest.NoError(t, err)
	js, err := jetstream.New(b.Conn())
	runtest.NoError(t, err)
	blobs, err := js.ObjectStore(ctx, "lash-blobs")
	runtest.NoError(t, err)
	info, err := blobs.GetInfo(ctx, ref.Digest)
	runtest.NoError(t, err)
	stream, err := js.Stream(ctx, "OBJ_lash-blobs")
	if err == nil {
		err = stream.Purge(ctx, jetstream.WithPurgeSubject("$O.lash-blobs.C."+info.NUID))
	}
	runtest.NoError(t, err)
	if _, err := b.Blob(ctx, ref); err == nil || ctx.Err() != nil {
		t.Errorf("without chunks: got %v, %v, want an error before the end of time", err, ctx.Err())
	}
	_, err = b.PutBlob(ctx, body)
	runtest.NoError(t, err)
	if got, err := b.Blob(ctx, ref); err != nil || !bytes.Equal(got, body) {
		t.Errorf("stored again: got %q, %v", got, err)
	}
}
