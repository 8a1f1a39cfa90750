package bus_test

import (
	"fmt"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// TestRowValues: the values of all rows, over several batches, with replaced rows and without any.
func TestRowValues(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	rows, ok := b.Index()
	if !ok {
		t.Fatal("the bus has no index")
	}
	read := func() map[string]int {
		t.Helper()
		got := make(map[string]int)
		for value, err := range rows.Values(t.Context()) {
			runtest.NoError(t, err)
			got[string(value[:6])]++
		}
		return got
	}
	if got := read(); len(got) != 0 {
		t.Errorf("empty bucket: got %v", got)
	}
	const n = 2000
	large := make([]byte, 2000)
	for i := range n {
		revision, err := rows.Put(t.Context(), events.SessionID(fmt.Sprintf("s%d", i)), fmt.Appendf(nil, "old%03d%s", i%1000, large), 0)
		if err == nil && i%2 == 0 {
			_, err = rows.Put(t.Context(), events.SessionID(fmt.Sprintf("s%d", i)), fmt.Appendf(nil, "new%03d%s", i%1000, large), revision)
		}
		runtest.NoError(t, err)
	}
	got := read()
	for i := range 1000 {
		want := fmt.Sprintf("%s%03d", map[bool]string{true: "new", false: "old"}[i%2 == 0], i)
		if got[want] != n/1000 {
			t.Errorf("%s: got %d rows, want %d", want, got[want], n/1000)
		}
	}
	if len(got) != 1000 {
		t.Errorf("got %d different rows, want 1000", len(got))
	}
	for _, err := range rows.Values(t.Context()) {
		if err != nil {
			t.Error(err)
		}
		break // a reader may stop
	}
}
