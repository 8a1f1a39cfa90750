package registry

import (
	"encoding/json"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external/internal/setting"
	"github.com/lash-go/lash/workers/telemetry"
)

// TestSigns sends signs of life with any ids and counts. A node lists instances with a token as their id, which is not the one of all
// instances, and the sums in its metrics are not negative.
func TestSigns(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, err := New(nil, zap.NewNop(), []setting.Plugin{{Name: "notes"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		count := rapid.SampledFrom([]int64{0, 1, wire.MaxCount, wire.MaxCount + 1, 1<<63 - 1, -1, -1 << 63})
		for range rapid.IntRange(1, 20).Draw(t, "signs") {
			data, err := json.Marshal(&wire.Sign{Running: count.Draw(t, "running"), Calls: count.Draw(t, "calls"), Failures: count.Draw(t, "failures")})
			if err != nil {
				t.Fatal(err)
			}
			p.Sign("notes", rapid.SampledFrom([]string{wire.All, "i1", "i2", "", "a.b", "a b"}).Draw(t, "id"), data)
		}
		var most float64
		for _, i := range p.Status()[0].Instances {
			if i.ID == wire.All || events.CheckToken("id", i.ID) != nil {
				t.Errorf("instance %q is listed", i.ID)
			}
			most += wire.MaxCount
		}
		metrics := prometheus.NewRegistry()
		metrics.MustRegister(telemetry.NewExternal(p.Status))
		families, err := metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			for _, m := range family.GetMetric() {
				if v := m.GetGauge().GetValue(); v < 0 || v > max(most, 2) {
					t.Errorf("%s: got %g, want 0 to %g", family.GetName(), v, most)
				}
			}
		}
	})
}
