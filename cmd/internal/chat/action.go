package chat

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/lash-go/lash/events"
)

// Verb is what an action does.
type Verb string

// The verbs. Those with a slash are typed as they stand here.
const (
	Nothing Verb = ""
	Say     Verb = "say"    // Text
	Answer  Verb = "answer" // Effect, Granted, Text: the reason
	Refuse  Verb = "refuse" // the line is no command: Text says why
	Help    Verb = "/help"
	Branch  Verb = "/branch" // Text: a node or the number of one; empty lists them
	Fork    Verb = "/fork"
	Cancel  Verb = "/cancel"
	Compact Verb = "/compact"
	Model   Verb = "/model" // Text: its name
	Show    Verb = "/show"  // Text: the number of a call; empty: of the question, or the last one
	Where   Verb = "/session"
	Quit    Verb = "/quit"
)

// noun is the object of the user's request, in a sentence.
func (v Verb) noun() string {
	switch v {
	case Say:
		return "the prompt"
	case Answer:
		return "the answer"
	default:
		return string(v)
	}
}

// Action is the request of a typed line.
type Action struct {
	Verb    Verb
	Text    string
	Turn    events.TurnID // of Say and Cancel
	Effect  events.EffectID
	Session events.SessionID // of Answer: whose call it is. Empty: the chat's session
	Granted bool
	Node    events.NodeID // of Branch
}

// commands are what /help prints.
//
//nolint:gochecknoglobals // a read-only table
var commands = []struct {
	verb       Verb
	args, help string
	takes      bool // an argument
}{
	{Help, "", "this list", false},
	{Branch, " [NODE]", "go back to an earlier message, and on from there; without NODE: list them", true},
	{Fork, "", "go on in a copy of this session", false},
	{Cancel, "", "stop the running turn, as ctrl-c does", false},
	{Compact, "", "have the model go on with a summary of the conversation", false},
	{Model, " [NAME]", "take another model, from the next call on; without NAME: say which it is", true},
	{Show, " [N]", "all of call #N and its result; without N: of the question, or of the last call", true},
	{Where, "", "the session's id, and how to come back to it", false},
	{Quit, "", "leave; the session stays", false},
}

// HelpLines are what /help prints.
func HelpLines() []Line {
	list := make([]Line, 0, len(commands)+2)
	for _, c := range commands {
		list = append(list, noted(Note, "%-16s %s", string(c.verb)+c.args, c.help))
	}
	return append(list,
		noted(Note, "%-16s %s", "//TEXT", "say a text that begins with a slash"),
		noted(Note, "%-16s %s", "ctrl-c", "cancel the running turn; again, or ctrl-d, leaves. ctrl-j begins a new line"))
}

// Parse reads a line. question is the call that waited for an approval when the user started the line; now is the call
// that waits at this time. An answer counts for the question that the user saw. Both may be empty.
func Parse(line string, question, now events.EffectID) Action {
	text := strings.TrimSpace(line)
	switch {
	case text == "":
		return Action{}
	case strings.HasPrefix(text, "//"):
		return Action{Verb: Say, Text: text[1:]}
	case strings.HasPrefix(text, "/"):
		return command(text)
	}
	granted, reason, is := answer(text)
	switch {
	case !is || now == "" && question == "":
		return Action{Verb: Say, Text: text}
	case question != now:
		return Action{Verb: Refuse, Text: "the question was answered or has changed while you typed: nothing was sent"}
	}
	return Action{Verb: Answer, Effect: now, Granted: granted, Text: reason}
}

// answer reads yes, which may have the JSON of an object that a question asks for, or no with a reason.
func answer(text string) (granted bool, reason string, is bool) {
	word, rest, _ := strings.Cut(text, " ")
	rest = strings.TrimSpace(rest)
	switch strings.ToLower(word) {
	case "y", "yes":
		return true, rest, rest == "" || json.Valid([]byte(rest)) && rest[0] == '{'
	case "n", "no":
		return false, rest, true
	}
	return false, "", false
}

func command(text string) Action {
	word, rest, _ := strings.Cut(text, " ")
	rest = strings.TrimSpace(rest)
	for _, c := range commands {
		if string(c.verb) != word {
			continue
		}
		if rest != "" && !c.takes {
			return Action{Verb: Refuse, Text: fmt.Sprintf("%s takes nothing behind it", word)}
		}
		return Action{Verb: c.verb, Text: rest}
	}
	return Action{Verb: Refuse, Text: fmt.Sprintf("there is no command %s: /help lists them, //TEXT says a text that begins with a slash", word)}
}
