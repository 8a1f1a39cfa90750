package blob_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/blob"
)

// TestFilterPatternsAreBounded refuses files with too many patterns, too long ones, those whose repetitions multiply, and
// those that match no character. Each error names the line.
func TestFilterPatternsAreBounded(t *testing.T) {
	t.Parallel()
	lines := func(n int) string { return strings.Repeat("sk-[a-z]+\n", n) }
	for name, c := range map[string]struct {
		file string
		want error
		line string
	}{
		"most_patterns": {lines(256), nil, ""},
		"too_many":      {lines(257), events.ErrTooLarge, "line 257: "},
		"longest":       {strings.Repeat("a", 1000), nil, ""},
		"too_long":      {"ok\n" + strings.Repeat("a", 1001), events.ErrTooLarge, "line 2: "},
		"repetitions":   {"[ab]{1000}[cd]{1000}[ef]{1000}[gh]{1000}[ij]{1000}[kl]{1000}", events.ErrTooLarge, "line 1: "},
		"nested":        {"(a{30}){30}(b{30}){30}(c{30}){30}(d{30}){30}(e{30}){30}(f{30}){30}", events.ErrTooLarge, "line 1: "},
		"boundary":      {"\\b", events.ErrInvalid, "line 1: "},
		"optional":      {"a?b*", events.ErrInvalid, "line 1: "},
		"begin":         {"(?m)^", events.ErrInvalid, "line 1: "},
		"one_of":        {"abc|(x{0,3})", events.ErrInvalid, "line 1: "},
		"own_mark":      {"redacted", events.ErrInvalid, "line 1: "},
	} {
		_, err := blob.NewFilter(c.file)
		if !errors.Is(err, c.want) || c.want != nil && !strings.Contains(err.Error(), c.line) {
			t.Errorf("%s: got %v, want %v at %q", name, err, c.want, c.line)
		}
	}
}

// TestLongFilterIsBoundedInTime filters 16 MiB with patterns that need much work for each byte. It ends with its context, and
// without one after its limit; the event is refused.
func TestLongFilterIsBoundedInTime(t *testing.T) {
	t.Parallel()
	var file strings.Builder
	for n := range 256 {
		fmt.Fprintf(&file, "(?:[ab]|[bc]|[ac]){%d}Z\n", 300+n)
	}
	filter, err := blob.NewFilter(file.String())
	runtest.NoError(t, err)
	store := filter.Store(memStore{})
	big := &events.ToolReturned{Results: []events.ToolResult{{Text: strings.Repeat("abcb", 4<<20)}}}
	cause := errors.New("the request ended")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(200*time.Millisecond, func() { cancel(cause) })
	began := time.Now()
	_, err = blob.Spill(ctx, store, big)
	runtest.WantError(t, "with a context that ends", err, cause)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("with a context that ends: took %v", took)
	}
	began = time.Now()
	_, err = blob.Spill(t.Context(), store, big)
	runtest.WantError(t, "without", err, events.ErrTooLarge)
	if took := time.Since(began); took > 2*time.Minute {
		t.Errorf("without: took %v, the limit is 10 s", took)
	}
	_, err = blob.FilterText(t.Context(), store, "short")
	runtest.WantError(t, "a short text", err, nil)
}

// TestLargeTextsAreFilteredAlike compares a text above the bound, which is read piece by piece, with package regexp.
func TestLargeTextsAreFilteredAlike(t *testing.T) {
	t.Parallel()
	patterns := []string{`\bsk-[a-z]+\b`, `(?m)^key .*$`, `(?i)secret|secrets`, `\Astart`, `end\z`, `\d{4}`, "é+x", `\Bmid`, `a\b.\bb`}
	rapid.Check(t, func(rt *rapid.T) {
		line := rapid.SampledFrom(patterns).Draw(rt, "pattern")
		piece := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"start", "sk-ab", " ", "\n", "key k", "Secrets", "1234", "56789", "ééx", "\xff", "end", "amid", "a.b", "-"}), 1, 40).Draw(rt, "pieces"), "")
		filter, err := blob.NewFilter(line + "\n" + strings.Repeat("q", 900) + "\n")
		runtest.NoError(rt, err)
		filter.WatchAll() // as for a text of 64 MiB
		got, err := blob.FilterText(t.Context(), filter.Store(memStore{}), piece)
		if want := regexp.MustCompile(line).ReplaceAllLiteralString(piece, blob.Redacted); err != nil || got != want {
			rt.Errorf("%s in %q: got %q, %v, want %q", line, piece, got, err, want)
		}
	})
}
