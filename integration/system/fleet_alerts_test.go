package system

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/telemetry"
)

// alertOf is the form of expressions about instances: the largest value of a series for each plugin, and a limit.
var alertOf = regexp.MustCompile(`^max by \(tenant, plugin\) \((\w+)\{state="(\w+)"\}\) (==|>) (\d+)$`)

// failingOf is the form of the expression for calls: two series grow equally, and do grow.
var failingOf = regexp.MustCompile(`^max by \(tenant, plugin\) \(delta\((\w+)\[\w+\]\)\) == max by \(tenant, plugin\) \(delta\((\w+)\[\w+\]\)\) > 0$`)

// alerts are the expressions of the shipped rules, by alert.
func alerts(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile("../../deploy/prometheus/alerts.yml")
	runtest.WantError(t, "read", err, nil)
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	in := yaml.NewDecoder(bytes.NewReader(data))
	in.KnownFields(true)
	runtest.WantError(t, "parse", in.Decode(&file), nil)
	list := make(map[string]string)
	for _, r := range file.Groups[0].Rules {
		if list[r.Alert] != "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
			t.Errorf("%s: got %+v, want one rule with a severity and a summary", r.Alert, r)
		}
		list[r.Alert] = r.Expr
	}
	return list
}

// TestSmokeAlertRules compares the shipped rules with the guide's table of alerts and with the metrics of nodes.
func TestSmokeAlertRules(t *testing.T) {
	t.Parallel()
	rules, metrics := alerts(t), registered(t)
	guide, err := os.ReadFile("../../deploy/nats/OPERATING.md")
	runtest.WantError(t, "read", err, nil)
	var named []string
	for _, m := range regexp.MustCompile("`(Lash[A-Za-z]+)`").FindAllStringSubmatch(string(guide), -1) {
		named = append(named, m[1])
	}
	slices.Sort(named)
	runtest.EqualLists(t, "alerts of the guide", named, slices.Sorted(maps.Keys(rules)))
	for alert, expr := range rules {
		names := regexp.MustCompile(`\blash_\w+`).FindAllString(expr, -1)
		for _, name := range names {
			if !slices.Contains(metrics, name) {
				t.Errorf("%s: asks for %s, which no node has", alert, name)
			}
		}
		if len(names) == 0 {
			t.Errorf("%s: got %s, want a metric of nodes", alert, expr)
		}
	}
}

// TestAlertRulesRun has promtool check the rules, and run their tests.
func TestAlertRulesRun(t *testing.T) {
	t.Parallel()
	runtest.Tools(t, map[string]string{"promtool": "prometheus"}, "promtool")
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}} {
		cmd := exec.CommandContext(t.Context(), "promtool", args...)
		cmd.Dir = "../../deploy/prometheus"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// registered are the names of all metrics of a node, whether or not they have a series yet.
func registered(t *testing.T) (list []string) {
	t.Helper()
	reg := prometheus.NewRegistry()
	_, err := telemetry.NewMetrics(reg)
	runtest.WantError(t, "register", err, nil)
	runtest.WantError(t, "register", reg.Register(telemetry.NewAssets(nil, nil, nil)), nil)
	runtest.WantError(t, "register", reg.Register(telemetry.NewExternal(nil)), nil)
	runtest.WantError(t, "register", reg.Register(telemetry.NewDropped(nil)), nil)
	descs := make(chan *prometheus.Desc)
	go func() { reg.Describe(descs); close(descs) }()
	for d := range descs {
		name := regexp.MustCompile(`fqName: "(\w+)"`).FindStringSubmatch(d.String())
		list = append(list, name[1])
	}
	slices.Sort(list)
	return list
}

// TestMetricsOfGuide compares the guide's table of metrics with those that a node registers: each is in the other.
func TestMetricsOfGuide(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../deploy/nats/OPERATING.md")
	runtest.WantError(t, "read", err, nil)
	_, table, _ := strings.Cut(string(guide), "\n| metric | shows |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var named []string
	for line := range strings.Lines(table) {
		cell, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		for _, m := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(cell, -1) {
			named = append(named, m[1])
		}
	}
	slices.Sort(named)
	runtest.EqualLists(t, "metrics of the guide", named, registered(t))
}

// valuesOf are the values of a metric by plugin.
func valuesOf(t *testing.T, reg *prometheus.Registry, metric string) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	runtest.WantError(t, "gather", err, nil)
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

// TestFailingCallsAlert evaluates the expression of the alert for calls before and after calls of some plugins: it
// fires for the plugin of which each call failed.
func TestFailingCallsAlert(t *testing.T) {
	t.Parallel()
	found := failingOf.FindStringSubmatch(alerts(t)["LashPluginFails"])
	if found == nil {
		t.Fatal("the rule LashPluginFails has another form")
	}
	counts := map[string][2]int64{"fails": {7, 2}, "some": {7, 2}, "fine": {7, 2}, "quiet": {5, 5}, "restarted": {9, 9}} // calls and failures
	reg := prometheus.NewRegistry()
	runtest.WantError(t, "register", reg.Register(telemetry.NewExternal(func() (list []api.ExternalPlugin) {
		for name, n := range counts {
			list = append(list, api.ExternalPlugin{Name: name, Instances: []api.PluginInstance{
				{ID: "a", Current: true, Calls: n[0], Failures: n[1]}, {ID: "b", Calls: 1}, // all instances count
			}})
		}
		return list
	})), nil)
	left, right := valuesOf(t, reg, found[1]), valuesOf(t, reg, found[2])
	counts = map[string][2]int64{"fails": {10, 5}, "some": {10, 4}, "fine": {10, 2}, "quiet": {5, 5}, "restarted": {0, 0}}
	leftNow, rightNow := valuesOf(t, reg, found[1]), valuesOf(t, reg, found[2])
	var firing []string
	for plugin := range counts {
		if grown := leftNow[plugin] - left[plugin]; grown == rightNow[plugin]-right[plugin] && grown > 0 {
			firing = append(firing, plugin)
		}
	}
	runtest.EqualLists(t, "plugins that the alert fires for", firing, []string{"fails"})
}

// TestPluginAlerts evaluates the expressions of the alerts for plugins in each state: they fire for those that the
// guide means, and for no other one.
func TestPluginAlerts(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	instances := func(list ...api.PluginInstance) []api.PluginInstance { return list }
	runtest.WantError(t, "register", reg.Register(telemetry.NewExternal(func() []api.ExternalPlugin {
		return []api.ExternalPlugin{
			{Name: "none"},
			{Name: "serves", Instances: instances(api.PluginInstance{ID: "a", Current: true})},
			{Name: "drains", Instances: instances(api.PluginInstance{ID: "b", Current: true, Draining: true})},
			{Name: "old", Instances: instances(api.PluginInstance{ID: "c"})},
			{Name: "both", Instances: instances(api.PluginInstance{ID: "d", Current: true}, api.PluginInstance{ID: "e"})},
		}
	})), nil)
	families, err := reg.Gather()
	runtest.WantError(t, "gather", err, nil)
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
	for _, expr := range alerts(t) {
		a := alertOf.FindStringSubmatch(expr)
		if a == nil {
			continue // of no plugin's instances
		}
		limit, err := strconv.ParseFloat(a[4], 64)
		runtest.WantError(t, "limit", err, nil)
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
