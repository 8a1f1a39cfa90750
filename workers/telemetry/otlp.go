package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/lash-go/lash/bus/delay"
)

const (
	firstExportWait = 100 * time.Millisecond
	maxExportWait   = 5 * time.Second
	exportTimeout   = 10 * time.Second // of one request
	maxExportAnswer = 64 << 10
	// maxExportSeconds is more than the time of any export, and a time.Duration.
	maxExportSeconds = 3600
)

// NewOTLP is an exporter that sends spans to url as OTLP over HTTP, in binary. Each request has the headers, which follow no
// redirect. It repeats what the protocol calls retryable until the context of the export ends. Its errors have nothing of what a collector answers:
// some collectors echo the headers of a request, with their credentials. Source: the OTLP specification 1.11, "OTLP/HTTP".
func NewOTLP(url string, headers http.Header) sdk.SpanExporter {
	client := &http.Client{Timeout: exportTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	e := otlptrace.NewUnstarted(&collector{url: url, headers: headers, client: client})
	_ = e.Start(context.Background()) // there is nothing to start; an exporter that is not started does not stop
	return e
}

// collector is the client of the exporter.
type collector struct {
	url     string
	headers http.Header
	client  *http.Client
}

func (c *collector) Start(context.Context) error { return nil }

func (c *collector) Stop(context.Context) error {
	c.client.CloseIdleConnections()
	return nil
}

// UploadTraces sends spans. TracesData has the bytes of an ExportTraceServiceRequest, whose package needs gRPC.
func (c *collector) UploadTraces(ctx context.Context, spans []*otlp.ResourceSpans) error {
	body, err := proto.Marshal(&otlp.TracesData{ResourceSpans: spans})
	if err != nil {
		return fmt.Errorf("encode spans: %w", err)
	}
	for try := 1; ; try++ {
		wait, err := c.send(ctx, body)
		if err == nil || wait < 0 || !delay.Sleep(ctx, max(wait, delay.Backoff(firstExportWait, maxExportWait, try))) {
			return err
		}
	}
}

// send sends one request. Where it fails, wait is what the collector requests before the next one, or negative: there is none.
func (c *collector) send(ctx context.Context, body []byte) (wait time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return -1, err
	}
	for name, values := range c.headers {
		r.Header[name] = values
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set("User-Agent", "lash-node")
	answer, err := c.client.Do(r)
	if err != nil {
		return 0, fmt.Errorf("send spans: %w", err)
	}
	defer answer.Body.Close() //nolint:errcheck // read
	said, _ := io.ReadAll(io.LimitReader(answer.Body, maxExportAnswer))
	switch answer.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		if n := rejected(said); n > 0 {
			return -1, fmt.Errorf("send spans to %s: the collector rejected %d of them", r.URL.Redacted(), n)
		}
		return 0, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After")) // the largest number where there are more digits
		wait = time.Duration(min(max(seconds, 0), maxExportSeconds)) * time.Second
	default:
		wait = -1
	}
	return wait, fmt.Errorf("send spans to %s: %w", r.URL.Redacted(), errors.New(answer.Status))
}

// rejected is the number of spans that an ExportTraceServiceResponse rejects: field 1, partial_success, has it as its field 1.
func rejected(response []byte) int64 {
	success, _ := field(response, 1, protowire.BytesType)
	partial, _ := protowire.ConsumeBytes(success)
	value, ok := field(partial, 1, protowire.VarintType)
	n, size := protowire.ConsumeVarint(value)
	if !ok || size < 0 {
		return 0
	}
	return int64(n) //nolint:gosec // an int64 in the protocol
}

// field is the rest of a message from the value of a field on.
func field(message []byte, want protowire.Number, as protowire.Type) ([]byte, bool) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil, false
		}
		if message = message[n:]; number == want && kind == as {
			return message, true
		}
		if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return nil, false
		}
		message = message[n:]
	}
	return nil, false
}
