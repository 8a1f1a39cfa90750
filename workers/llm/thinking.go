package llm

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
)

// tags are what thinking stands between where an endpoint passes a model's own text on.
var tags = []string{ //nolint:gochecknoglobals // a table that is only read
	"<think> </think>", "<thinking> </thinking>", "<thought> </thought>", "<reasoning> </reasoning>", "<seed:think> </seed:think>",
	"<|START_THINKING|> <|END_THINKING|>", "<|begin_of_thought|> <|end_of_thought|>", "[THINK] [/THINK]", "◁think▷ ◁/think▷",
	"<|channel|>analysis<|message|> <|end|><|start|>assistant<|channel|>final<|message|>",
}

const (
	blanks  = " \t\r\n"
	lastTag = "</think>" // ends the thinking of models whose prompts end with the tag that begins it: the first time it has been shown by then
)

// unopened are the thinking and the answer of a text that has the end of thinking, and not its begin.
func unopened(text string) (thought, answer string, found bool) {
	thought, answer, found = strings.Cut(text, lastTag)
	quoted := strings.HasSuffix(thought, "`") || strings.HasSuffix(thought, `"`) || strings.HasSuffix(thought, "'")
	return thought, strings.TrimLeft(answer, blanks), found && !quoted && !strings.Contains(thought, "<think")
}

// tagged is where the reading of a text stands: thinking between tags at its begin is thinking.
type tagged struct {
	state   tagState
	end     string     // the tag that ends the thinking
	thought *assembled // what is between the tags
	held    string     // may belong to a tag
	implied bool       // the tag that begins the thinking was not received
}

type tagState int

const (
	atBegin  tagState = iota
	thinking          // after the first tag
	between           // white space after the last tag
	speaking
)

// say adds whole characters to a part. Those of a text may be thinking.
func (a *assembly) say(part *assembled, text string) {
	if part.part.Kind != events.PartText {
		a.append(part, text)
		return
	}
	for text = part.tagged.held + text; text != ""; {
		t := &part.tagged
		t.held = ""
		switch t.state {
		case atBegin:
			open, end, wait := opening(text)
			t.implied = end == "" && a.request.Learned(endsThinking) != nil
			switch {
			case wait:
				t.held = text
				return
			case t.implied:
				t.state, t.end, t.thought = thinking, lastTag, a.before(part)
			case end == "":
				t.state = speaking
			default:
				t.state, t.end, t.thought = thinking, end, a.before(part)
				text = strings.TrimLeft(strings.TrimLeft(text, blanks)[len(open):], "\r\n")
			}
		case thinking:
			at, found := tagAt(text, t.end)
			a.append(t.thought, text[:at])
			if !found {
				t.held = text[at:]
				return
			}
			t.state, text = between, text[at+len(t.end):]
		case between:
			if text = strings.TrimLeft(text, blanks); text != "" {
				t.state = speaking
			}
		case speaking:
			a.append(part, text)
			return
		}
	}
}

// opening is the tag at the begin of text, and the one that ends it. wait: more of the text must come first.
func opening(text string) (open, end string, wait bool) {
	text = strings.TrimLeft(text, blanks)
	for _, tag := range tags {
		open, end, _ := strings.Cut(tag, " ")
		if strings.HasPrefix(text, open) {
			return open, end, false
		}
		wait = wait || strings.HasPrefix(open, text)
	}
	return "", "", wait
}

// tagAt is the place of tag in text; without it that of the rest that may begin it.
func tagAt(text, tag string) (at int, found bool) {
	if at := strings.Index(text, tag); at >= 0 {
		return at, true
	}
	for n := min(len(tag)-1, len(text)); n > 0; n-- {
		if strings.HasSuffix(text, tag[:n]) {
			return len(text) - n, false
		}
	}
	return len(text), false
}

// before begins a part of thinking before one of text.
func (a *assembly) before(part *assembled) *assembled {
	thought := &assembled{part: events.Part{Kind: events.PartReasoning}, fields: map[string][]json.RawMessage{}}
	a.known[place{kind: events.PartReasoning}] = thought
	a.parts = slices.Insert(a.parts, slices.Index(a.parts, part), thought)
	return thought
}
