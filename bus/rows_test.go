package bus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

func TestRows(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	for name, rows := range map[string]bus.Rows{"directory": b.Directory(), "catalogs": b.Catalogs(), "snapshots": b.Snapshots()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testRows(t, rows)
		})
	}
}

func testRows(t *testing.T, rows bus.Rows) {
	t.Helper()
	put := func(value string, revision uint64, want error) uint64 {
		t.Helper()
		next, err := rows.Put(t.Context(), "s1", []byte(value), revision)
		if !errors.Is(err, want) {
			t.Fatalf("put %s at %d: got %v, want %v", value, revision, err, want)
		}
		return next
	}
	check := func(value string, revision uint64) {
		t.Helper()
		row, err := rows.Get(t.Context(), "s1")
		if err != nil || string(row.Value) != value || row.Revision != revision {
			t.Fatalf("get: got %q at %d, %v, want %q at %d", row.Value, row.Revision, err, value, revision)
		}
	}
	check("", 0)
	put("early", 7, bus.ErrStale)
	check("", 0)
	one := put("one", 0, nil)
	check("one", one)
	put("late", 0, bus.ErrStale)
	two := put("two", one, nil)
	put("late", one, bus.ErrStale)
	put("beyond", two+1, bus.ErrStale)
	check("two", two)
	_, err := rows.Put(t.Context(), "s2", nil, 0)
	runtest.NoError(t, err)
	var keys []string
	for key, err := range rows.Keys(t.Context()) {
		runtest.NoError(t, err)
		keys = append(keys, string(key))
	}
	if len(keys) != 2 || !strings.Contains(fmt.Sprint(keys), "s1") || !strings.Contains(fmt.Sprint(keys), "s2") {
		t.Errorf("keys: got %v, want s1 and s2", keys)
	}
	_, err = rows.Get(t.Context(), "a.b")
	runtest.WantError(t, "get a.b", err, events.ErrInvalidID)
	_, err = rows.Put(t.Context(), "*", nil, 0)
	runtest.WantError(t, "put *", err, events.ErrInvalidID)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = rows.Get(ctx, "s1")
	runtest.WantError(t, "get, cancelled", err, context.Canceled)
}

// TestUpdateRows counts in one row from several programs at once, on one server and on three, whose reads are answered
// by servers that lack the last write. No count is lost, and none fails.
func TestUpdateRows(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) func() *bus.Bus{
		"one server": func(t *testing.T) func() *bus.Bus { b := bustest.Start(t); return func() *bus.Bus { return b } },
		"three servers": func(t *testing.T) func() *bus.Bus {
			c := bustest.StartCluster(t)
			return func() *bus.Bus { return c.Open(t) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			again := open(t)
			const programs, times = 6, 10
			var all sync.WaitGroup
			for range programs {
				rows := again().Snapshots()
				all.Go(func() { count(t, rows, times) })
			}
			all.Wait()
			row, err := again().Snapshots().Update(t.Context(), "s1", func(bus.Row) ([]byte, error) { return nil, nil })
			if err != nil || string(row.Value) != fmt.Sprint(programs*times) {
				t.Errorf("got %q, %v, want %d", row.Value, err, programs*times)
			}
		})
	}
}

// count adds one to a row several times.
func count(t *testing.T, rows bus.Rows, times int) {
	t.Helper()
	for range times {
		var want []byte
		row, err := rows.Update(t.Context(), "s1", func(now bus.Row) ([]byte, error) {
			n, _ := strconv.Atoi(string(now.Value)) // "" is 0
			want = fmt.Append(nil, n+1)
			return want, nil
		})
		if err != nil || !bytes.Equal(row.Value, want) {
			t.Errorf("got %q, %v, want %q", row.Value, err, want)
		}
	}
}

// TestUpdateRowsErrors: an error of the change is returned and writes nothing; a change that is stale is repeated until
// the context ends.
func TestUpdateRowsErrors(t *testing.T) {
	t.Parallel()
	rows, refused := bustest.Start(t).Snapshots(), errors.New("refused")
	if _, err := rows.Update(t.Context(), "s1", func(bus.Row) ([]byte, error) { return []byte("x"), refused }); !errors.Is(err, refused) {
		t.Errorf("got %v, want %v", err, refused)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	calls := 0
	_, err := rows.Update(ctx, "s1", func(bus.Row) ([]byte, error) {
		if calls++; calls == 3 {
			cancel(refused)
		}
		return []byte("x"), bus.ErrStale
	})
	if calls != 3 || !errors.Is(err, bus.ErrStale) || !errors.Is(err, refused) {
		t.Errorf("got %v after %d calls, want %v and %v after 3", err, calls, bus.ErrStale, refused)
	}
	if row, err := rows.Get(t.Context(), "s1"); err != nil || row.Revision != 0 {
		t.Errorf("got %q, %v, want no row", row.Value, err)
	}
}

func TestBlobs(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	for name, body := range map[string][]byte{
		"empty": {}, "short": []byte("short"), "chunked": bytes.Repeat([]byte("0123456789abcdef"), 20<<10),
	} {
		ref, err := b.PutBlob(t.Context(), body)
		if err != nil || ref.Size != int64(len(body)) || len(ref.Digest) != 64 {
			t.Fatalf("put %s: got %+v, %v", name, ref, err)
		}
		got, err := b.Blob(t.Context(), ref)
		if err != nil || !bytes.Equal(got, body) {
			t.Errorf("%s: got %d bytes, %v, want %d", name, len(got), err, len(body))
		}
	}
	stream, err := jetStream(t, b).Stream(t.Context(), "OBJ_lash-blobs")
	runtest.NoError(t, err)
	before := stream.CachedInfo().State.LastSeq
	_, err = b.PutBlob(t.Context(), []byte("short"))
	runtest.NoError(t, err)
	info, err := stream.Info(t.Context())
	if err != nil || info.State.LastSeq != before {
		t.Errorf("the same body again: got %d messages written, %v, want none", info.State.LastSeq-before, err)
	}
}

func TestBlobsThatAreNotThere(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	_, err := b.Blob(t.Context(), events.BlobRef{Digest: strings.Repeat("0", 64), Size: 1})
	runtest.WantError(t, "unknown", err, bus.ErrNotFound)
	_, err = b.PutBlob(t.Context(), make([]byte, events.MaxBlobBytes+1))
	runtest.WantError(t, "too large", err, events.ErrTooLarge)
	ref, err := b.PutBlob(t.Context(), make([]byte, 1000))
	runtest.NoError(t, err)
	for _, size := range []int64{-1, 1} {
		_, err = b.Blob(t.Context(), events.BlobRef{Digest: ref.Digest, Size: size})
		runtest.WantError(t, fmt.Sprintf("more than the reference says, %d", size), err, events.ErrMalformed)
	}
	if ref, err = b.PutBlob(t.Context(), []byte("the body")); err != nil {
		t.Fatal(err)
	}
	store, err := jetStream(t, b).ObjectStore(t.Context(), "lash-blobs")
	runtest.NoError(t, err)
	_, err = store.PutBytes(t.Context(), ref.Digest, []byte("another"))
	runtest.NoError(t, err)
	_, err = b.Blob(t.Context(), ref)
	runtest.WantError(t, "tampered", err, events.ErrMalformed)
	_, err = b.PutBlob(t.Context(), []byte("the body"))
	runtest.NoError(t, err)
	if got, err := b.Blob(t.Context(), ref); err != nil || string(got) != "the body" {
		t.Errorf("put again: got %q, %v, want %q", got, err, "the body")
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]bus.Config{"prefix": {Prefix: "a.b"}, "replicas": {Replicas: 2}, "no server": {URL: "nats://127.0.0.1:1"}} {
		if b, err := bus.Open(t.Context(), cfg); err == nil {
			b.Close()
			t.Errorf("open with bad %s: got no error", name)
		}
		if b, err := bus.OpenReader(t.Context(), cfg); err == nil {
			b.Close()
			t.Errorf("open reader with bad %s: got no error", name)
		}
	}
}

// TestOpenReader finds existing assets and creates none.
func TestOpenReader(t *testing.T) {
	t.Parallel()
	s := bustest.Server(t, busembed.Config{Listen: true})
	if b, err := bus.OpenReader(t.Context(), bus.Config{URL: s.URL()}); !errors.Is(err, bus.ErrNotFound) {
		if err == nil {
			b.Close()
		}
		t.Fatalf("nothing there: got %v, want %v", err, bus.ErrNotFound)
	}
	grow(t, bustest.Open(t, s).Log(), "s", 2)
	b, err := bus.OpenReader(t.Context(), bus.Config{URL: s.URL()})
	runtest.NoError(t, err)
	defer b.Close()
	if last, err := b.Log().Last(t.Context(), "s"); err != nil || last != 2 {
		t.Errorf("last: got %d, %v, want 2", last, err)
	}
}

// TestPrefixes runs two prefixes on one server: neither sees the other.
func TestPrefixes(t *testing.T) {
	t.Parallel()
	s := bustest.Server(t, busembed.Config{Listen: true})
	grow(t, bustest.Open(t, s).Log(), "s", 2)
	other, err := bus.Open(t.Context(), bus.Config{URL: s.URL(), Prefix: "other"})
	runtest.NoError(t, err)
	defer other.Close()
	_, err = other.Log().Last(t.Context(), "s")
	runtest.WantError(t, "last", err, events.ErrNoSession)
	grow(t, other.Log(), "s", 1)
	for id, err := range other.Sessions(t.Context()) {
		if id != "s" || err != nil {
			t.Errorf("sessions: got %s, %v, want s", id, err)
		}
	}
}
