package main

import (
	"bytes"
	"context"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/keyring"
)

// erasing is a source in which a session is erased after a number of its commits were read.
type erasing struct {
	*busSource
	after events.Seq
	erase func()
}

func (s *erasing) Log() events.Log { return erasingLog{s.busSource.Log(), s} }

type erasingLog struct {
	events.Log
	src *erasing
}

func (l erasingLog) Read(ctx context.Context, id events.SessionID, from events.Seq) iter.Seq2[events.Entry, error] {
	if l.src.after == 0 {
		l.src.erase()
	}
	return func(yield func(events.Entry, error) bool) {
		for e, err := range l.Log.Read(ctx, id, from) {
			if err == nil && e.Seq == l.src.after {
				l.src.erase()
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// TestVerifyErasedMeanwhile: of a session that is erased while it is verified, the tombstone is verified.
func TestVerifyErasedMeanwhile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keys, err := keyring.Open(dir, time.Now())
	runtest.NoError(t, err)
	tenants, err := readKey(filepath.Join(dir, keyring.TenantPub))
	runtest.NoError(t, err)
	b := bustest.Start(t)
	h, err := session.New(session.Config{Bus: b, Actor: "tester", Plugins: session.NoPlugins(), Signer: keys.Signer})
	runtest.NoError(t, err)
	for _, id := range []events.SessionID{"s0", "s1"} {
		_, err = h.Create(t.Context(), api.CreateRequest{ID: id})
		runtest.NoError(t, err)
		erase := func() {
			_, err := h.Erase(t.Context(), id, "asked to")
			runtest.WantError(t, "erase", err, nil)
		}
		src := &erasing{busSource: &busSource{Bus: b}, after: map[events.SessionID]events.Seq{"s0": 0, "s1": 1}[id], erase: erase}
		e := &env{Streams: &program.Streams{Out: io.Discard, Err: io.Discard}}
		r := &verifyRun{trust: &trust{tenants: tenants}}
		part, err := r.session(t.Context(), e, src, id)
		if err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		if id == "s0" && (part.Sessions != 0 || len(part.Tombstones) != 1 || part.Tombstones[0].SignedBy == "") {
			t.Errorf("erased before it is read: got %d sessions, tombstones %+v, want a signed tombstone", part.Sessions, part.Tombstones)
		}
		if len(part.Violations) > 0 || part.Sessions+int64(len(part.Tombstones)) != 1 {
			t.Errorf("%s: got violations %v, %d sessions, %d tombstones, want one of both", id, part.Violations, part.Sessions, len(part.Tombstones))
		}
	}
}

// TestLongLostSessionHidesNoOther has all commands that read each session of a server meet one that has lost all its commits, before and
// after another. They name it and what to do, read the others, and fail.
func TestLongLostSessionHidesNoOther(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{Listen: true})
	b := bustest.Open(t, server)
	h, err := session.New(session.Config{Bus: b, Actor: "tester", Plugins: session.NoPlugins()})
	runtest.NoError(t, err)
	for _, id := range []events.SessionID{"a", "lost", "z"} {
		_, err = h.Create(t.Context(), api.CreateRequest{ID: id})
		runtest.NoError(t, err)
		runtest.NoError(t, follow.NewProjector(b, nil).Project(t.Context(), id))
	}
	js, err := jetstream.New(b.Conn())
	if err == nil {
		err = js.DeleteStream(t.Context(), "lash-s-lost")
	}
	runtest.NoError(t, err)
	for _, c := range []struct {
		args string
		code int
		want []string // in the output or the messages
	}{
		{"verify --all", exitViolations, []string{"commits 1 to 1 are lost", "lash-node erase lost", "3 sessions"}},
		{"check", exitViolations, []string{"commits 1 to 1 are lost", "lash-node erase lost", "checked 3 sessions"}},
		{"stats", exitError, []string{"commits 1 to 1 are lost", "lash-node erase lost", "commits of 1 session are lost", "sessions     2"}},
		{"export --all -o " + t.TempDir(), exitError, []string{"commits 1 to 1 are lost", "lash-node erase lost", "commits of 1 session are lost", "/a.lash", "/z.lash"}},
	} {
		var out bytes.Buffer
		code := run(t.Context(), append(strings.Fields(c.args), "--nats", server.URL()), &program.Streams{Out: &out, Err: &out, Env: func(string) string { return "" }})
		if code != c.code {
			t.Errorf("%s: got exit code %d, want %d", c.args, code, c.code)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: got %q, want %q", c.args, &out, want)
			}
		}
	}
}

// TestWriteHeadOfOne: the head is that of the only session or tombstone.
func TestWriteHeadOfOne(t *testing.T) {
	t.Parallel()
	live := &findings{counts: counts{Sessions: 1}, lastHead: &proof.Head{Session: "a", Note: "head of a"}}
	gone := &findings{Tombstones: []*tombstone{{Session: "z"}}, lastHead: &proof.Head{Session: "z", Note: "head of z"}}
	for name, c := range map[string]struct {
		parts []*findings
		want  string // empty: an error
	}{
		"session": {[]*findings{live}, "head of a"}, "tombstone": {[]*findings{gone}, "head of z"},
		"both": {[]*findings{live, gone}, ""}, "two_tombstones": {[]*findings{gone, gone}, ""}, "none": {nil, ""},
	} {
		r, path := &verifyRun{}, filepath.Join(t.TempDir(), "head")
		for _, part := range c.parts {
			runtest.NoError(t, r.merge(part, nil))
		}
		err := r.writeHead(path)
		got, _ := os.ReadFile(path)
		if string(got) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, c.want)
		}
	}
}

// TestHeadsOfOthers: each given head is compared, or it is said that it was not.
func TestHeadsOfOthers(t *testing.T) {
	t.Parallel()
	heads := map[events.SessionID][]*proof.Head{"a": {{Session: "a", Size: 3}}, "b": {{Session: "b", Size: 4}, {Session: "b", Size: 9}}, "z": {{Session: "z", Size: 5}}}
	for name, c := range map[string]struct {
		all   bool
		named map[events.SessionID]string
		found []events.SessionID
		err   string
		notes int
	}{
		"all":             {all: true, found: []events.SessionID{"b"}},
		"all_and_named":   {all: true, named: map[events.SessionID]string{"b": "b.note"}, found: []events.SessionID{"b"}},
		"lines":           {notes: 1},
		"named":           {named: map[events.SessionID]string{"b": "b.note"}, err: "--head b.note: it is of session b"},
		"named_and_there": {named: map[events.SessionID]string{"a": "a.note", "z": "z.note"}, notes: 1},
	} {
		r := &verifyRun{
			trust: &trust{heads: heads, named: c.named}, onViolation: func(finding) {},
			found: findings{Proven: []*proven{{Session: "a"}}, Tombstones: []*tombstone{{Session: "z"}}},
		}
		err := r.unvisited(c.all)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: got %v, want %q", name, err, c.err)
		}
		if len(r.found.Violations) != len(c.found) || len(r.found.Notes) != c.notes {
			t.Errorf("%s: got %v, notes %q, want sessions %v and %d notes", name, r.found.Violations, r.found.Notes, c.found, c.notes)
		}
		for i, id := range c.found {
			if f := r.found.Violations[i]; f.Session != id || f.Fault != proof.FaultRemoved || f.Upto != 9 {
				t.Errorf("%s: got %+v, want the removed session %s", name, f, id)
			}
		}
	}
}
