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
