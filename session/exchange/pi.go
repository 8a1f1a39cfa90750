package exchange

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/lash-go/lash/events"
)

// Losses of pi's sessions, in addition to those of chats.
const (
	lostSystem  = "system messages"
	lostSpaces  = "spaces in the arguments of calls"
	lostForeign = "arguments of calls that are no JSON objects, kept as text"
	lostKinds   = "attachments that are no pictures, or pictures by their address"
	lostOrigin  = "which plugin wrote a message"
	lostLost    = "that a call is lost or cancelled, and not failed"
)

// piHeader is the first line of a session file of pi.
type piHeader struct {
	Type      string `json:"type"`
	Version   int    `json:"version"`
	ID        string `json:"id"`
	Timestamp string `json:"timestamp"`
	CWD       string `json:"cwd"` // empty: where pi is started
}

// piEntry is a line behind the header. pi reads some fields without a look whether they are there, so these are always written.
type piEntry struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	ParentID  *string         `json:"parentId"` // nil: the first entry
	Timestamp string          `json:"timestamp"`
	Provider  string          `json:"provider,omitempty"`
	ModelID   string          `json:"modelId,omitempty"`
	Thinking  string          `json:"thinkingLevel,omitempty"`
	Summary   *string         `json:"summary,omitempty"`
	FirstKept string          `json:"firstKeptEntryId,omitempty"`
	Before    *int64          `json:"tokensBefore,omitempty"`
	Custom    string          `json:"customType,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`
	Message   *piMessage      `json:"message,omitempty"`
}

type piMessage struct {
	Role      string            `json:"role"`
	Content   []json.RawMessage `json:"content"`
	CallID    *string           `json:"toolCallId,omitempty"`
	Tool      string            `json:"toolName,omitempty"`
	IsError   *bool             `json:"isError,omitempty"`
	API       string            `json:"api,omitempty"`
	Provider  string            `json:"provider,omitempty"`
	Model     string            `json:"model,omitempty"`
	Usage     *piUsage          `json:"usage,omitempty"`
	Stop      string            `json:"stopReason,omitempty"`
	Error     string            `json:"errorMessage,omitempty"`
	Timestamp int64             `json:"timestamp"`
}

type piUsage struct {
	Input      int64  `json:"input"`
	Output     int64  `json:"output"`
	CacheRead  int64  `json:"cacheRead"`
	CacheWrite int64  `json:"cacheWrite"`
	Reasoning  int64  `json:"reasoning,omitempty"`
	Total      int64  `json:"totalTokens"`
	Cost       piCost `json:"cost"`
}

// piCost is zero: a history has no prices.
type piCost struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cacheRead"`
	CacheWrite int64 `json:"cacheWrite"`
	Total      int64 `json:"total"`
}

// piVersion is the version of pi's format with ids and parents.
const piVersion = 3

// Pi writes a session file of pi: one entry a line, with all branches.
func Pi(w io.Writer, d *Document) (*Losses, error) {
	x := &piWriter{w: w, lost: &Losses{}, of: make(map[events.NodeID]string), kept: make(map[events.Seq]events.NodeID)}
	header := piHeader{Type: "session", Version: piVersion, ID: string(d.Session), Timestamp: stamp(d.Began)}
	if err := x.line(header); err != nil {
		return x.lost, err
	}
	for i := range d.Entries {
		if ev := d.Entries[i].Event; ev != nil {
			if opened, ok := ev.Payload.(*events.FrameOpened); ok {
				x.kept[d.Entries[i].Seq] = opened.Keep
			}
		}
	}
	for i := range d.Entries {
		if err := x.entry(&d.Entries[i]); err != nil {
			return x.lost, err
		}
	}
	return x.lost, nil
}

type piWriter struct {
	w      io.Writer
	lost   *Losses
	of     map[events.NodeID]string     // the last entry of each node
	tip    events.NodeID                // the newest node
	last   string                       // id of the entry before; empty for the first
	kept   map[events.Seq]events.NodeID // the first node that a new frame keeps, by the commit that opened it
	config events.Config
}

func (x *piWriter) line(v any) error {
	line, err := encode(v)
	if err == nil {
		_, err = x.w.Write(line)
	}
	return err
}

// put writes an entry below another one.
func (x *piWriter) put(e piEntry, at events.Millis, parent string) error {
	e.Timestamp = stamp(at)
	if parent != "" {
		e.ParentID = &parent
	}
	if e.Message != nil {
		e.Message.Timestamp = int64(at)
	}
	x.last = e.ID
	return x.line(e)
}

func (x *piWriter) entry(e *Entry) error {
	switch {
	case e.Node != nil:
		return x.node(e)
	case e.Reply != nil:
		return x.put(piEntry{Type: "message", ID: e.ID, Message: x.reply(nil, e)}, e.At, x.last)
	}
	if p, ok := e.Event.Payload.(*events.SessionConfigured); ok {
		return x.configured(e, p.Config)
	}
	x.lost.Add(lostEvents)
	return nil
}

func (x *piWriter) configured(e *Entry, c events.Config) error {
	before := x.config
	x.config = c
	if c.Provider == before.Provider && c.Model == before.Model {
		x.lost.Add(lostEvents)
		return nil
	}
	return x.put(piEntry{Type: "model_change", ID: e.ID, Provider: c.Provider, ModelID: c.Model}, e.At, x.last)
}

// node writes a node: one entry, or one for each result.
func (x *piWriter) node(e *Entry) error {
	n := e.Node
	parent := x.of[n.Parent]
	if n.Parent == x.tip {
		parent = x.last // entries without nodes, as changes of the model, are between them
	}
	defer func() { x.of[n.ID], x.tip = x.last, n.ID }()
	if n.Kind != events.NodeMessage {
		return x.custom(e, parent)
	}
	m := &n.Message
	switch m.Role {
	case events.RoleAssistant:
		return x.put(piEntry{Type: "message", ID: e.ID, Message: x.reply(m.Parts, e)}, e.At, parent)
	case events.RoleSystem:
		x.lost.Add(lostSystem)
		x.last = parent
		return nil
	case events.RoleUser:
	}
	if m.Origin == "compaction" {
		kept := cmp.Or(string(x.kept[e.Seq]), e.ID) // its own id: it keeps nothing
		return x.put(piEntry{Type: "compaction", ID: e.ID, Summary: new(m.Text()), FirstKept: kept, Before: new(int64(0))}, e.At, parent)
	}
	if m.Origin != "" {
		x.lost.Add(lostOrigin)
	}
	return x.user(e, parent)
}

// user writes a message, with the results in it as entries of their own.
func (x *piWriter) user(e *Entry, parent string) error {
	x.last = parent
	var rest []json.RawMessage
	var result *piMessage
	n := 0
	flush := func() error {
		if result == nil {
			return nil
		}
		id := e.ID
		if n++; n > 1 {
			id += "-" + strconv.Itoa(n)
		}
		err := x.put(piEntry{Type: "message", ID: id, Message: result}, e.At, x.last)
		result = nil
		return err
	}
	for i := range e.Node.Message.Parts {
		p := &e.Node.Message.Parts[i]
		switch {
		case isCancelledByRuntime(p):
			x.lost.Add(lostCancelled)
		case p.Kind == events.PartToolResult:
			if err := flush(); err != nil {
				return err
			}
			if p.Outcome == events.OutcomeLost || p.Outcome == events.OutcomeCancelled {
				x.lost.Add(lostLost)
			}
			id := string(p.Call)
			result = &piMessage{Role: "toolResult", CallID: &id, Tool: p.Tool, IsError: new(p.Outcome != events.OutcomeSuccess), Content: []json.RawMessage{textPart(p.Text)}}
		case result != nil:
			result.Content = append(result.Content, x.part(p))
		default:
			rest = append(rest, x.part(p))
		}
	}
	if result == nil && n == 0 && (len(rest) > 0 || len(e.Node.Message.Parts) == 0) {
		if rest == nil {
			rest = []json.RawMessage{}
		}
		result = &piMessage{Role: "user", Content: rest}
	}
	return flush()
}

func (x *piWriter) reply(parts []events.Part, e *Entry) *piMessage {
	m := &piMessage{Role: "assistant", Content: []json.RawMessage{}, Stop: "stop", API: "lash", Usage: &piUsage{}}
	for i := range parts {
		m.Content = append(m.Content, x.part(&parts[i]))
	}
	if r := e.Reply; r != nil {
		m.Provider, m.Model, m.Error = r.Provider, r.Model, r.Detail
		m.Stop = piStop(r.Stop)
		m.Usage = &piUsage{Input: r.Usage.Input, Output: r.Usage.Output, CacheRead: r.Usage.CacheRead, CacheWrite: r.Usage.CacheWrite, Reasoning: r.Usage.Reasoning, Total: r.Usage.Total()}
	}
	m.Provider, m.Model = cmp.Or(m.Provider, "unknown"), cmp.Or(m.Model, "unknown")
	return m
}

// piStop is pi's word for the end of a reply.
func piStop(s events.StopReason) string {
	switch s {
	case events.StopToolUse:
		return "toolUse"
	case events.StopOutputLimit:
		return "length"
	case events.StopCancelled:
		return "aborted"
	case events.StopProviderError, events.StopContextOverflow, events.StopContentFilter:
		return "error"
	case events.StopEnd, events.StopUnknown:
	}
	return "stop"
}

func (x *piWriter) part(p *events.Part) json.RawMessage {
	o := make(map[string]any)
	if len(p.Meta) > 0 && p.Kind != events.PartAttachment && json.Unmarshal(p.Meta, &o) != nil {
		x.lost.Add(lostMeta)
	}
	switch p.Kind {
	case events.PartText:
		return textPart(p.Text)
	case events.PartReasoning:
		o["type"], o["thinking"] = "thinking", p.Text
	case events.PartToolCall:
		o["type"], o["id"], o["name"] = "toolCall", string(p.Call), p.Tool
		o["arguments"] = x.arguments(p.Args)
	case events.PartAttachment:
		if len(p.Meta) > 0 && json.Valid(p.Meta) {
			return p.Meta
		}
		if !strings.HasPrefix(p.MediaType, "image/") || strings.HasPrefix(p.Text, "http") { // pi would send it as the bytes of a picture
			x.lost.Add(lostKinds)
			return textPart(fmt.Sprintf("[an attachment of type %q]", p.MediaType))
		}
		o["type"], o["data"], o["mimeType"] = "image", p.Text, p.MediaType
	case events.PartToolResult: // beside others in a reply
		x.lost.Add(lostParts)
		return textPart(p.Text)
	}
	return raw(o)
}

// arguments are those of a call, an object. pi knows no others: they are a text in one.
func (x *piWriter) arguments(args []byte) any {
	var compact bytes.Buffer
	switch {
	case len(args) == 0:
		return map[string]any{}
	case json.Compact(&compact, args) != nil || compact.Bytes()[0] != '{':
		x.lost.Add(lostForeign)
		return map[string]any{"arguments": string(args)}
	case compact.Len() != len(args):
		x.lost.Add(lostSpaces)
	}
	return json.RawMessage(args)
}

// custom writes a node of a plugin or protocol. One that came from a file of pi is written as it was there, with the ids of
// this file.
func (x *piWriter) custom(e *Entry, parent string) error {
	var entry map[string]json.RawMessage
	if len(e.Node.Type) > 3 && e.Node.Type[:3] == "pi." && json.Unmarshal(e.Node.Body, &entry) == nil {
		entry["id"] = raw(e.ID)
		entry["parentId"] = raw(nil)
		if parent != "" {
			entry["parentId"] = raw(parent)
		}
		x.last = e.ID
		return x.line(entry)
	}
	body := json.RawMessage(e.Node.Body)
	if !json.Valid(body) {
		body = raw(string(body))
	}
	return x.put(piEntry{Type: "custom", ID: e.ID, Custom: e.Node.Type, Data: body}, e.At, parent)
}

func stamp(at events.Millis) string { return at.Time().UTC().Format(time.RFC3339Nano) }
