package output_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lash-go/lash/session/plugin/output"
	"github.com/lash-go/lash/session/plugin/wire"
)

// TestPacer prints a lot at once and a little for long: at most twenty pieces a second, each at most of the limit, and
// all text where none is lost.
func TestPacer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prints int
		every  time.Duration
		text   string
		lost   bool
	}{
		"slowly":        {20, 100 * time.Millisecond, "line é\n", false},
		"fast":          {2000, time.Millisecond, "line é\n", false},
		"too_much":      {2000, time.Millisecond, strings.Repeat("é", 500), true},
		"large_at_once": {2, time.Second, strings.Repeat("é", wire.MaxOutputBytes), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var list []wire.Output
				var at []time.Time
				p := output.New(func(o wire.Output) { list, at = append(list, o), append(at, time.Now()) })
				for range c.prints {
					p.Add("stdout", c.text)
					time.Sleep(c.every) //nolint:forbidigo // in a bubble
				}
				p.Close()
				p.Add("stdout", "late")
				whole := strings.Repeat(c.text, c.prints)
				got, gaps, next := "", false, int64(1)
				for i, o := range list {
					if len(o.Text) > wire.MaxOutputBytes || whole[o.Offset:int(o.Offset)+len(o.Text)] != o.Text {
						t.Fatalf("piece %d at %d: got %.40q of %d bytes", i, o.Offset, o.Text, len(o.Text))
					}
					gaps = gaps || o.Seq != next
					got, next = got+o.Text, o.Seq+1
					if i >= 20 && at[i].Sub(at[i-20]) < time.Second-time.Millisecond && i < len(list)-6 {
						t.Fatalf("pieces %d to %d: got within %v, want a second at least", i-20, i, at[i].Sub(at[i-20]))
					}
				}
				if lost := got != whole; lost != c.lost || gaps != c.lost {
					t.Errorf("text: lost %v, gaps in the numbers %v, want %v", lost, gaps, c.lost)
				}
			})
		})
	}
}

// TestPacerOffsets shows a gap where another program lost text, and refuses an offset before the end.
func TestPacerOffsets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var list []wire.Output
		p := output.New(func(o wire.Output) { list = append(list, o) })
		for _, c := range []struct {
			at   int64
			text string
			want bool
		}{{0, "ab", true}, {2, "c", true}, {10, "d", true}, {0, "e", false}} {
			if got := p.AddAt("stdout", c.at, c.text); got != c.want {
				t.Errorf("%q at %d: got %v, want %v", c.text, c.at, got, c.want)
			}
		}
		p.Close()
		if got := fmt.Sprint(list); got != "[{1 0 stdout abc} {3 10 stdout d}]" {
			t.Errorf("pieces: got %s, want abc at 0, and d at 10 with a missing number", got)
		}
	})
}

// TestPacerDoesNotWait prints while a piece is not sent for long.
func TestPacerDoesNotWait(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	var once sync.Once
	p := output.New(func(wire.Output) { <-hold })
	defer p.Close()
	defer once.Do(func() { close(hold) })
	for range 10_000 { // a wait for the reader would have no end
		p.Add("stdout", "a line of text\n")
	}
}
