package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/external"
	"github.com/lash-go/lash/workers/prices"
	"github.com/lash-go/lash/workers/telemetry"
)

// telemetryFlags are the address of health and metrics, and the collector of traces.
type telemetryFlags struct {
	Ops       string  `help:"Address for /healthz, /readyz and /metrics (Prometheus). Off by default." placeholder:"HOST:PORT"`
	OTLP      string  `name:"otlp" help:"Export traces of turns to this OpenTelemetry collector, as OTLP over HTTP. OTEL_EXPORTER_OTLP_HEADERS and OTEL_RESOURCE_ATTRIBUTES count." placeholder:"URL" setting:""`
	OTLPRatio float64 `name:"otlp-ratio" help:"Part of the turns that are exported, 0 to 1; every node decides alike." default:"1" setting:""`
	Prices    string  `help:"File of what tokens cost, for the metrics: a JSON object as {\"date\": \"2026-03-31\", \"source\": \"our contract\", \"models\": [{\"provider\": \"openai\", \"names\": [\"gpt-5\"], \"input\": 1.25, \"cache_read\": 0.125, \"output\": 10}]}, in US dollars for a million tokens. It is read again when it changes. Without it the prices of the build count." placeholder:"FILE" type:"path" setting:""`
}

// watched is the telemetry of a node.
type watched struct {
	registry *prometheus.Registry
	metrics  *telemetry.Metrics
	spans    *telemetry.Spans // nil: not exported
	on       net.Listener     // nil: not served
	server   *telemetry.Server
	files    *rereader
	log      *zap.Logger
	priced   atomic.Pointer[prices.Prices]
}

// watch makes the telemetry and binds its address. It serves nothing yet.
func (f *telemetryFlags) watch(ctx context.Context, s *program.Streams, log *zap.Logger) (*watched, error) {
	w := &watched{registry: prometheus.NewRegistry(), files: &rereader{log: log}, log: log}
	err := f.export(ctx, s, w)
	if err == nil {
		err = f.prices(w)
	}
	if err == nil && f.Ops != "" {
		w.on, err = listen(ctx, "--ops", f.Ops)
	}
	if err != nil {
		w.stop()
		return nil, err
	}
	return w, nil
}

// export makes the metrics, and the span exporter where a collector is set.
func (f *telemetryFlags) export(ctx context.Context, s *program.Streams, w *watched) (err error) {
	if w.metrics, err = telemetry.NewMetrics(w.registry); err != nil {
		return err
	}
	err = errors.Join(w.registry.Register(collectors.NewGoCollector()), w.registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})))
	if err != nil || f.OTLP == "" {
		return err
	}
	if u, err := url.Parse(f.OTLP); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return errors.New("setting otlp: want the URL of a collector, as http://127.0.0.1:4318")
	}
	if f.OTLPRatio < 0 || f.OTLPRatio > 1 {
		return fmt.Errorf("setting otlp-ratio: %v, want 0 to 1", f.OTLPRatio)
	}
	headers := make(http.Header)
	for _, variable := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"} {
		if err := addHeaders(headers, s, variable); err != nil {
			return err
		}
	}
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "lash-node")), resource.WithFromEnv(), resource.WithHost(), resource.WithProcessPID())
	if err != nil {
		return fmt.Errorf("describe this node: %w", err)
	}
	w.spans = telemetry.NewSpans(telemetry.NewOTLP(strings.TrimSuffix(f.OTLP, "/")+"/v1/traces", headers), f.OTLPRatio, sdk.WithResource(about))
	return nil
}

// prices loads the prices of tokens into the metrics, where a file is set.
func (f *telemetryFlags) prices(w *watched) error {
	if f.Prices == "" {
		list, err := prices.Default()
		w.priced.Store(list)
		return err
	}
	return w.files.add("setting prices", func(contents [][]byte) error {
		list, err := prices.Parse(contents[0])
		if err == nil {
			w.metrics.SetPrices(list)
			w.priced.Store(list)
		}
		return err
	}, f.Prices)
}

// prices are the prices of tokens, for those that may read sessions.
func (w *watched) prices() json.RawMessage { return w.priced.Load().JSON() }

// addHeaders adds the headers that a variable lists, as the OpenTelemetry specification writes them: NAME=VALUE, the value
// percent-encoded, with commas between. Its errors have nothing of the values, which are credentials.
func addHeaders(to http.Header, s *program.Streams, variable string) error {
	headers := s.Env(variable)
	if headers == "" {
		return nil
	}
	for i, header := range strings.Split(headers, ",") {
		name, value, ok := strings.Cut(header, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil || !headerName.MatchString(name) || strings.ContainsAny(value, "\r\n\x00") {
			return fmt.Errorf("%s: entry %d: want NAME=VALUE, the value percent-encoded", variable, i+1)
		}
		to.Set(name, value)
	}
	return nil
}

var headerName = regexp.MustCompile("^[-!#$%&'*+.^_`|~0-9A-Za-z]+$")

// listen binds the address of a flag.
func listen(ctx context.Context, flag, address string) (net.Listener, error) {
	var listen net.ListenConfig
	on, err := listen.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: give it another address, whose port 0 is a free one", flag, err)
	}
	return on, nil
}

// trace passes each record to the metrics, the spans and also.
func (w *watched) trace(also session.TraceFunc) session.TraceFunc {
	return func(r api.TraceRecord) {
		w.metrics.Trace(r)
		if w.spans != nil {
			w.spans.Trace(r)
		}
		if also != nil {
			also(r)
		}
	}
}

// refusedConnection counts a connection that the HTTP server closed before a request on it was authenticated.
func (w *watched) refusedConnection(reason string) {
	if w.metrics != nil {
		w.metrics.RefusedConnection(reason)
	}
}

// addMetrics adds the metrics of the store, the node and its external plugins, which may be nil.
func (w *watched) addMetrics(b *bus.Bus, node *workers.Node, plugins *external.Plugins) error {
	err := w.registry.Register(telemetry.NewAssets(b, node.Running, node.Host().StoredByOwner))
	if plugins != nil && err == nil {
		err = errors.Join(w.registry.Register(telemetry.NewExternal(plugins.Status)), w.registry.Register(telemetry.NewDropped(plugins.Dropped)))
	}
	return err
}

// serve serves at the address, where one is set.
func (w *watched) serve(node *workers.Node, lacks func() string, s *program.Streams) {
	if len(w.files.sets) > 0 {
		w.files.start()
	}
	if w.on == nil {
		return
	}
	w.server = telemetry.Serve(w.on, w.registry, node.Ready, lacks)
	s.Printf("metrics on http://%s/metrics, for everyone who reaches that", w.server.Addr())
}

// stop exports the pending spans. It runs after the node has stopped.
func (w *watched) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second) // the command's context has ended
	defer cancel()
	w.files.stop()
	if w.server != nil {
		w.server.Stop(ctx)
	} else if w.on != nil {
		_ = w.on.Close() // it was not served
	}
	if w.spans != nil {
		if err := w.spans.Stop(ctx); err != nil {
			w.log.Warn("export traces", zap.Error(err))
		}
	}
}
