package external

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external/internal/rate"
	"github.com/lash-go/lash/workers/telemetry"
)

// TestDroppedAreCounted sends messages that a node does not take. /metrics has each of them by its reason, and none of those
// that it takes.
func TestDroppedAreCounted(t *testing.T) {
	t.Parallel()
	p, err := New(Config{Bus: bustest.Start(t), Plugins: []Plugin{{Name: "notes"}, {Name: "quiet"}, {Name: "twins"}}})
	if err != nil {
		t.Fatal(err)
	}
	p.registry.Sign("notes", "i0", []byte(`{}`))
	p.registry.Sign("notes", "i0", []byte(`{"machine":"`+strings.Repeat("x", wire.MaxSignBytes)+`"}`))
	p.registry.Sign("notes", "i0", []byte(`{"calls":-1}`))
	p.registry.Sign("notes", "i0", []byte(`{`))
	p.registry.Sign("notes", "a b", []byte(`{}`))
	p.registry.Sign("nobody", "i0", []byte(`{`))
	for i := range 1024 + 3 {
		p.registry.Sign("notes", fmt.Sprint("i", i), []byte(`{}`))
	}
	for _, term := range []string{"01M8C0HDK518FA2NJ1EQ642449", "01M8C0HDK518FA2NJ1EQ642448"} {
		p.registry.Sign("twins", "i0", []byte(`{"term":"`+term+`"}`))
	}
	shown := 0
	o := &instanceCall{p: p, plugin: "notes", limits: rate.NewCall()}
	o.call.Run.Output = func(string, int64, string) { shown++ }
	o.printed(&wire.Output{Text: "x"})
	o.printed(&wire.Output{Offset: -1, Text: "x"})
	taken := 0
	for _, data := range []string{`{}`, `{"output":5}`, `not JSON`, `{"output":{"text":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}}`} {
		_, overLimit, ok := o.parse([]byte(data))
		if overLimit != nil {
			_ = o.handleOverLimit("i0", []byte(data), overLimit)
		} else if ok {
			taken++
		}
	}
	sent := 0
	for o.limits.Answer(0) == nil {
		sent++
	}
	if _, _, ok := o.parse([]byte(`{}`)); ok || sent == 0 || taken != 1 || shown != 1 {
		t.Errorf("got taken %t, %d, %d, %d", ok, sent, taken, shown)
	}
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(telemetry.NewExternal(p.Status), telemetry.NewDropped(p.Dropped))
	w := httptest.NewRecorder()
	promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for reason, n := range map[string]int{
		"sign_too_large": 1, "sign_invalid": 3, "sign_too_many": 3, "sign_other": 0, "answer_malformed": 2, "answer_too_deep": 1, "answer_rate": 1, "output_refused": 1,
		"callback_rate": 0,
	} {
		for plugin, n := range map[string]int{"notes": n, "quiet": 0} {
			if want := fmt.Sprintf("lash_plugin_dropped_total{plugin=%q,reason=%q} %d\n", plugin, reason, n); !strings.Contains(w.Body.String(), want) {
				t.Errorf("got no %s", want)
			}
		}
	}
	if want := `lash_plugin_dropped_total{plugin="twins",reason="sign_other"} 1` + "\n"; !strings.Contains(w.Body.String(), want) {
		t.Errorf("got no %s", want)
	}
	if t.Failed() {
		t.Log(w.Body.String())
	}
}
