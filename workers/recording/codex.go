package recording

import (
	"encoding/json"
	"strings"
)

// FormatCodex is a rollout of Codex: what happened, with items of the Responses API, one in each line.
const FormatCodex Format = "codex"

// codexPayload is what a line of any type has.
type codexPayload struct {
	ID           string            `json:"id"`
	From         string            `json:"forked_from_id"`
	Provider     string            `json:"model_provider"`
	Base         json.RawMessage   `json:"base_instructions"`
	Instructions json.RawMessage   `json:"instructions"` // of the header before those with payloads
	Type         string            `json:"type"`
	Message      string            `json:"message"`
	Retained     []json.RawMessage `json:"replacement_history"`
	Model        string            `json:"model"`
	Effort       string            `json:"effort"`
	Turns        count             `json:"num_turns"`
	Usage        *usage            `json:"usage"`
	Info         struct {
		Usage *usage `json:"last_token_usage"`
	} `json:"info"`
}

// codexReader reads the lines of one rollout.
type codexReader struct {
	itemReader
	id     string
	from   string // id of the session that this one was forked from
	config Config
}

// isCodex reports whether a line is of a rollout.
func isCodex(o object) bool { return kindOf(o["payload"]) == '{' && kindOf(o["timestamp"]) == '"' }

// isOldCodex reports whether a line is the header of a rollout before those with payloads. Its items follow as they are.
func isOldCodex(o object) bool {
	_, instructed := o["instructions"]
	_, repository := o["git"]
	return kindOf(o["id"]) == '"' && kindOf(o["timestamp"]) == '"' && kindOf(o["type"]) == 'n' && (instructed || repository)
}

func (f *file) openCodex(line int, head *codexPayload) {
	f.codex = &codexReader{id: head.ID, from: head.From, itemReader: itemReader{s: f.open(FormatCodex, head.ID, line), reply: -1, provider: head.Provider}}
	f.items, f.last = &f.codex.itemReader, f.codex.s
	if kindOf(head.Base) == '{' || kindOf(head.Instructions) == '"' {
		f.last.conv.Lost["base instructions"]++
	}
}

func (f *file) addCodex(line int, raw json.RawMessage, kind string) error {
	p, err := into[codexPayload](raw)
	if kind == "session_meta" {
		if err == nil && (f.codex == nil || p.ID != f.codex.id && p.ID != f.codex.from) { // a fork begins with a copy, header and all
			f.openCodex(line, &p)
		}
		return err
	}
	if f.codex == nil {
		f.openCodex(line, &codexPayload{})
	}
	r := f.codex
	switch kind {
	case "response_item":
		return r.item(line, raw)
	case "compacted":
		r.add(Entry{Kind: EntryCompaction, Line: line, Compaction: Compaction{Summary: p.Message, FirstKept: -1}})
		if n := len(p.Retained); n > 0 {
			r.s.conv.Lost["items that a compaction retained"] += n
		}
		return err
	case "turn_context":
		c := Config{Model: p.Model, Provider: r.provider, Thinking: p.Effort}
		if c != r.config {
			r.add(Entry{Kind: EntryConfig, Line: line, Config: c})
		}
		r.config, r.model = c, c.Model
		return err
	case "token_usage_record":
		r.ended(p.Usage)
	case "event_msg":
		switch p.Type {
		case "token_count":
			r.ended(p.Info.Usage)
		case "thread_rolled_back":
			r.rollBack(p.Turns)
		default:
			r.s.conv.Lost[p.Type+" events"]++
		}
	default:
		r.s.conv.Lost[kind+" lines"]++
	}
	return nil
}

// rollBack lets the next entry follow the one before the last turns.
func (r *codexReader) rollBack(turns count) {
	for at := r.parent; at != "" && turns > 0; {
		e := &r.s.conv.Entries[r.s.ids[at]]
		if at = e.Parent; e.Kind == EntryUser && !isContext(e.Message.Text()) {
			r.parent = at
			turns--
		}
	}
	r.reply = -1
}

// isContext reports whether a message is what Codex tells the model of its surroundings, which begins no turn.
func isContext(text string) bool {
	for _, begins := range []string{"<environment_context>", "<user_instructions>", "# AGENTS.md instructions"} {
		if strings.HasPrefix(text, begins) {
			return true
		}
	}
	return false
}
