package exchange

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/session/turn"
)

// Names of the record that audits exchange: the grammar of draft-birkholz-verifiable-agent-conversations. It is work in
// progress, so its names are in this file and in recordsign.go only.
const (
	recordVersion = "3.0.0"
	recordFormat  = "ietf-vac-v3.0" // the canonical trace format
	recordVendor  = "lash"

	typeUser      = "user"
	typeAssistant = "assistant"
	typeCall      = "tool-call"
	typeResult    = "tool-result"
	typeReasoning = "reasoning"
	typeEvent     = "system-event"

	statusSuccess = "success"
	statusError   = "error"

	unknownName = "unknown" // a required name that the history lacks
)

// Record is a Verifiable Agent Conversation record.
type Record struct {
	Version   string         `json:"version"`
	ID        string         `json:"id"`
	Created   string         `json:"created,omitempty"`
	Recording *RecordAgent   `json:"recording-agent,omitempty"`
	Session   RecordSession  `json:"session"`
	Head      *RecordHead    `json:"head,omitempty"`   // a further field: the commitment to the history
	Limits    map[string]any `json:"limits,omitempty"` // a further field: what a verifier does not prove

	Redactions []RecordRedaction `json:"redactions,omitempty"` // a further field: what was removed from the history, in order
}

// RecordAgent is the program that wrote the record.
type RecordAgent struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
}

// RecordHead is a commitment to a history: its length, the root of the tree of its commits (package proof), and up to which
// commit the history has a signed head.
type RecordHead struct {
	Size   int64  `json:"size"`                  // number of commits
	Root   string `json:"root"`                  // hex
	Signed int64  `json:"signed-size,omitempty"` // number of commits under the last signed head in the history
}

// RecordRedaction says that payloads were removed from the history.
type RecordRedaction struct {
	At     string   `json:"at"`
	By     string   `json:"by"`
	Reason string   `json:"reason"`
	What   []string `json:"what"`                  // kinds, patterns of kinds, and ids of events
	Events int64    `json:"events"`                // number of payloads
	Note   string   `json:"signed-note,omitempty"` // the same, signed by a node's key
}

// RecordSession is the session of a record.
type RecordSession struct {
	ID      events.SessionID `json:"session-id"`
	Agent   RecordMeta       `json:"agent-meta"`
	Format  string           `json:"format,omitempty"`
	Start   string           `json:"session-start,omitempty"`
	End     string           `json:"session-end,omitempty"`
	Entries []RecordEntry    `json:"entries"`
	Parent  events.SessionID `json:"parent-session,omitempty"` // a further field
}

// RecordMeta names models and program.
type RecordMeta struct {
	Model    string   `json:"model-id"`
	Provider string   `json:"model-provider"`
	Models   []string `json:"models,omitempty"`
	CLI      string   `json:"cli-name,omitempty"`
	Version  string   `json:"cli-version,omitempty"`
}

// RecordEntry is one entry. Message, Position, Outcome, Stop, Detail, Provider and Arguments are further fields: with them
// the record is read back as the same conversation.
type RecordEntry struct {
	Type      string         `json:"type"`
	ID        string         `json:"id,omitempty"`
	Parent    string         `json:"parent-id,omitempty"`
	Timestamp int64          `json:"timestamp,omitempty"` // UTC, milliseconds
	Content   any            `json:"content,omitempty"`
	Name      string         `json:"name,omitempty"`
	Input     any            `json:"input,omitempty"`
	Output    *string        `json:"output,omitempty"`
	CallID    *string        `json:"call-id,omitempty"`
	Status    string         `json:"status,omitempty"`
	IsError   *bool          `json:"is-error,omitempty"`
	Model     string         `json:"model-id,omitempty"`
	Usage     *RecordUsage   `json:"token-usage,omitempty"`
	EventType string         `json:"event-type,omitempty"`
	Data      map[string]any `json:"data,omitempty"`
	Children  []RecordEntry  `json:"children,omitempty"` // of the child sessions that an event is the first to name

	Message   string        `json:"message-id,omitempty"` // of parts of a reply, and of results: the message that they are parts of
	Position  *int          `json:"position,omitempty"`   // among the parts of the message
	Outcome   string        `json:"outcome,omitempty"`    // of a result: failure, cancelled, lost
	Arguments *string       `json:"arguments,omitempty"`  // of a call: the text that the model wrote
	Blocks    []RecordBlock `json:"attachments,omitempty"`
	Stop      string        `json:"stop-reason,omitempty"`
	Detail    string        `json:"stop-detail,omitempty"`
	Provider  string        `json:"model-provider,omitempty"`
	Meta      string        `json:"provider-data,omitempty"` // JSON of the provider
	Empty     bool          `json:"without-content,omitempty"`
	Author    string        `json:"plugin,omitempty"` // that wrote a message
	Tool      string        `json:"tool,omitempty"`   // of a result
}

// RecordBlock is a part of a message's content.
type RecordBlock struct {
	Type     string `json:"type"` // "text" or "attachment"
	Text     string `json:"text,omitempty"`
	Media    string `json:"media-type,omitempty"`
	Meta     string `json:"provider-data,omitempty"`
	Position int    `json:"position"`
}

// RecordUsage counts tokens.
type RecordUsage struct {
	Input     int64 `json:"input"`
	Output    int64 `json:"output"`
	Cached    int64 `json:"cached"`
	Reasoning int64 `json:"reasoning"`
	Total     int64 `json:"total"`
}

// RecordOptions are optional parts of a record.
type RecordOptions struct {
	Program, Version string // that writes the record
}

// NewRecord makes the record of a session.
func NewRecord(d *Document, o RecordOptions) *Record {
	b := newRecorder(maps.Clone(d.Children))
	b.document(d)
	r := &Record{
		Version: recordVersion, ID: fmt.Sprintf("%s@%d", d.Session, d.Commits), Created: stamp(d.Ended),
		Head:      &RecordHead{Size: int64(d.Commits), Root: hex.EncodeToString(d.Root[:]), Signed: int64(d.Signed)},
		Recording: &RecordAgent{Name: cmp.Or(o.Program, recordVendor), Version: o.Version},
		Session: RecordSession{
			ID: d.Session, Format: "interactive", Start: stamp(d.Began), End: stamp(d.Ended), Entries: b.list, Parent: d.Parent,
			Agent: RecordMeta{Model: cmp.Or(d.Config.Model, unknownName), Provider: cmp.Or(d.Config.Provider, unknownName), Models: b.models, CLI: recordVendor, Version: o.Version},
		},
		Limits: map[string]any{"not-proved": []string{
			"that the texts of models and tools are true", "that no other session exists", "that the history is not longer: only a newer head from another place shows that",
		}},
	}
	for _, one := range d.Redactions {
		r.Redactions = append(r.Redactions, RecordRedaction{stamp(one.At), one.By, one.Reason, one.What, one.Events, one.Note})
	}
	if r.Session.Entries == nil {
		r.Session.Entries = []RecordEntry{}
	}
	if d.Config.Model == "" && len(b.models) > 0 {
		r.Session.Agent.Model = b.models[len(b.models)-1]
	}
	if d.Config.Provider == "" && b.provider != "" {
		r.Session.Agent.Provider = b.provider
	}
	return r
}

// recorder collects the entries of a record.
type recorder struct {
	list     []RecordEntry
	models   []string // in the order of their first reply
	provider string   // of the last reply
	calls    map[events.TurnID][]openCall
	children map[events.SessionID]*Document // those that are in no entry yet
}

// openCall is a call without a result yet.
type openCall struct {
	id     events.CallID
	effect events.EffectID
}

func (b *recorder) add(e RecordEntry, at events.Millis) {
	e.Timestamp = int64(at)
	b.list = append(b.list, e)
}

func (b *recorder) entry(e *Entry) {
	if r := e.Reply; r != nil {
		if r.Model != "" && !slices.Contains(b.models, r.Model) {
			b.models = append(b.models, r.Model)
		}
		b.provider = cmp.Or(r.Provider, b.provider)
	}
	switch {
	case e.Node != nil && e.Node.Kind != events.NodeMessage:
		b.add(RecordEntry{Type: typeEvent, ID: e.ID, Parent: string(e.Node.Parent), EventType: "node." + string(e.Node.Kind), Data: map[string]any{"type": e.Node.Type, "body": string(e.Node.Body)}}, e.At)
	case e.Node != nil && e.Node.Message.Role == events.RoleAssistant:
		b.reply(e, e.Node.Message.Parts)
	case e.Node != nil:
		b.message(e)
	case e.Reply != nil:
		b.reply(e, nil)
	default:
		b.event(e)
	}
}

// event adds an event that no entry of a message has.
func (b *recorder) event(e *Entry) {
	switch e.Event.Payload.(type) {
	case *events.TurnRequested, *events.ToolReturned, *events.ModelReplied:
		return
	}
	data, _ := anyOf(eventjson.Value{V: e.Event.Payload}).(map[string]any)
	if e.Event.Payload == nil {
		data = map[string]any{"version": e.Event.V, "msgpack": fmt.Sprintf("%x", e.Event.Raw)}
	}
	if data == nil {
		data = map[string]any{}
	}
	data["actor"] = e.Actor.String()
	if e.Turn != "" {
		data["turn"] = string(e.Turn)
	}
	b.add(RecordEntry{Type: typeEvent, ID: e.ID, EventType: string(e.Event.Kind), Data: data, Children: b.childEntries(e)}, e.At)
}

// reply adds a reply: the message, then its reasoning and calls with their positions.
func (b *recorder) reply(e *Entry, parts []events.Part) {
	m := RecordEntry{Type: typeAssistant, ID: e.ID, Empty: e.Node == nil}
	if e.Node != nil {
		m.Parent, m.Author = string(e.Node.Parent), e.Node.Message.Origin
	}
	if r := e.Reply; r != nil {
		m.Model, m.Provider, m.Stop, m.Detail = r.Model, r.Provider, string(r.Stop), r.Detail
		if !r.Usage.IsZero() {
			m.Usage = &RecordUsage{r.Usage.Input + r.Usage.CacheRead + r.Usage.CacheWrite, r.Usage.Output, r.Usage.CacheRead, r.Usage.Reasoning, r.Usage.Total()}
		}
	}
	m.Content = blocksOf(parts)
	b.add(m, e.At)
	calls := int64(0)
	for i := range parts {
		p, one := &parts[i], RecordEntry{Message: e.ID, Position: new(i), Meta: string(parts[i].Meta), ID: e.ID + "/" + strconv.Itoa(i)}
		switch p.Kind {
		case events.PartReasoning:
			one.Type, one.Content = typeReasoning, p.Text
		case events.PartToolCall:
			effect := events.EffectID(e.ID + "/call/" + strconv.FormatInt(calls, 10)) // of a reply that a host appended
			if e.Reply != nil {
				effect = turn.ToolEffect(e.Turn, e.Reply.Iteration, calls)
			}
			calls++
			b.calls[e.Turn] = append(b.calls[e.Turn], openCall{p.Call, effect})
			one.Type, one.ID, one.Name, one.CallID, one.Arguments = typeCall, string(effect), p.Tool, new(string(p.Call)), new(string(p.Args))
			one.Input = inputOf(p.Args)
		case events.PartText, events.PartAttachment, events.PartToolResult:
			continue
		}
		b.add(one, e.At)
	}
}

// blocksOf are the texts and attachments of a message.
func blocksOf(parts []events.Part) []RecordBlock {
	list := []RecordBlock{}
	for i := range parts {
		switch p := &parts[i]; p.Kind {
		case events.PartText:
			list = append(list, RecordBlock{Type: "text", Text: p.Text, Position: i})
		case events.PartAttachment:
			list = append(list, RecordBlock{Type: "attachment", Text: p.Text, Media: p.MediaType, Meta: string(p.Meta), Position: i})
		case events.PartReasoning, events.PartToolCall, events.PartToolResult:
		}
	}
	return list
}

// message adds a message of a user or the system, or results.
func (b *recorder) message(e *Entry) {
	m := &e.Node.Message
	if m.Role == events.RoleSystem {
		b.add(RecordEntry{Type: typeEvent, ID: e.ID, Parent: string(e.Node.Parent), EventType: "message.system", Data: map[string]any{"content": blocksOf(m.Parts)}}, e.At)
		return
	}
	var rest []events.Part
	last := -1 // the result of attachments
	for i := range m.Parts {
		p := &m.Parts[i]
		if p.Kind == events.PartToolResult {
			b.result(e, p, i)
			last = len(b.list) - 1
			continue
		}
		if last >= 0 {
			b.list[last].Blocks = append(b.list[last].Blocks, blocksOf(m.Parts[i:i+1])...)
			continue
		}
		rest = append(rest, *p)
	}
	if last < 0 {
		b.add(RecordEntry{Type: typeUser, ID: e.ID, Parent: string(e.Node.Parent), Content: blocksOf(rest), Author: m.Origin}, e.At)
	}
}

func (b *recorder) result(e *Entry, p *events.Part, position int) {
	one := RecordEntry{
		Type: typeResult, ID: e.ID + "/" + strconv.Itoa(position), Parent: string(e.Node.Parent), Message: e.ID, Output: new(p.Text), CallID: new(string(p.Call)),
		Status: statusSuccess, IsError: new(p.Outcome != events.OutcomeSuccess), Outcome: string(p.Outcome), Position: &position, Tool: p.Tool,
	}
	if p.Outcome != events.OutcomeSuccess {
		one.Status = statusError
	}
	open := b.calls[e.Turn]
	for i := range open {
		if open[i].id == p.Call {
			one.ID = string(open[i].effect) + "/result"
			b.calls[e.Turn] = slices.Delete(open, i, i+1)
			break
		}
	}
	b.add(one, e.At)
}
