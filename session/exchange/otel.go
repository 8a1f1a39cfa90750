package exchange

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strconv"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// Losses of traces.
const (
	lostTexts   = "texts of messages, arguments and results: traces have none"
	lostOutside = "nodes and events outside of turns, and approvals, hooks and injected inputs"
	lostIdle    = "turns that did not start"
	lostSpans   = "calls and results whose turn or call the trace does not have"
)

// Kinds and states of spans in OTLP.
const (
	spanInternal = 1
	spanClient   = 3
	statusFailed = 2
)

// otelSpan is a span in OTLP's JSON.
type otelSpan struct {
	Trace  string     `json:"traceId"`
	ID     string     `json:"spanId"`
	Parent string     `json:"parentSpanId,omitempty"`
	Name   string     `json:"name"`
	Kind   int        `json:"kind"`
	Start  string     `json:"startTimeUnixNano"`
	End    string     `json:"endTimeUnixNano"`
	Tags   []otelTag  `json:"attributes"`
	Status otelStatus `json:"status"`
}

type otelStatus struct {
	Code    int    `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

type otelTag struct {
	Key   string    `json:"key"`
	Value otelValue `json:"value"`
}

type otelValue struct {
	Text  *string    `json:"stringValue,omitempty"`
	Whole *string    `json:"intValue,omitempty"` // OTLP writes 64 bits as text
	List  *otelArray `json:"arrayValue,omitempty"`
}

type otelArray struct {
	Values []otelValue `json:"values"`
}

// genAISchema names the conventions of the attributes: those of the repository semantic-conventions-genai, to which they moved from
// OpenTelemetry's own.
const genAISchema = "https://opentelemetry.io/schemas/gen-ai/1.42.0"

// OTel writes the session's turns as traces, in OTLP's JSON, with the names of OpenTelemetry's conventions for generative AI: a
// trace for each turn, with a span for the turn, for each model call and for each tool call. A collector takes the file at
// /v1/traces. Ids follow from the session and the effects, so a second export has the same.
func OTel(w io.Writer, d *Document) (*Losses, error) {
	t := &tracer{d: d, turns: make(map[events.TurnID]*tracedTurn), idle: make(map[events.TurnID]bool), lost: &Losses{}}
	for i := range d.Entries {
		t.entry(&d.Entries[i])
	}
	t.lost.AddN(lostIdle, len(t.idle))
	spans := []otelSpan{}
	for _, id := range t.order {
		spans = append(spans, t.turns[id].spans...)
	}
	type scope struct {
		Name string `json:"name"`
	}
	type scoped struct {
		Scope  scope      `json:"scope"`
		Spans  []otelSpan `json:"spans"`
		Schema string     `json:"schemaUrl"`
	}
	type resource struct {
		Tags []otelTag `json:"attributes"`
	}
	type traced struct {
		Resource resource `json:"resource"`
		Scopes   []scoped `json:"scopeSpans"`
	}
	line, err := encode(struct {
		Resources []traced `json:"resourceSpans"`
	}{[]traced{{resource{[]otelTag{text("service.name", "lash")}}, []scoped{{scope{"lash-replay"}, spans, genAISchema}}}}})
	if err == nil {
		_, err = w.Write(line)
	}
	return t.lost, err
}

// tracedTurn is a turn's trace: its first span is the turn's.
type tracedTurn struct {
	spans []otelSpan
	calls []tracedCall // of the newest reply
}

type tracedCall struct {
	id   events.CallID
	tool string
}

type tracer struct {
	d     *Document
	turns map[events.TurnID]*tracedTurn
	order []events.TurnID
	idle  map[events.TurnID]bool // turns that have not started
	lost  *Losses
}

func (t *tracer) entry(e *Entry) {
	if e.Reply != nil {
		t.reply(e)
	}
	if e.Node != nil {
		t.lost.Add(lostTexts)
		return
	}
	if e.Event == nil {
		return
	}
	switch p := e.Event.Payload.(type) {
	case *events.TurnStarted:
		t.begin(e)
	case *events.TurnCompleted:
		t.end(e, p)
	case *events.ToolReturned:
		t.results(e, p)
	case *events.ModelFailed:
		tags := []otelTag{text("error.type", p.Error), text("gen_ai.operation.name", "chat"), text("gen_ai.provider.name", p.Provider), text("gen_ai.request.model", p.Model)}
		t.add(e, "chat "+p.Model, spanClient, "model/"+strconv.FormatInt(p.Iteration, 10)+"/failed", 0, tags, p.Message)
	case *events.TurnRequested:
		if t.turns[e.Turn] == nil {
			t.idle[e.Turn] = true
		}
	case *events.ModelReplied:
	default:
		t.lost.Add(lostOutside)
	}
}

// begin starts the trace of a turn. A takeover continues it.
func (t *tracer) begin(e *Entry) {
	if t.turns[e.Turn] != nil {
		return
	}
	one := &tracedTurn{}
	t.turns[e.Turn] = one
	delete(t.idle, e.Turn)
	t.order = append(t.order, e.Turn)
	one.spans = []otelSpan{{
		Trace: t.id(16, e.Turn, "trace"), ID: t.id(8, e.Turn, "turn"), Name: "invoke_agent", Kind: spanInternal, Start: nanos(e.At), End: nanos(e.At),
		Tags: []otelTag{text("gen_ai.operation.name", "invoke_agent"), text("gen_ai.conversation.id", string(t.d.Session)), text("lash.turn", string(e.Turn))},
	}}
}

func (t *tracer) end(e *Entry, p *events.TurnCompleted) {
	one := t.turns[e.Turn]
	if one == nil {
		t.idle[e.Turn] = true
		return
	}
	root := &one.spans[0]
	root.End = nanos(e.At)
	root.Tags = append(root.Tags, text("lash.end", string(p.End)))
	if p.End.Stopped() && p.End != events.EndCancelled {
		root.Status = otelStatus{statusFailed, p.Issue.Message}
		root.Tags = append(root.Tags, text("error.type", string(p.End)))
	}
}

// id derives an id of n bytes.
func (t *tracer) id(n int, turn events.TurnID, name string) string {
	sum := sha256.Sum256([]byte(string(t.d.Session) + "\x00" + string(turn) + "\x00" + name))
	return hex.EncodeToString(sum[:n])
}

// add adds a span that ends with its event.
func (t *tracer) add(e *Entry, name string, kind int, id string, millis int64, tags []otelTag, failure string) {
	one := t.turns[e.Turn]
	if one == nil {
		t.lost.Add(lostSpans)
		return
	}
	span := otelSpan{
		Trace: one.spans[0].Trace, ID: t.id(8, e.Turn, id), Parent: one.spans[0].ID, Name: strings.TrimSpace(name), Kind: kind,
		Start: nanos(e.At - events.Millis(max(millis, 0))), End: nanos(e.At), Tags: append(tags, text("gen_ai.conversation.id", string(t.d.Session))),
	}
	if failure != "" {
		span.Status = otelStatus{statusFailed, failure}
	}
	one.spans = append(one.spans, span)
}

func (t *tracer) reply(e *Entry) {
	r := e.Reply
	tags := []otelTag{
		text("gen_ai.operation.name", "chat"), text("gen_ai.provider.name", r.Provider), text("gen_ai.response.model", r.Model),
		list("gen_ai.response.finish_reasons", finish(r.Stop)), whole("lash.iteration", r.Iteration),
	}
	if !r.Usage.IsZero() {
		tags = append(tags, whole("gen_ai.usage.input_tokens", r.Usage.Input+r.Usage.CacheRead+r.Usage.CacheWrite), whole("gen_ai.usage.output_tokens", r.Usage.Output))
		for _, part := range []struct {
			name string
			n    int64
		}{{"cache_read.input_tokens", r.Usage.CacheRead}, {"cache_creation.input_tokens", r.Usage.CacheWrite}, {"reasoning.output_tokens", r.Usage.Reasoning}} {
			if part.n > 0 {
				tags = append(tags, whole("gen_ai.usage."+part.name, part.n))
			}
		}
	}
	failure := ""
	if r.Stop == events.StopProviderError || r.Stop == events.StopContextOverflow {
		failure = string(r.Stop) + " " + r.Detail
		tags = append(tags, text("error.type", string(r.Stop)))
	}
	t.add(e, "chat "+r.Model, spanClient, string(projector.ReplyMessage(e.Turn, r.Iteration)), r.Millis, tags, failure)
	if one := t.turns[e.Turn]; one != nil {
		one.calls = nil
		for i := range r.Parts {
			if p := &r.Parts[i]; p.Kind == events.PartToolCall {
				one.calls = append(one.calls, tracedCall{p.Call, p.Tool})
			}
		}
	}
}

func (t *tracer) results(e *Entry, p *events.ToolReturned) {
	one := t.turns[e.Turn]
	for i := range p.Results {
		r := &p.Results[i]
		if one == nil || r.Call >= int64(len(one.calls)) {
			t.lost.Add(lostSpans)
			continue
		}
		call := one.calls[r.Call]
		tags := []otelTag{
			text("gen_ai.operation.name", "execute_tool"), text("gen_ai.tool.name", call.tool), text("gen_ai.tool.type", "function"),
			text("gen_ai.tool.call.id", string(call.id)),
		}
		failure := ""
		if r.Outcome != events.OutcomeSuccess {
			failure = strings.TrimSpace(string(r.Outcome) + " " + r.Class + " " + r.Code)
			tags = append(tags, text("error.type", string(r.Outcome)))
		}
		t.add(e, "execute_tool "+call.tool, spanInternal, "call/"+strconv.FormatInt(p.Iteration, 10)+"/"+strconv.FormatInt(r.Call, 10), r.Millis, tags, failure)
	}
}

// finish is a stop reason in the terms of the conventions.
func finish(s events.StopReason) string {
	switch s { //nolint:exhaustive // the others have the same name
	case events.StopToolUse:
		return "tool_calls"
	case events.StopOutputLimit:
		return "length"
	}
	return string(s)
}

func text(key, value string) otelTag { return otelTag{key, otelValue{Text: &value}} }

func list(key string, values ...string) otelTag {
	all := &otelArray{}
	for _, v := range values {
		all.Values = append(all.Values, otelValue{Text: &v})
	}
	return otelTag{key, otelValue{List: all}}
}

func whole(key string, n int64) otelTag {
	return otelTag{key, otelValue{Whole: new(strconv.FormatInt(n, 10))}}
}

func nanos(at events.Millis) string { return strconv.FormatInt(int64(at), 10) + "000000" }
