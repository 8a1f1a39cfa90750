package security

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
)

var (
	hostileRequests = flag.Int("hostile.requests", 3000, "requests that TestHostileRequests makes up")
	hostileSeed     = flag.Uint64("hostile.seed", 1, "of them")
)

// written is a commit that a response names.
type written struct {
	id    events.SessionID
	seq   events.Seq
	actor string
}

// siege sends hostile requests, and records their outcomes.
type siege struct {
	*installation
	remaining atomic.Int64

	mu       sync.Mutex
	outcomes map[string]int // by API and code
	wrote    []written
	made     []events.SessionID // by requests that were accepted
	failures int
}

func (s *siege) wrong(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failures++; s.failures <= 20 {
		s.T.Errorf(format, args...)
	}
}

// TestHostileRequests makes random requests of every operation for both APIs, and sends them to a node that plays
// recorded conversations meanwhile. Nothing panics, each refusal has a reason, each accepted write is in its
// history, the conversations equal the recordings, and the process is as small as before. It is not parallel,
// because it counts goroutines and the heap of the process.
func TestHostileRequests(t *testing.T) {
	most := time.Minute + time.Duration(*hostileRequests)*20*time.Millisecond
	s := &siege{installation: newInstallation(t, harness.ContextFor(t, most)), outcomes: make(map[string]int)}
	s.remaining.Store(int64(*hostileRequests))
	for _, plan := range s.plans("warm", 2) {
		s.play(plan)
	}
	routines, heap := size()
	began := time.Now()
	var all, players sync.WaitGroup
	plans := s.plans("played", 400)
	played := atomic.Int64{}
	players.Go(func() {
		for _, plan := range plans {
			if played.Add(1) > 2 && s.remaining.Load() <= 0 {
				return
			}
			s.play(plan)
		}
	})
	for worker := range uint64(4) {
		all.Go(func() { s.worker(worker) })
	}
	all.Wait()
	took := time.Since(began)
	players.Wait()
	s.histories()
	s.smallAgain(routines, heap, len(s.made))
	refused, accepted := 0, 0
	for _, outcome := range slices.Sorted(maps.Keys(s.outcomes)) {
		n := s.outcomes[outcome]
		if strings.HasSuffix(outcome, " ok") {
			accepted += n
		} else {
			refused += n
		}
		t.Logf("%-40s %6d", outcome, n)
	}
	t.Logf("%d requests in %s: %d accepted, %d refused, %d commits found, %d sessions made, %d conversations played", *hostileRequests, took.Round(time.Millisecond), accepted, refused, len(s.wrote), len(s.made), played.Load())
	if accepted == 0 || refused == 0 || len(s.wrote) == 0 {
		t.Error("want some of each")
	}
}

// worker sends requests until there are enough. It changes the session under attack from time to time.
func (s *siege) worker(n uint64) {
	f := newForger(*hostileSeed, n, s.http.Doc.Operations())
	for i := 0; s.remaining.Add(-1) >= 0; i++ {
		id := fmt.Sprintf("h-%d-%d", n, i/400)
		if i%400 == 0 {
			s.create(events.SessionID(id))
		}
		fresh := fmt.Sprintf("n-%d-%d", n, f.IntN(40))
		f.names = []string{id, fresh, "nosuch", "warm-0", "played-0", "h-0-0"}
		if f.IntN(2) == 0 {
			s.overHTTP(f, id, fresh)
		} else {
			s.overNATS(f, id, fresh)
		}
	}
}

func (s *siege) create(id events.SessionID) {
	if _, err := s.Create(s.Ctx, api.CreateRequest{ID: id}); err != nil {
		s.wrong("create: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made = append(s.made, id)
}

// target is mostly the session under attack; callers without a grant name other ones.
func (f *forger) target(id, outsider, caller string) (session, by string) {
	if f.IntN(8) == 0 {
		return pick(f, "warm-0", "played-0", "nosuch", "a.b", strings.Repeat("x", 300)), outsider
	}
	return id, caller
}

func (s *siege) overHTTP(f *forger, id, fresh string) {
	op := pick(f, f.ops...)
	for op.ID == "closeSession" && f.IntN(10) > 0 { // else most meet a session that is closed
		op = pick(f, f.ops...)
	}
	session, token := f.target(id, "bob", pick(f, "writer", "writer", "writer", "writer", "writer", "reader", "bob", ""))
	body := f.json(op, fresh)
	r, err := http.NewRequestWithContext(s.Ctx, op.Method, s.http.URL+harness.PathOf(op.Path, session)+harness.QueryOf(op.ID), strings.NewReader(body))
	if err != nil {
		s.wrong("request: %v", err)
		return
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token+harness.TokenSecret)
	}
	if f.IntN(3) == 0 {
		r.Header.Set("Idempotency-Key", pick(f, "k1", "k2", fresh, "a b"))
	}
	got, err := s.http.Client.Do(r)
	if err != nil {
		if len(body) <= 1<<20 { // else the server may close before it has all
			s.wrong("%s %s: %v", op.ID, clipped(body), err)
		}
		return
	}
	defer func() { _ = got.Body.Close() }()
	answer, err := io.ReadAll(got.Body)
	if err != nil {
		s.wrong("%s: %v", op.ID, err)
	}
	what := fmt.Sprintf("HTTP %s %s", op.ID, clipped(body))
	if got.StatusCode < 300 {
		seq, _ := strconv.ParseUint(got.Header.Get("Lash-Seq"), 10, 64)
		var made struct{ ID events.SessionID }
		if op.ID == "createSession" || op.ID == "forkSession" {
			_ = json.Unmarshal(answer, &made)
		}
		s.accepted("HTTP", events.SessionID(session), events.Seq(seq), token, made.ID)
		return
	}
	var p struct {
		Code, Detail string
		Details      map[string]string
	}
	if err := json.Unmarshal(answer, &p); err != nil || p.Code == "" || p.Detail == "" {
		s.wrong("%s: got %d %s, want a code and a reason", what, got.StatusCode, clipped(string(answer)))
	}
	if got.StatusCode >= 500 && got.StatusCode != 503 && got.StatusCode != 504 {
		s.wrong("%s: got %d %s", what, got.StatusCode, clipped(string(answer)))
	}
	if slices.Contains([]int{400, 413, 429}, got.StatusCode) {
		s.named(what, p.Code, p.Detail, p.Details)
	}
	s.refused("HTTP", p.Code)
}

func (s *siege) overNATS(f *forger, id, fresh string) {
	op := pick(f, f.nats...)
	for op == operation.CloseSession.Name && f.IntN(10) > 0 {
		op = pick(f, f.nats...)
	}
	session, user := f.target(id, "alice@acme", pick(f, "host@acme", "host@acme", "host@acme", "host@acme", "mallory@acme", "alice@acme"))
	body := f.msgpack(op, fresh)
	r := api.Request{Format: api.RequestFormat, Actor: "boss", Session: events.SessionID(session), Body: body}
	if f.IntN(3) == 0 {
		r.Key = pick(f, "k1", "k2", fresh, "a b")
	}
	data, err := events.EncodePayload(&r)
	if err != nil || len(data) > 1<<20 { // the server takes no such message
		s.remaining.Add(1)
		return
	}
	what := fmt.Sprintf("NATS %s %x", op, data[:min(len(data), 300)])
	a, err := s.rawAnswer(user, op, data, nil)
	switch code := a.Error.Code; {
	case err != nil:
		s.wrong("%s: %v", what, err)
	case code == "":
		var made events.SessionID
		if op == operation.Create.Name {
			_ = events.DecodePayload(a.Body, &made)
		}
		name, _, _ := strings.Cut(user, "@")
		s.accepted("NATS", events.SessionID(session), a.Seq, name, made)
	default:
		if code == api.CodeInternal || a.Error.Message == "" {
			s.wrong("%s: got %+v", what, a.Error)
		}
		if _, class := api.Code(api.DecodeError(a.Error)); class == api.ClassInvalid || class == api.ClassTooLarge || class == api.ClassBusy {
			s.named(what, code, a.Error.Message, a.Error.Details)
		}
		s.refused("NATS", code)
	}
}

// named checks that a refusal names a field or a limit. A malformed body has its reason in the text.
func (s *siege) named(what, code, text string, details map[string]string) {
	if details["field"] == "" && details["limit"] == "" && (code != "invalid_body" && code != "body_too_large" || text == "") {
		s.wrong("%s: got %s %q %v, want a field or a limit", what, code, clipped(text), details)
	}
}

func clipped(text string) string { return text[:min(len(text), 300)] }

func (s *siege) accepted(transport string, id events.SessionID, seq events.Seq, actor string, made events.SessionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcomes[transport+" ok"]++
	if seq != 0 && made == "" {
		s.wrote = append(s.wrote, written{id, seq, actor})
	}
	if made != "" && !slices.Contains(s.made, made) {
		s.made = append(s.made, made)
	}
}

func (s *siege) refused(transport, code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcomes[transport+" "+code]++
}

// histories checks that every accepted write is in its history, with its caller, and verifies the histories of all
// sessions.
func (s *siege) histories() {
	s.T.Helper()
	actors := make(map[events.SessionID]map[events.Seq]string)
	for _, id := range s.made {
		actors[id] = make(map[events.Seq]string)
		for entry, err := range s.Bus.Log().Read(s.Ctx, id, 1) {
			if err != nil {
				s.wrong("read %s: %v", id, err)
				break
			}
			actors[id][entry.Seq] = entry.Commit.Actor.ID
		}
		if len(actors[id]) == 0 {
			s.wrong("%s: got no history of a session that was made", id)
		}
		harness.VerifyHistory(s.T, s.Bus, id)
	}
	for _, w := range s.wrote {
		if got, ok := actors[w.id][w.seq]; !ok || got != w.actor {
			s.wrong("commit %d of %s: got it %v by %q, want it by %q", w.seq, w.id, ok, got, w.actor)
		}
	}
}

func size() (routines int, heap uint64) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), m.HeapAlloc
}

// smallAgain waits until the process is about as small as before. It includes the server of the test, with what
// that keeps of each session.
func (s *siege) smallAgain(routines int, heap uint64, sessions int) {
	s.T.Helper()
	s.http.Client.CloseIdleConnections()
	mostRoutines, mostHeap := routines+100+8*sessions, heap+256<<20+uint64(sessions)<<19
	ctx, cancel := context.WithTimeout(s.Ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		nowRoutines, nowHeap := size()
		if nowRoutines <= mostRoutines && nowHeap <= mostHeap {
			s.T.Logf("goroutines: %d before, %d after; heap: %d MiB before, %d MiB after", routines, nowRoutines, heap>>20, nowHeap>>20)
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.T.Errorf("got %d goroutines and %d MiB, had %d and %d: %v", nowRoutines, nowHeap>>20, routines, heap>>20, ctx.Err())
			return
		}
	}
}
