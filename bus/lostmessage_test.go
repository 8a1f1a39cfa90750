package bus_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strconv"
	"strings"
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

// dropping dials connections that lose messages from the server, as a proxy or a full buffer does.
type dropping struct {
	every atomic.Int64 // the number of messages of which one is lost; 0: none is
	n     atomic.Int64
	large atomic.Int64 // how many of the next messages of more than 64 KiB are lost
}

func (d *dropping) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	return &droppingConn{Conn: c, d: d, from: bufio.NewReader(c)}, err
}

type droppingConn struct {
	net.Conn
	d    *dropping
	from *bufio.Reader
	rest []byte // of the message that is being read
}

// Read reads at most one message of the protocol.
func (c *droppingConn) Read(p []byte) (int, error) {
	for len(c.rest) == 0 {
		line, err := c.from.ReadBytes('\n')
		if err != nil {
			return 0, err
		}
		fields := strings.Fields(string(line))
		if len(fields) == 0 || fields[0] != "MSG" && fields[0] != "HMSG" {
			c.rest = line
			break
		}
		size, err := strconv.Atoi(fields[len(fields)-1])
		if err != nil {
			return 0, err
		}
		body := make([]byte, size+len("\r\n"))
		for read := 0; read < len(body); {
			n, err := c.from.Read(body[read:])
			if err != nil {
				return 0, err
			}
			read += n
		}
		if size > 64<<10 && c.d.large.Add(-1) >= 0 {
			continue
		}
		if every := c.d.every.Load(); every == 0 || c.d.n.Add(1)%every != 0 {
			c.rest = append(line, body...)
		}
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// TestLostMessagesOfReads loses some of the messages that a read consists of: they are requested again.
func TestLostMessagesOfReads(t *testing.T) {
	t.Parallel()
	const id, commits = events.SessionID("s"), 1200 // more than two batches
	server, d := bustest.Server(t, busembed.Config{Listen: true}), &dropping{}
	b, err := bus.Open(t.Context(), bus.Config{URL: server.URL(), Timeout: 2 * time.Second, Options: []nats.Option{nats.SetCustomDialer(d)}})
	runtest.NoError(t, err)
	t.Cleanup(b.Close)
	grow(t, b.Log(), id, commits)
	for _, every := range []int64{101, 251, 509} {
		d.every.Store(every)
		want := events.Seq(1)
		for want == 1 { // where the session is was lost: that has an unknown outcome
			for entry, err := range b.Log().Read(t.Context(), id, 1) {
				if want == 1 && errors.Is(err, events.ErrOutcomeUnknown) {
					break
				}
				if err != nil || entry.Seq != want {
					t.Fatalf("one of %d messages is lost: got %d, %v, want %d", every, entry.Seq, err, want)
				}
				want++
			}
		}
		if want != commits+1 {
			t.Errorf("one of %d messages is lost: got %d commits, want %d", every, want-1, commits)
		}
	}
}

func setOf(blobs []bus.StoredBlob) map[bus.StoredBlob]bool {
	set := make(map[bus.StoredBlob]bool, len(blobs))
	for _, blob := range blobs {
		set[blob] = true
	}
	return set
}

// TestLostMessagesOfLists loses some of the messages that lists of rows and of bodies, and a body, consist of: nothing is left out.
func TestLostMessagesOfLists(t *testing.T) {
	t.Parallel()
	const n = 600 // more than a batch
	server, d := bustest.Server(t, busembed.Config{Listen: true}), &dropping{}
	b, err := bus.Open(t.Context(), bus.Config{URL: server.URL(), Timeout: time.Second, Options: []nats.Option{nats.SetCustomDialer(d)}})
	runtest.NoError(t, err)
	t.Cleanup(b.Close)
	rows, last := b.Snapshots(), uint64(0)
	for i := range n {
		if last, err = rows.Put(t.Context(), events.SessionID("s"+strconv.Itoa(i)), []byte("row"), 0); err == nil {
			_, err = b.PutBlob(t.Context(), []byte("body "+strconv.Itoa(i)))
		}
		runtest.NoError(t, err)
	}
	large, err := b.PutBlob(t.Context(), make([]byte, 4<<20))
	runtest.NoError(t, err)
	pack, err := rows.PutPack(t.Context(), make([]byte, 1000))
	runtest.NoError(t, err)
	whole, err := b.Blobs(t.Context()) // with chunks that a repeated put left
	runtest.NoError(t, err)
	d.every.Store(3) // of a message and the end of a batch
	for range 3 {
		if got, err := rows.Pack(t.Context(), pack.Name); len(got) != 1000 || err != nil {
			t.Errorf("a message of each third batch is lost: got a pack of %d bytes, %v", len(got), err)
		}
	}
	d.every.Store(0)
	runtest.NoError(t, rows.RemovePack(t.Context(), pack.Name))
	d.every.Store(5)
	for range 8 { // rows may be missing here, and the end of a batch is
		for _, err := range rows.Values(t.Context()) {
			runtest.WantError(t, "one of 5 messages is lost", err, nil)
		}
	}
	for _, every := range []int64{101, 509} {
		d.every.Store(every)
		changed, between := 0, 0
		for _, err := range rows.Changed(t.Context(), 0) {
			changed = counted(t, changed, err)
		}
		for _, err := range rows.Between(t.Context(), 0, last, nil) {
			between = counted(t, between, err)
		}
		if blobs, err := b.Blobs(t.Context()); !maps.Equal(setOf(blobs), setOf(whole)) || err != nil {
			t.Errorf("one of %d messages is lost: got %d bodies, %v, want those %d of before", every, len(blobs), err, len(whole))
		}
		body, err := b.Blob(t.Context(), large)
		if changed != n || between != n || len(body) != 4<<20 || err != nil {
			t.Errorf("one of %d messages is lost: got %d and %d rows, and %d bytes of a body, %v", every, changed, between, len(body), err)
		}
	}
}

// TestLostBody loses all answers with the content of a body for longer than a read waits for one of them: the read goes on until it has one.
func TestLostBody(t *testing.T) {
	t.Parallel()
	server, d := bustest.Server(t, busembed.Config{Listen: true}), &dropping{}
	b, err := bus.Open(t.Context(), bus.Config{URL: server.URL(), Timeout: 2 * time.Second, Options: []nats.Option{nats.SetCustomDialer(d)}})
	runtest.NoError(t, err)
	t.Cleanup(b.Close)
	ref, err := b.PutBlob(t.Context(), make([]byte, 100<<10))
	runtest.NoError(t, err)
	const lost = 30 // in three times 300 ms there are fewer requests, as each waits longer than the one before it
	d.large.Store(lost)
	if body, err := b.Blob(t.Context(), ref); len(body) != 100<<10 || err != nil {
		t.Errorf("after %d lost answers: got %d bytes, %v", lost-max(d.large.Load(), 0), len(body), err)
	}
}

// counted is n and one more.
func counted(t *testing.T, n int, err error) int {
	t.Helper()
	runtest.NoError(t, err)
	return n + 1
}

// TestListBesideMirror lists bodies beside a mirror that has the description of one of them, and answers too. A body that it leaves out is not
// told as one without a description, which a sweep removes.
func TestListBesideMirror(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	js := jetStream(t, b)
	for n := range 6 {
		_, err := b.PutBlob(t.Context(), fmt.Appendf(nil, "body %d", n))
		runtest.NoError(t, err)
	}
	want, err := b.Blobs(t.Context())
	runtest.NoError(t, err)
	of, err := js.Stream(t.Context(), "OBJ_lash-blobs")
	runtest.NoError(t, err)
	last, err := of.GetMsg(t.Context(), of.CachedInfo().State.LastSeq)
	runtest.NoError(t, err)
	mirror, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "mirror", AllowDirect: true, MirrorDirect: true, Mirror: &jetstream.StreamSource{Name: "OBJ_lash-blobs", FilterSubject: last.Subject},
	})
	runtest.NoError(t, err)
	bustest.Eventually(t, "the mirror has the description", func() bool {
		info, err := mirror.Info(t.Context())
		return err == nil && info.State.Msgs == 1
	})
	for n := range 64 {
		if got, err := b.Blobs(t.Context()); err != nil || !maps.Equal(setOf(got), setOf(want)) {
			t.Fatalf("list %d: got %v, %v, want %v", n, got, err, want)
		}
	}
}

// TestLongFilteredMirrors has mirrors that leave out what is read answer direct reads too, as servers share these between a stream and its
// mirrors: only the leader's answer is that there is none.
func TestLongFilteredMirrors(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b := bustest.Open(t, server)
	js, err := jetstream.New(b.Conn())
	runtest.NoError(t, err)
	mirror := func(of, filter, without string) {
		t.Helper()
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
			Name: fmt.Sprintf("mirror-%x", without), AllowDirect: true, MirrorDirect: true, Mirror: &jetstream.StreamSource{Name: of, FilterSubject: filter},
		}); err != nil {
			t.Fatal(err)
		}
		bustest.Eventually(t, "the mirror of "+of+" answers direct reads", func() bool { // once it has a message
			answer, err := b.Conn().RequestWithContext(t.Context(), "$JS.API.DIRECT.GET."+of, fmt.Appendf(nil, `{"seq":1,"next_by_subj":%q}`, without))
			return err == nil && answer.Header.Get("Status") == "404"
		})
	}
	rows := b.Snapshots()
	names := make(map[string]string) // of the streams, by what they keep
	for name := range js.StreamNames(t.Context()).Name() {
		for _, part := range []string{"snapshots", "blobs"} {
			if strings.HasSuffix(name, part) {
				names[part] = name
			}
		}
	}
	for _, id := range []events.SessionID{"other", "s"} {
		_, err = rows.Put(t.Context(), id, []byte("row"), 0)
		runtest.NoError(t, err)
	}
	ref, err := b.PutBlob(t.Context(), []byte(strings.Repeat("body", 1000)))
	runtest.NoError(t, err)
	mirror(names["snapshots"], "$KV.*.other", "$KV.*.s")
	mirror(names["blobs"], "$O.*.C.>", "$O.*.M.>")
	mirror(names["blobs"], "$O.*.M.>", "$O.*.C.>")
	for n := range 256 {
		if row, err := rows.Get(t.Context(), "s"); err != nil || string(row.Value) != "row" {
			t.Fatalf("read %d of the row: got %q, %v", n, row.Value, err)
		}
		if body, err := b.Blob(t.Context(), ref); err != nil || len(body) != 4000 {
			t.Fatalf("read %d of the body: got %d bytes, %v", n, len(body), err)
		}
		found := 0
		for _, err := range rows.All(t.Context()) {
			if found++; err != nil {
				t.Fatal(err)
			}
		}
		if found != 2 {
			t.Fatalf("read %d of all rows: got %d, want 2", n, found)
		}
	}
	if row, err := rows.Get(t.Context(), "none"); err != nil || row.Revision != 0 {
		t.Errorf("row that there is none of: got %+v, %v", row, err)
	}
	missing := ref
	missing.Digest = strings.Repeat("0", len(ref.Digest))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := b.Blob(ctx, missing); !strings.Contains(fmt.Sprint(err), bus.ErrNotFound.Error()) || ctx.Err() != nil {
		t.Errorf("body that there is none of: got %v, want %v", err, bus.ErrNotFound)
	}
}
