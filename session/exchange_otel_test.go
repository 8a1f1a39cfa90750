package session_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/exchange"
)

// TestOTel reads the traces with OTLP's own schema, in which an unknown field is an error, and checks the tree of spans.
func TestOTel(t *testing.T) {
	t.Parallel()
	got, lost := written(t, exchange.OTel)
	ids := regexp.MustCompile(`"(traceId|spanId|parentSpanId)":"([0-9a-f]+)"`) // text is hex in OTLP's JSON, and base64 in that of protobuf
	asProto := ids.ReplaceAllStringFunc(got, func(s string) string {
		m := ids.FindStringSubmatch(s)
		id, err := hex.DecodeString(m[2])
		runtest.NoError(t, err)
		return `"` + m[1] + `":"` + base64.StdEncoding.EncodeToString(id) + `"`
	})
	var data tracepb.TracesData
	if err := protojson.Unmarshal([]byte(asProto), &data); err != nil {
		t.Fatalf("traces: got %v, want OTLP: %s", err, got)
	}
	spans := data.ResourceSpans[0].ScopeSpans[0].Spans
	names, root := map[string]int{}, spans[0]
	for i, s := range spans {
		names[s.Name]++
		if len(s.TraceId) != 16 || len(s.SpanId) != 8 || string(s.TraceId) != string(root.TraceId) || s.StartTimeUnixNano > s.EndTimeUnixNano {
			t.Errorf("span %d: got %v, want one of the turn's trace that ends after it starts", i, s)
		}
		if (i == 0) != (len(s.ParentSpanId) == 0) || i > 0 && string(s.ParentSpanId) != string(root.SpanId) {
			t.Errorf("parent of span %d, %s: got %x, want the turn's span", i, s.Name, s.ParentSpanId)
		}
		tags := map[string]bool{}
		for _, a := range s.Attributes {
			tags[a.Key] = true
		}
		if !tags["gen_ai.operation.name"] || !tags["gen_ai.conversation.id"] {
			t.Errorf("attributes of %s: got %v, want operation and conversation", s.Name, tags)
		}
	}
	if names["invoke_agent"] != 1 || names["execute_tool look"] != 1 || len(spans) != 4 {
		t.Errorf("spans: got %v, want the turn, its model call and its two tool calls", names)
	}
	if lost["texts of messages, arguments and results: traces have none"] == 0 {
		t.Errorf("losses: got %v, want the texts", lost)
	}
	if !json.Valid([]byte(got)) {
		t.Error("traces: got no JSON")
	}
}
