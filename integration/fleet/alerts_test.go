package fleet

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/telemetry"
)

// alertOf is the form of the guide's expressions: the largest value of a series for each plugin, and a limit.
var alertOf = regexp.MustCompile("\\| `max by \\(plugin\\) \\((\\w+)\\{state=\"(\\w+)\"\\}\\) (==|>) (\\d+)` ")

// failingOf is the form of the guide's expression for calls: two series grow equally, and do grow.
var failingOf = regexp.MustCompile("\\| `max by \\(plugin\\) \\(delta\\((\\w+)\\[\\w+\\]\\)\\) == max by \\(plugin\\) \\(delta\\((\\w+)\\[\\w+\\]\\)\\) > 0` ")

// valuesOf are the values of a metric by plugin.
func valuesOf(t *testing.T, reg *prometheus.Registry, metric string) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	harness.WantError(t, "gather", err, nil)
	by := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == metric {
				by[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
	}
	return by
}

// TestFailingCallsAlert evaluates the expression of the guide's alert for calls before and after calls of some plugins: it
// fires for the plugin of which each call failed.
func TestFailingCallsAlert(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../deploy/nats/OPERATING.md")
	harness.WantError(t, "read", err, nil)
	found := failingOf.FindAllStringSubmatch(string(guide), -1)
	if len(found) != 1 {
		t.Fatalf("expressions of the guide: got %d, want one", len(found))
	}
	counts := map[string][2]int64{"fails": {7, 2}, "some": {7, 2}, "fine": {7, 2}, "quiet": {5, 5}, "restarted": {9, 9}} // calls and failures
	reg := prometheus.NewRegistry()
	harness.WantError(t, "register", reg.Register(telemetry.NewExternal(func() (list []api.ExternalPlugin) {
		for name, n := range counts {
			list = append(list, api.ExternalPlugin{Name: name, Instances: []api.PluginInstance{
				{ID: "a", Current: true, Calls: n[0], Failures: n[1]}, {ID: "b", Calls: 1}, // all instances count
			}})
		}
		return list
	})), nil)
	left, right := valuesOf(t, reg, found[0][1]), valuesOf(t, reg, found[0][2])
	counts = map[string][2]int64{"fails": {10, 5}, "some": {10, 4}, "fine": {10, 2}, "quiet": {5, 5}, "restarted": {0, 0}}
	leftNow, rightNow := valuesOf(t, reg, found[0][1]), valuesOf(t, reg, found[0][2])
	var firing []string
	for plugin := range counts {
		if grown := leftNow[plugin] - left[plugin]; grown == rightNow[plugin]-right[plugin] && grown > 0 {
			firing = append(firing, plugin)
		}
	}
	harness.EqualLists(t, "plugins that the alert fires for", firing, []string{"fails"})
}

// TestPluginAlerts evaluates the expressions of the guide's alerts for plugins in each state: they fire for those that the
// guide means, and for no other one.
func TestPluginAlerts(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../deploy/nats/OPERATING.md")
	harness.WantError(t, "read", err, nil)
	reg := prometheus.NewRegistry()
	instances := func(list ...api.PluginInstance) []api.PluginInstance { return list }
	harness.WantError(t, "register", reg.Register(telemetry.NewExternal(func() []api.ExternalPlugin {
		return []api.ExternalPlugin{
			{Name: "none"},
			{Name: "serves", Instances: instances(api.PluginInstance{ID: "a", Current: true})},
			{Name: "drains", Instances: instances(api.PluginInstance{ID: "b", Current: true, Draining: true})},
			{Name: "old", Instances: instances(api.PluginInstance{ID: "c"})},
			{Name: "both", Instances: instances(api.PluginInstance{ID: "d", Current: true}, api.PluginInstance{ID: "e"})},
		}
	})), nil)
	families, err := reg.Gather()
	harness.WantError(t, "gather", err, nil)
	largest := func(metric, state string) map[string]float64 {
		by := make(map[string]float64)
		for _, f := range families {
			for _, m := range f.GetMetric() {
				labels := make(map[string]string)
				for _, l := range m.GetLabel() {
					labels[l.GetName()] = l.GetValue()
				}
				if f.GetName() == metric && labels["state"] == state {
					by[labels["plugin"]] = max(by[labels["plugin"]], m.GetGauge().GetValue())
				}
			}
		}
		return by
	}
	got := make(map[string]string)
	for _, a := range alertOf.FindAllStringSubmatch(string(guide), -1) {
		limit, err := strconv.ParseFloat(a[4], 64)
		harness.WantError(t, "limit", err, nil)
		var firing []string
		for plugin, value := range largest(a[1], a[2]) {
			if a[3] == "==" && value == limit || a[3] == ">" && value > limit {
				firing = append(firing, plugin)
			}
		}
		slices.Sort(firing)
		got[a[2]] = strings.Join(firing, " ")
	}
	if want := map[string]string{"ready": "drains none old", "other_version": "both old"}; !maps.Equal(got, want) {
		t.Errorf("plugins by alert: got %v, want %v", got, want)
	}
}
