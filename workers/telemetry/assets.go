package telemetry

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lash-go/lash/bus"
)

// Running counts the turns and tasks that run on a node.
type Running func() (turns, tasks int)

// Stored returns the bytes that the sessions of each caller have; none where they are not counted.
type Stored func(ctx context.Context) (map[string]int64, error)

// assets collects the state of the servers when metrics are read.
type assets struct {
	b       *bus.Bus
	running Running
	stored  Stored

	mu   sync.Mutex
	at   time.Time // time of the last state
	is   bus.Stats
	most map[string]int64 // what callers have stored
	ok   bool

	ofCallers, up, waiting, held, again, delivered, dirty, archived, dead, streams, bytes, limit, conflicts, reconnects, work *prometheus.Desc
}

// fresh is the maximum age of that state: several scrapers share it.
const fresh = 2 * time.Second

// NewAssets creates a collector of the shared assets and of the node.
func NewAssets(b *bus.Bus, running Running, stored Stored) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("lash_"+name, help, labels, nil)
	}
	return &assets{
		b: b, running: running, stored: stored,
		ofCallers:  desc("stored_bytes", "Bytes of the sessions of a caller, bodies included, where the setting max-stored-per-caller limits them; of those that have the most.", "caller"),
		up:         desc("up", "Whether the servers answer this node: 1 or 0."),
		waiting:    desc("queue_waiting", "Wakes in the queue that no worker has.", "class"),
		held:       desc("queue_held", "Wakes that workers have.", "class"),
		again:      desc("queue_redelivered", "Held wakes that were delivered before: their worker went quiet or gave them back.", "class"),
		delivered:  desc("queue_deliveries_total", "Deliveries of wakes.", "class"),
		dirty:      desc("projection_dirty", "Sessions that moved and are not projected yet."),
		archived:   desc("sessions_archived", "Sessions of which something is archived."),
		dead:       desc("dead_letters", "Sessions that no node can read: lash-node dead ls."),
		streams:    desc("streams", "Streams of the account: hot sessions, and about ten shared ones."),
		bytes:      desc("storage_bytes", "Bytes that the account stores on disk."),
		limit:      desc("storage_limit_bytes", "Bytes that the account may store on disk; absent without a limit."),
		conflicts:  desc("append_conflicts_total", "Appends of this node that found the session moved."),
		reconnects: desc("reconnects_total", "Times that this node's connection to the servers came back."),
		work:       desc("running", "What this node is at work on.", "what"),
	}
}

func (a *assets) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		a.ofCallers, a.up, a.waiting, a.held, a.again, a.delivered, a.dirty, a.archived, a.dead, a.streams, a.bytes, a.limit, a.conflicts, a.reconnects, a.work,
	} {
		to <- d
	}
}

func (a *assets) Collect(to chan<- prometheus.Metric) {
	value := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	value(a.conflicts, prometheus.CounterValue, float64(a.b.Conflicts()))
	value(a.reconnects, prometheus.CounterValue, float64(a.b.Reconnects()))
	turns, tasks := a.running()
	value(a.work, prometheus.GaugeValue, float64(turns), "turns")
	value(a.work, prometheus.GaugeValue, float64(tasks), "tasks")
	s, ok := a.stats()
	if !ok {
		value(a.up, prometheus.GaugeValue, 0)
		return
	}
	value(a.up, prometheus.GaugeValue, 1)
	value(a.dirty, prometheus.GaugeValue, float64(s.Dirty))
	value(a.archived, prometheus.GaugeValue, float64(s.Archived))
	value(a.dead, prometheus.GaugeValue, float64(s.Dead))
	value(a.streams, prometheus.GaugeValue, float64(s.Streams))
	value(a.bytes, prometheus.GaugeValue, float64(s.Bytes))
	if s.Limit > 0 {
		value(a.limit, prometheus.GaugeValue, float64(s.Limit))
	}
	for caller, n := range a.most {
		value(a.ofCallers, prometheus.GaugeValue, float64(n), caller)
	}
	for class, q := range s.Queue {
		value(a.waiting, prometheus.GaugeValue, float64(q.Waiting), string(class))
		value(a.held, prometheus.GaugeValue, float64(q.AckPending), string(class))
		value(a.again, prometheus.GaugeValue, float64(q.Redelivered), string(class))
		value(a.delivered, prometheus.CounterValue, float64(q.Delivered), string(class))
	}
}

// mostOf keeps the largest values, as many as a label may have.
func mostOf(all map[string]int64) map[string]int64 {
	names := slices.SortedFunc(maps.Keys(all), func(x, y string) int { return cmp.Or(cmp.Compare(all[y], all[x]), cmp.Compare(x, y)) })
	most := make(map[string]int64)
	for _, name := range names[:min(len(names), maxNames)] {
		most[valid(name)] += all[name]
	}
	return most
}

func (a *assets) stats() (bus.Stats, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.at) < fresh {
		return a.is, a.ok
	}
	ctx, cancel := context.WithTimeout(context.Background(), fresh) // a scrape has no context
	defer cancel()
	is, err := a.b.Stats(ctx)
	all, failed := a.stored(ctx)
	a.at, a.is, a.most, a.ok = time.Now(), is, mostOf(all), err == nil && failed == nil
	return a.is, a.ok
}
