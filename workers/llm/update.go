package llm

import (
	"regexp"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
)

// Update is what one event of a stream says about its reply, in the words of no wire. The zero value says nothing.
type Update struct {
	Pieces  []Piece
	Choice  Number // of several replies that the update is about: 0 counts, or the first one where 0 does not come
	Unknown bool   // the event is none of the wire's own
	Whole   bool   // the pieces are those of the whole reply: they count only if no other has been received
	Model   string
	ID      string // of the reply
	Usage   Counts
	End     *End
	Done    bool // no event follows
	Failure *Failure
}

// Piece is a piece of a part. It continues a part of its kind, whatever the kind of the block or item that it comes in:
//
//   - with Item the one with its ID; if its ID began none, the one with its Index that began and is not done
//   - else the one with its Index, or with its ID, or the latest if it has neither
//
// If there is none, it begins one. A new id without a name begins no call, and a call that is whole ends where another whole one comes.
type Piece struct {
	Kind  events.PartKind // text, reasoning or tool_call; empty begins a part that is left out
	Begin bool            // the piece begins a part, whatever its Index
	ID    string          // may be empty
	Item  bool            // the ID names the part
	Done  bool            // the piece ends its item
	Index *Number

	Text      string // of the part, or of the call's arguments; it may begin and end inside a character
	Whole     bool   // Text is that of the whole part: it counts what was not received before
	Refused   bool   // Text is the model's refusal
	Cut       bool   // the endpoint says that the part is not complete
	Paragraph Number // a piece of another paragraph than that of the piece before it begins after an empty line

	Call      events.CallID
	Tool      string  // a name may be in several pieces; one that is repeated counts once
	Signature string  // joined with that of other pieces
	Fields    Members // what the endpoint wants back with the part, see [Prepared.Own]; lists are joined
}

// End is why a reply ended.
type End struct {
	Reason string // in the spelling of any wire; empty if the endpoint gives none
	Detail string // for the diagnostic of an end that is not a good one
}

// ends are the reasons of all wires and providers by their meaning, spelled with letters only. Sources: the API references
// of OpenAI, Anthropic, Gemini, Bedrock, Titan, Mistral, Cohere, DeepSeek, GLM, Qianfan, Together, watsonx, Aleph Alpha, TGI, vLLM and Ollama.
var ends = map[events.StopReason]string{ //nolint:gochecknoglobals // a table that is only read
	events.StopEnd:     "stop endturn completed complete eos eostoken endoftext endofsequence eosfound stoptoken finish finished normal",
	events.StopToolUse: "toolcalls toolcall tooluse functioncall functioncalls",
	events.StopOutputLimit: "length maxlength maxtokens maxoutputtokens maxcompletiontokens maxnewtokens maximumtokens tokenlimit " +
		"outputlimit maxpredictedtokensreached",
	events.StopContentFilter: "contentfilter contentfiltered refusal safety imagesafety recitation imagerecitation blocklist " +
		"prohibitedcontent imageprohibitedcontent spii guardrailintervened sensitive errortoxic contentpolicyviolation contentpolicy moderation modelarmor",
	events.StopContextOverflow: "modelcontextwindowexceeded contextwindowexceeded contextlengthexceeded contextlengthreached modellength errorlimit",
}

// broken matches the reasons that name an error.
var broken = regexp.MustCompile("error|exception|^(aborted|abort|timeout|timelimit|insufficientsystemresource|overloaded|failed)$")

// meaning is that of a name in a table of names.
func meaning[T ~string](of map[T]string, name string) (meant T) {
	for m, names := range of {
		if slices.Contains(strings.Fields(names), name) {
			meant = m
		}
	}
	return meant
}

// stop is the meaning of a reason. stops are the texts that the request stops at: without any, a stop sequence is no known
// end. failed is true if the reason names an error.
func (e End) stop(stops []string) (reason events.StopReason, failed bool) {
	name := strings.TrimPrefix(strings.TrimPrefix(lettersOf(e.Reason), "finishreason"), "stopreason") // of names of enumerations
	reason = meaning(ends, name)
	switch {
	case reason != "":
		return reason, false
	case name == "stopsequence" && len(stops) > 0:
		return events.StopEnd, false
	}
	return events.StopUnknown, broken.MatchString(name)
}

// lettersOf are the letters of a name, in lower case: a name has several spellings.
func lettersOf(name string) string {
	return strings.Map(func(r rune) rune {
		if r < 'a' || r > 'z' {
			return -1
		}
		return r
	}, strings.ToLower(name))
}
