package recording

import "strings"

// FormatCodex is a rollout of Codex: what happened, with items of the Responses API, one in each line.
const FormatCodex Format = "codex"

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

func (f *file) openCodex(line int, head object) (*codexReader, error) {
	h := fields{o: head}
	r := &codexReader{id: h.text("id"), from: h.text("forked_from_id"), itemReader: itemReader{reply: -1, provider: h.text("model_provider")}}
	if h.err != nil {
		return nil, h.err
	}
	r.s = f.open(FormatCodex, r.id, line)
	if kindOf(head["base_instructions"]) == '{' || kindOf(head["instructions"]) == '"' {
		r.s.lose("base instructions")
	}
	f.codex, f.items, f.last = r, &r.itemReader, r.s
	return r, nil
}

func (f *file) addCodex(line int, o object, kind string) error {
	p, err := o.object("payload")
	if err != nil {
		return err
	}
	r := f.codex
	if kind == "session_meta" {
		id, _, err := p.str("id")
		if err == nil && (r == nil || id != r.id && id != r.from) { // a fork begins with a copy, header and all
			_, err = f.openCodex(line, p)
		}
		return err
	}
	if r == nil {
		if r, err = f.openCodex(line, object{}); err != nil {
			return err
		}
	}
	v := fields{o: p}
	switch kind {
	case "response_item":
		return r.item(line, p)
	case "compacted":
		history, err := p.list("replacement_history")
		v.setError(err)
		r.add(Entry{Kind: EntryCompaction, Line: line, Compaction: Compaction{Summary: v.text("message"), FirstKept: -1}})
		r.reply = -1
		for range history {
			r.s.lose("items that a compaction retained")
		}
	case "turn_context":
		c := Config{Model: v.text("model"), Provider: r.provider, Thinking: v.text("effort")}
		if c != r.config {
			r.add(Entry{Kind: EntryConfig, Line: line, Config: c})
		}
		r.config, r.model = c, c.Model
	case "token_usage_record":
		r.ended(p, "usage", "")
	case "event_msg":
		said := v.text("type")
		info, _ := p.object("info")
		switch said {
		case "token_count":
			r.ended(info, "last_token_usage", "")
		case "thread_rolled_back":
			r.rollBack(v.count("num_turns"))
		default:
			r.s.lose(said + " events")
		}
	default:
		r.s.lose(kind + " lines")
	}
	return v.err
}

// rollBack lets the next entry follow the one before the last turns.
func (r *codexReader) rollBack(turns int64) {
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
