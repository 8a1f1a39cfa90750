package bus_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// written is a history in memory, and its commits as texts. by ends their ids.
func written(t *testing.T, id events.SessionID, n int, by string) (*events.MemLog, []string) {
	t.Helper()
	log, list := &events.MemLog{}, []string(nil)
	for i := range n {
		c := commit(id, i+1)
		c.ID += events.CommitID(by)
		_, err := log.Append(t.Context(), c, events.Seq(i))
		runtest.NoError(t, err)
		list = append(list, fmt.Sprintf("%d:%s", i+1, c.ID))
	}
	return log, list
}

// TestRestore restores a history. It is that of a cold session, takes appends, and is restored only once.
func TestRestore(t *testing.T) {
	t.Parallel()
	b := bustest.Open(t, bustest.Server(t, busembed.Config{}))
	log, want := written(t, "s1", 5, "")
	runtest.NoError(t, b.Restore(t.Context(), "s1", log))
	runtest.EqualLists(t, "restored history", history(t, b, "s1", 1), want)
	for entry, err := range log.Read(t.Context(), "s1", 1) {
		for have, haveErr := range b.Log().Read(t.Context(), "s1", entry.Seq) {
			if err != nil || haveErr != nil || !bytes.Equal(have.Data, entry.Data) {
				t.Errorf("commit %d: got %v, %v, want the same bytes", entry.Seq, haveErr, err)
			}
			break
		}
	}
	runtest.EqualLists(t, "streams of a restored session", streams(t, b), nil)
	var conflict *events.ConflictError
	if err := b.Restore(t.Context(), "s1", log); !errors.As(err, &conflict) || conflict.Last != 5 {
		t.Errorf("restore again: got %v, want a conflict at 5", err)
	}
	want = appendUpTo(t, b, "s1", want, 7)
	runtest.EqualLists(t, "continued history", history(t, b, "s1", 1), want)
	if err := b.Restore(t.Context(), "s1", log); !errors.As(err, &conflict) || conflict.Last != 7 {
		t.Errorf("restore of a hot session: got %v, want a conflict at 7", err)
	}
	runtest.WantError(t, "restore of a session that the log lacks", b.Restore(t.Context(), "s2", log), events.ErrNoSession)
}

// TestRestoreAgainstCreator lets creators and restorers of one session compete. Exactly one history is there, and only its
// owner got no error.
func TestRestoreAgainstCreator(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	buses := []*bus.Bus{bustest.Open(t, server), bustest.Open(t, server), bustest.Open(t, server), bustest.Open(t, server)}
	for round := range 20 {
		id := events.SessionID(fmt.Sprintf("s%d", round))
		errs := make([]error, len(buses))
		first := make([]string, len(buses))
		var all sync.WaitGroup
		for i, b := range buses {
			log, list := written(t, id, 3, fmt.Sprintf("-%d", i))
			first[i] = list[0]
			all.Go(func() {
				if i%2 == 0 {
					errs[i] = b.Restore(t.Context(), id, log)
					return
				}
				for entry, err := range log.Read(t.Context(), id, 1) {
					if err != nil {
						t.Error(err)
						return
					}
					_, errs[i] = b.Log().Append(t.Context(), entry.Commit, 0)
					break
				}
			})
		}
		all.Wait()
		got := history(t, buses[0], id, 1)
		won := 0
		for i, err := range errs {
			switch {
			case err == nil && got[0] == first[i]:
				won++
			case err == nil:
				t.Errorf("round %d, %d: got no error, and the history %v of another", round, i, got)
			case !errors.As(err, new(*events.ConflictError)):
				t.Errorf("round %d, %d: got %v, want a conflict", round, i, err)
			}
		}
		if won != 1 {
			t.Errorf("round %d: got %d winners, want 1; errors %v", round, won, errs)
		}
	}
}
