package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lash-go/lash/session/api"
)

// external collects the state of plugins that run as programs of their own, as this node knows it.
type external struct {
	list                                   func() []api.ExternalPlugin
	instances, running, finished, failures *prometheus.Desc
}

// NewExternal creates a collector of the plugins of the list.
func NewExternal(list func() []api.ExternalPlugin) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("lash_plugin_"+name, help, append([]string{"plugin"}, labels...), nil)
	}
	return &external{
		list:      list,
		instances: desc("instances", "Programs of the plugin that live: ready for calls, draining, or of another version.", "state"),
		running:   desc("calls_running", "Calls that run in the plugin's living instances."),
		finished:  desc("calls_ended", "Calls that ended in the living instances since each of them started."),
		failures:  desc("calls_failed", "Of these, calls that failed."),
	}
}

// Describe implements [prometheus.Collector].
func (e *external) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{e.instances, e.running, e.finished, e.failures} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (e *external) Collect(to chan<- prometheus.Metric) {
	for _, p := range e.list() {
		states := map[string]int{"ready": 0, "draining": 0, "other_version": 0}
		var running, finished, failures int64
		for _, i := range p.Instances {
			states[i.State()]++
			running, finished, failures = running+i.Running, finished+i.Calls, failures+i.Failures
		}
		for state, n := range states {
			to <- prometheus.MustNewConstMetric(e.instances, prometheus.GaugeValue, float64(n), p.Name, state)
		}
		to <- prometheus.MustNewConstMetric(e.running, prometheus.GaugeValue, float64(running), p.Name)
		to <- prometheus.MustNewConstMetric(e.finished, prometheus.GaugeValue, float64(finished), p.Name)
		to <- prometheus.MustNewConstMetric(e.failures, prometheus.GaugeValue, float64(failures), p.Name)
	}
}

// dropped collects the messages of plugins that this node did not take.
type dropped struct {
	each func(yield func(plugin, reason string, n int64))
	desc *prometheus.Desc
}

// NewDropped creates a collector of what each yields.
func NewDropped(each func(yield func(plugin, reason string, n int64))) prometheus.Collector {
	return &dropped{each, prometheus.NewDesc("lash_plugin_dropped_total", "Messages of the plugin's programs that this node did not take, by reason.", []string{"plugin", "reason"}, nil)}
}

// Describe implements [prometheus.Collector].
func (d *dropped) Describe(to chan<- *prometheus.Desc) { to <- d.desc }

// Collect implements [prometheus.Collector].
func (d *dropped) Collect(to chan<- prometheus.Metric) {
	d.each(func(plugin, reason string, n int64) {
		to <- prometheus.MustNewConstMetric(d.desc, prometheus.CounterValue, float64(n), plugin, reason)
	})
}
