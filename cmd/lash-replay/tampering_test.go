package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
)

var tampering = flag.Int("tampering", 400, "number of random changes of TestTampering")

// stored is a commit as a tampering program has it.
type stored struct {
	data []byte
	id   events.CommitID // empty: it cannot be decoded
}

// forgery is what a tampering program did, and what must be named.
type forgery struct {
	name    string
	list    []stored
	seqs    []events.Seq      // each is named
	ids     []events.CommitID // one is named, besides
	cut     bool              // needs the auditor's head
	redacts bool              // no fault, but listed
	open    bool              // the commits after it have moved: others may be named too
}

// attack is an untouched history, and the tools to change it.
type attack struct {
	*rand.Rand
	untouched []stored
	fresh     int
}

func (a *attack) decode(i int) *events.Commit {
	c, err := events.Decode(a.untouched[i].data)
	if err != nil {
		panic(err)
	}
	return c
}

func (a *attack) commitID() events.CommitID {
	a.fresh++
	return events.CommitID(fmt.Sprintf("01JD6Z%020d", a.fresh))
}

func encoded(c *events.Commit) stored {
	data, err := events.Encode(c)
	if err != nil {
		panic(err)
	}
	return stored{data, c.ID}
}

// with replaces a commit.
func (a *attack) with(name string, i int, s stored) forgery {
	list := slices.Clone(a.untouched)
	list[i] = s
	return forgery{name: name, list: list, seqs: []events.Seq{events.Seq(i + 1)}, ids: []events.CommitID{s.id}}
}

// forgeries are the kinds of changes. Each returns false where it changes nothing.
func forgeries() map[string]func(*attack, int) (forgery, bool) {
	return map[string]func(*attack, int) (forgery, bool){
		"bit":      (*attack).flip,
		"envelope": (*attack).envelope,
		"payload":  (*attack).payload,
		"events":   (*attack).events,
		"form":     (*attack).form,
		"remove":   (*attack).remove,
		"insert":   (*attack).insert,
		"swap":     (*attack).swap,
		"repeat":   (*attack).repeat,
		"cut":      (*attack).cut,
		"strip":    (*attack).strip,
		"redact":   (*attack).redact,
		"several":  (*attack).several,
	}
}

func (a *attack) flip(i int) (forgery, bool) {
	data := bytes.Clone(a.untouched[i].data)
	data[a.IntN(len(data))] ^= 1 << a.IntN(8)
	s := stored{data: data}
	if c, err := events.Decode(data); err == nil && c.Session == a.decode(i).Session {
		s.id = c.ID
	}
	return a.with("a bit", i, s), true
}

func (a *attack) envelope(i int) (forgery, bool) {
	c := a.decode(i)
	switch a.IntN(6) {
	case 0:
		c.At += events.Millis(a.IntN(1000) + 1)
	case 1:
		c.Cause += "x"
	case 2:
		c.Actor.ID += "x"
	case 3:
		c.ID = a.commitID()
	case 4:
		c.Salt = slices.Clone(c.Salt)
		c.Salt[a.IntN(len(c.Salt))]++
	case 5:
		c.Key, c.Digest = c.Key+"k", c.Digest+"d"
	}
	return a.with("envelope", i, encoded(c)), true
}

func (a *attack) payload(i int) (forgery, bool) {
	c := a.decode(i)
	ev := &c.Events[a.IntN(len(c.Events))]
	switch p := ev.Payload.(type) {
	case *events.TurnRequested:
		p.Input.Parts[0].Text += "!"
	case *events.ModelReplied:
		p.Usage.Output++
	case *events.TurnCompleted:
		p.End = events.EndFailed
		p.Issue = events.Issue{Kind: "runtime", Code: "x", Message: "forged"}
	case *events.AuditHeadSigned:
		field := [][]byte{p.Key, p.Signature, p.Edge, p.Leaves}[a.IntN(4)]
		if len(field) == 0 {
			p.Certificate += "x"
		} else {
			field[a.IntN(len(field))]++
		}
	default:
		ev.Turn += "x"
	}
	return a.with("payload", i, encoded(c)), true
}

func (a *attack) events(i int) (forgery, bool) {
	c := a.decode(i)
	switch n := a.IntN(3); {
	case n == 0 && len(c.Events) > 1:
		k := a.IntN(len(c.Events))
		c.Events = slices.Delete(c.Events, k, k+1)
	case n == 1 && len(c.Events) > 1:
		slices.Reverse(c.Events)
	default:
		c.Events = slices.Insert(c.Events, a.IntN(len(c.Events)+1), events.Of("", &events.TaskHidden{Task: "k", Label: "forged"}))
	}
	return a.with("events", i, encoded(c)), true
}

// form writes the same values in another encoding.
func (a *attack) form(i int) (forgery, bool) {
	data := a.untouched[i].data
	for _, tag := range []string{"\xa1n\xc4", "\xa1p", "\xa1k", "\xa1t\xcf"} {
		long := "\xd9\x01" + tag[1:]
		if other := bytes.Replace(data, []byte(tag), []byte(long), 1); !bytes.Equal(other, data) && a.IntN(2) == 0 {
			return a.with("form", i, stored{other, a.untouched[i].id}), true
		}
	}
	return forgery{}, false
}

func (a *attack) remove(i int) (forgery, bool) {
	return forgery{name: "remove", list: slices.Delete(slices.Clone(a.untouched), i, i+1), seqs: []events.Seq{events.Seq(i + 1)}, cut: i == len(a.untouched)-1, open: true}, true
}

func (a *attack) insert(i int) (forgery, bool) {
	c := a.decode(a.IntN(len(a.untouched)))
	c.ID = a.commitID()
	return forgery{
		name: "insert", list: slices.Insert(slices.Clone(a.untouched), i, encoded(c)),
		seqs: []events.Seq{events.Seq(i + 1)}, ids: []events.CommitID{c.ID}, open: true,
	}, true
}

func (a *attack) swap(i int) (forgery, bool) {
	j := a.IntN(len(a.untouched))
	list := slices.Clone(a.untouched)
	list[i], list[j] = list[j], list[i]
	return forgery{name: "swap", list: list, ids: []events.CommitID{list[i].id, list[j].id}, open: true}, i != j
}

func (a *attack) repeat(i int) (forgery, bool) {
	at := a.IntN(len(a.untouched))
	again := a.untouched[i]
	return forgery{name: "repeat", list: slices.Insert(slices.Clone(a.untouched), at, again), ids: []events.CommitID{again.id}, open: true}, true
}

func (a *attack) cut(i int) (forgery, bool) {
	if i == 0 {
		return forgery{}, false
	}
	return forgery{name: "cut", list: a.untouched[:i], seqs: []events.Seq{events.Seq(i + 1)}, cut: true, open: true}, true
}

// strip removes all heads from some commit on.
func (a *attack) strip(i int) (forgery, bool) {
	ch := forgery{name: "strip", list: slices.Clone(a.untouched), open: true}
	for k := i; k < len(a.untouched); k++ {
		c := a.decode(k)
		if last := len(c.Events) - 1; c.Events[last].Kind == events.KindAuditHeadSigned {
			c.Events = c.Events[:last]
			ch.list[k] = encoded(c)
			if ch.ids == nil {
				ch.ids, ch.seqs = []events.CommitID{c.ID}, []events.Seq{events.Seq(k + 1)}
			}
		}
	}
	return ch, ch.ids != nil
}

func (a *attack) redact(i int) (forgery, bool) {
	data, err := events.Redact(a.untouched[i].data, func(int, events.Kind) bool { return a.IntN(2) == 0 })
	if err != nil {
		panic(err)
	}
	ch := a.with("redact", i, stored{data, a.untouched[i].id})
	ch.redacts = true
	return ch, !bytes.Equal(data, a.untouched[i].data)
}

// several alters some commits at once.
func (a *attack) several(i int) (forgery, bool) {
	ch := forgery{name: "several", list: slices.Clone(a.untouched), open: true}
	for k := range len(a.untouched) {
		if k == i || a.IntN(6) == 0 {
			c := a.decode(k)
			c.Cause += "forged"
			ch.list[k] = encoded(c)
			ch.seqs = append(ch.seqs, events.Seq(k+1))
		}
	}
	return ch, true
}

// archiveOf writes an archive with this program's own encoder.
func archiveOf(t *testing.T, session events.SessionID, list []stored) string {
	t.Helper()
	var file bytes.Buffer
	w, err := events.NewArchiveWriter(&file, session, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		if err := w.Commit(events.Entry{Seq: events.Seq(i + 1), Commit: &events.Commit{Session: session}, Data: list[i].data}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.lash")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// verified is the output of verify.
type verified struct {
	Proven []struct {
		After    events.Seq        `json:"after_from"`
		Redacted []proof.Redaction `json:"redacted"`
	} `json:"proven"`
	Violations []finding `json:"violations"`
}

func verifyOf(t *testing.T, args ...string) (v verified) {
	t.Helper()
	var out, errs strings.Builder
	code := run(t.Context(), append([]string{"verify", "--json"}, args...), &program.Streams{Out: &out, Err: &errs, Env: func(string) string { return "" }})
	if code == exitError && strings.Contains(errs.String(), events.ErrFutureVersion.Error()) { // a bit of a version; the error says where
		v.Violations = []finding{{Check: checkHistory, Problem: errs.String()}}
		return v
	}
	if code == exitError {
		t.Fatalf("verify %v: %s", args, &errs)
	}
	if err := json.Unmarshal([]byte(out.String()), &v); err != nil {
		t.Fatal(err)
	}
	if (code == 0) != (len(v.Violations) == 0) {
		t.Errorf("verify %v: got exit code %d with %d violations", args, code, len(v.Violations))
	}
	return v
}

// names reports whether a finding names a commit by its sequence, or a range with it.
func names(f *finding, seq events.Seq) bool {
	return f.Seq == seq || f.Seq <= seq && seq <= f.Upto || strings.Contains(f.Problem, fmt.Sprintf("sequence %d:", seq)) || strings.Contains(f.Problem, fmt.Sprintf(" at %d:", seq))
}

// check compares what verify found with what was changed.
func (ch *forgery) check(t *testing.T, v verified) {
	t.Helper()
	if ch.redacts {
		if len(v.Violations) > 0 || len(v.Proven) != 1 || len(v.Proven[0].Redacted) != 1 || v.Proven[0].Redacted[0].Seq != ch.seqs[0] {
			t.Errorf("%s of %d: got %+v", ch.name, ch.seqs, v)
		}
		return
	}
	proofs := slices.DeleteFunc(slices.Clone(v.Violations), func(f finding) bool {
		return f.Check != checkProof && f.Check != checkArchive && f.Check != checkHistory
	})
	for _, seq := range ch.seqs {
		if ch.name == "several" && len(v.Proven) == 1 && v.Proven[0].After > 0 && seq >= v.Proven[0].After && len(proofs) > 0 {
			continue // the only head that covers it was altered too: it is listed as not proven
		}
		if !slices.ContainsFunc(proofs, func(f finding) bool { return names(&f, seq) }) {
			t.Errorf("%s of %d, %s: sequence %d is not named: %+v", ch.name, ch.seqs, ch.ids, seq, v.Violations)
		}
	}
	if len(ch.ids) > 0 && !slices.Contains(ch.ids, "") && !slices.ContainsFunc(proofs, func(f finding) bool { return f.Commit != "" && slices.Contains(ch.ids, f.Commit) }) {
		t.Errorf("%s of %d, %s: the id is not named: %+v", ch.name, ch.seqs, ch.ids, v.Violations)
	}
	for i := range proofs {
		if !ch.open && !slices.ContainsFunc(ch.seqs, func(seq events.Seq) bool { return names(&proofs[i], seq) }) {
			t.Errorf("%s of %d, %s: another commit is accused: %+v", ch.name, ch.seqs, ch.ids, proofs[i])
		}
	}
}

// TestTampering changes archives and streams at random, most with this program's own encoder: every changed commit under a
// head is named, and untouched histories have no fault. -tampering sets the number of changes.
func TestTampering(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	sessions := map[events.SessionID]int{"one": 1, "three": 3, "many": 20}
	if err := makeSignedTurns(store, sessions); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(store, "keys", "tenant.pub")
	live := startTampered(t)
	kinds := forgeries()
	list := slices.Sorted(maps.Keys(kinds))
	each := max(1, *tampering/len(sessions))
	for id := range sessions {
		head := filepath.Join(t.TempDir(), "head")
		command(t, "verify", string(id), "--store", store, "--write-head", head)
		command(t, "export", string(id), "--store", store, "-o", filepath.Join(filepath.Dir(head), "whole.lash"))
		untouched := commitsIn(t, filepath.Join(filepath.Dir(head), "whole.lash"))
		t.Run(string(id), func(t *testing.T) {
			a := &attack{Rand: rand.New(rand.NewPCG(7, uint64(len(untouched)))), untouched: untouched} //nolint:gosec // repeatable
			if v := verifyOf(t, archiveOf(t, id, untouched), "--key", key, "--head", head); len(v.Violations) > 0 {
				t.Errorf("untouched: got %+v", v.Violations)
			}
			for n := 0; n < each; {
				name := list[a.IntN(len(list))]
				ch, ok := kinds[name](a, a.IntN(len(untouched)))
				if !ok {
					continue
				}
				n++
				args := []string{"--key", key}
				if ch.cut {
					args = append(args, "--head", head)
				}
				if n%10 == 0 && !ch.redacts {
					ch.check(t, live.verify(t, id, ch.list, args))
				} else {
					ch.check(t, verifyOf(t, append([]string{archiveOf(t, id, ch.list)}, args...)...))
				}
			}
		})
	}
}

func commitsIn(t *testing.T, path string) (list []stored) {
	t.Helper()
	a, err := openArchive(path, 1024)
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range a.log.Read(t.Context(), a.session, 1) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, stored{e.Data, e.Commit.ID})
	}
	return list
}

// tampered is a server whose operator writes streams.
type tampered struct {
	server *busembed.Server
	js     jetstream.JetStream
}

func startTampered(t *testing.T) *tampered {
	t.Helper()
	server, err := busembed.Start(busembed.Config{StoreDir: t.TempDir(), Listen: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	b, err := bus.Open(t.Context(), bus.Config{Options: []nats.Option{server.InProcess()}}) // makes the shared assets
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
	conn, err := nats.Connect("", server.InProcess())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return &tampered{server, js}
}

// verify makes a stream with the commits, and verifies it on the server.
func (l *tampered) verify(t *testing.T, id events.SessionID, list []stored, args []string) verified {
	t.Helper()
	ctx := context.Background()
	name := "lash-s-" + string(id)
	if err := l.js.DeleteStream(ctx, name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Fatal(err)
	}
	if _, err := l.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: name, Subjects: []string{"lash.s." + string(id) + ".>"}, AllowDirect: true, Metadata: map[string]string{"lash_format": "1"},
	}); err != nil {
		t.Fatal(err)
	}
	for i := range list {
		if _, err := l.js.Publish(ctx, "lash.s."+string(id)+".turn", list[i].data); err != nil {
			t.Fatal(err)
		}
	}
	return verifyOf(t, append([]string{string(id), "--nats", l.server.URL()}, args...)...)
}
