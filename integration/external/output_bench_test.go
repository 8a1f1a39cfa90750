package external

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/plugin/wire"
)

// linesPerSecond is the pace of the tool print.
const linesPerSecond = 2000

// BenchmarkSlowWatcher measures a call that prints 2 000 lines a second, with a watcher that reads and with one more that
// reads nothing. The call must not be slower for that. lost is what the reading one did not get of the text, in pieces. heap is what server, node and both watchers
// have in memory at the end of the call in addition to what they had before.
func BenchmarkSlowWatcher(b *testing.B) {
	for _, c := range []struct {
		size, seconds int
		lost          float64 // at most, in percent
	}{{40, 2, 0}, {1000, 2, 90}, {1000, 60, 90}} {
		b.Run(fmt.Sprintf("%d_bytes_a_line/%d_s", c.size, c.seconds), func(b *testing.B) {
			lines := c.seconds * linesPerSecond
			m := measure(b, "i1")
			var took [2][]time.Duration
			var pieces, text, heap, rounds float64
			for b.Loop() {
				for slow := range 2 {
					w := &workload{tool: "print", args: fmt.Sprintf(`{"lines":%d,"bytes":%d}`, lines, c.size), calls: 1, replies: 1}
					got := m.watched(w, slow == 1)
					took[slow] = append(took[slow], w.took...)
					if slow == 1 {
						rounds++
						pieces, text, heap = pieces+float64(got.pieces), text+float64(got.bytes), heap+float64(got.heap)
					}
				}
			}
			b.ReportMetric(p50(took[0])/1000, "call-ms")
			b.ReportMetric(p50(took[1])/1000, "with-slow-ms")
			m.goal("ratio", p50(took[1])/p50(took[0]), 1.2)
			m.goal("lost-%", 100-100*text/rounds/float64(lines*c.size), c.lost)
			m.goal("pieces", pieces/rounds, float64((c.seconds+2)*wire.OutputsPerSecond))
			m.goal("heap-KB", heap/rounds/1000, 128_000)
		})
	}
}

// watchedOutput is what a watcher got, and the memory at the end of the call.
type watchedOutput struct{ pieces, bytes, heap int64 }

// watched runs a turn that a watcher reads, and with slow one that stops to read, each on a connection of its own.
func (m *measured) watched(w *workload, slow bool) (got watchedOutput) {
	m.Helper()
	id := m.session(w)
	ctx, end := context.WithCancel(m.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer end()
	m.watch(ctx, &all, id, func(text string) {
		got.pieces++
		got.bytes += int64(len(text))
	})
	if slow {
		m.watch(ctx, &all, id, func(string) { <-ctx.Done() })
	}
	before := heap()
	check(m.B, m.turn(id))
	time.Sleep(100 * time.Millisecond) // the last piece is on its way
	after := heap()
	end()
	all.Wait()
	got.heap = after - before
	return got
}

// watch observes a session on a connection of its own, and returns when it has subscribed.
func (m *measured) watch(ctx context.Context, all *sync.WaitGroup, id events.SessionID, printed func(text string)) {
	m.Helper()
	h, err := session.New(session.Config{Bus: m.open(), Plugins: session.NoPlugins()})
	check(m.B, err)
	subscribed := make(chan struct{})
	var once sync.Once
	all.Go(func() {
		for seen, err := range h.Observe(ctx, id, 0) {
			once.Do(func() { close(subscribed) })
			if err == nil && seen.Delta != nil && seen.Delta.Output.Text != "" {
				printed(seen.Delta.Output.Text)
			}
		}
	})
	<-subscribed
}

// heap is the number of bytes that are in use after a collection.
func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
