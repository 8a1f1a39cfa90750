package external

import (
	"maps"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lash-go/lash/events"
)

// mostCommits of a call: two, and room for one in ten that a busy machine splits.
const mostCommits = 2.1

// BenchmarkCall measures a tool call from the model's reply to the model's next request, beside raw requests to the same
// process, one after the other. It counts the commits of a call and its reply, with a model that answers at once and
// with one that takes 10 ms: results wait for a reply for a short time, and share its commit. The goals are two commits,
// and a time of eight raw requests.
func BenchmarkCall(b *testing.B) {
	for _, tool := range []string{"repeatable", "once"} {
		b.Run(tool, func(b *testing.B) {
			m := measure(b, "i1")
			m.alternating(tool, 20)
			var calls, raw []time.Duration
			for b.Loop() {
				c, r := m.alternating(tool, 1)
				calls, raw = append(calls, c...), append(raw, r...)
			}
			b.ReportMetric(p50(calls), "call-p50-µs")
			b.ReportMetric(p50(raw), "raw-p50-µs")
			m.goal("ratio", p50(calls)/p50(raw), 8)
			m.goal("commits/call", m.commits(tool, 0), mostCommits)
			m.goal("commits/call-10ms-model", m.commits(tool, 10*time.Millisecond), mostCommits)
		})
	}
}

// alternating measures turns of ten calls and raw requests, one after the other, so that both meet the same load.
func (m *measured) alternating(tool string, turns int) (calls, raw []time.Duration) {
	m.Helper()
	for range turns {
		w := &workload{tool: tool, args: `{}`, calls: 1, replies: 10, between: func(*workload) error {
			began := time.Now()
			err := m.raw("i1")
			raw = append(raw, time.Since(began))
			return err
		}}
		m.run(w)
		calls = append(calls, w.took...)
	}
	return calls, raw
}

// commits counts the commits of a call: those that 20 calls add to a turn.
func (m *measured) commits(tool string, think time.Duration) float64 {
	m.Helper()
	var last [2]events.Seq
	for i, replies := range []int{0, 20} {
		id := m.run(&workload{tool: tool, args: `{}`, calls: 1, replies: replies, between: func(*workload) error {
			time.Sleep(think)
			return nil
		}})
		var err error
		last[i], err = m.bus.Log().Last(m.Context(), id)
		check(m.B, err)
	}
	return float64(last[1]-last[0]) / 20
}

// BenchmarkCallsAtOnce measures calls a second, 64 at once over four processes, beside raw requests by 64 goroutines to
// the same processes: 64 calls in each reply of one turn, and 64 sessions with one call in each reply. raw-of-call is how
// many raw requests take the time of a call; least and most are the shares of the process with the fewest and the most
// calls.
func BenchmarkCallsAtOnce(b *testing.B) {
	const replies = 10
	instances := []string{"i1", "i2", "i3", "i4"}
	for name, c := range map[string]struct{ sessions, calls int }{"one_turn": {1, 64}, "sessions": {64, 1}} {
		for _, tool := range []string{"repeatable", "once"} {
			b.Run(name+"/"+tool, func(b *testing.B) {
				m := measure(b, instances...)
				runs := make(map[string]int)
				var calls, raw time.Duration
				round := func() {
					var loads []*workload
					var ids []events.SessionID
					for range c.sessions {
						w := &workload{tool: tool, args: `{}`, calls: c.calls, replies: replies}
						loads, ids = append(loads, w), append(ids, m.session(w))
					}
					calls += together(b, c.sessions, func(i int) error { return m.turn(ids[i]) })
					raw += together(b, 64, func(i int) error {
						for n := range replies {
							if err := m.raw(instances[(i+n)%len(instances)]); err != nil {
								return err
							}
						}
						return nil
					})
					for _, w := range loads {
						for id, n := range w.runs {
							runs[id] += n
						}
					}
				}
				round()
				clear(runs)
				calls, raw = 0, 0
				for b.Loop() {
					round()
				}
				sum := 0
				for _, n := range runs {
					sum += n
				}
				counts := slices.Sorted(maps.Values(runs))
				b.ReportMetric(float64(sum)/calls.Seconds(), "calls/s")
				b.ReportMetric(float64(sum)/raw.Seconds(), "raw/s")
				m.goal("raw-of-call", calls.Seconds()/raw.Seconds(), 40)
				b.ReportMetric(float64(counts[0])/float64(sum), "least")
				m.goal("most", float64(counts[len(counts)-1])/float64(sum), 0.35)
				if len(counts) != len(instances) {
					b.Errorf("calls ran on %d of %d instances", len(counts), len(instances))
				}
			})
		}
	}
}

// together runs n functions at once, and returns the time until the last one ends.
func together(b *testing.B, n int, run func(int) error) time.Duration {
	b.Helper()
	var all errgroup.Group
	began := time.Now()
	for i := range n {
		all.Go(func() error { return run(i) })
	}
	check(b, all.Wait())
	return time.Since(began)
}

// BenchmarkParallelCalls measures four calls of 100 ms in one reply, of a tool whose calls run at once and of a serial one.
func BenchmarkParallelCalls(b *testing.B) {
	m := measure(b, "i1")
	var took [2][]time.Duration
	for b.Loop() {
		for i, tool := range []string{"repeatable", "serial"} {
			w := &workload{tool: tool, args: `{"millis":100}`, calls: 4, replies: 1}
			m.run(w)
			took[i] = append(took[i], w.took...)
		}
	}
	b.ReportMetric(p50(took[0])/1000, "together-ms")
	b.ReportMetric(p50(took[1])/1000, "serial-ms")
	b.ReportMetric(p50(took[1])/p50(took[0]), "ratio")
}
